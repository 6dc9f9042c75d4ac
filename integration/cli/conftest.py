"""Topics of a test of the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from integration.support.topics import create_topic, delete_topic, new_name
from rackward.testing import Cluster

MakeTopic = Callable[[Cluster, str, Sequence[Sequence[int]]], str]


@pytest.fixture
def make_topic() -> Iterator[MakeTopic]:
    """Return a function that creates a topic with these replicas, and returns its name.

    The name begins with the one given. After the test the topic is deleted.
    """
    with ExitStack() as stack:

        def make(cluster: Cluster, stem: str, rows: Sequence[Sequence[int]]) -> str:
            topic = create_topic(cluster, new_name(stem), rows)
            stack.callback(delete_topic, cluster, topic)
            return topic

        yield make
