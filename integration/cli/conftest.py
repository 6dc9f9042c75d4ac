"""Topics of a test of the commands, and what the commands show of topics and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from integration.support.command_line import rackward
from integration.support.topics import create_topic, delete_topic, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

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


def layout(cluster: Cluster, topic: str) -> dict[str, list[int]]:
    """Return the replicas by partition, as in the JSON of the commands."""
    cluster.await_metadata()
    replicas = cluster.view([topic]).replicas
    return {str(tp.partition): list(row) for tp, row in replicas.items()}


def wait_until_stable(cluster: Cluster, ids: Iterable[str], members: int) -> None:
    """Wait until brokers report an assignment of these groups to so many members each."""

    def are_stable() -> bool:
        listed = rackward(cluster, "groups", "list", *ids, "--json").json["groups"]
        return all(row["reason"] is None and row["members"] == members for row in listed)

    wait_until(are_stable, TEST_TIMEOUT, "brokers report all groups as stable")
