"""Clusters for anybody's pytest: ``pytest_plugins = ["rackward.clusters.pytest_plugin"]``.

It is not registered by itself: installing rackward changes nobody's tests.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from rackward.clusters.local import LocalCluster

MakeCluster = Callable[..., LocalCluster]
"""Takes LocalCluster's arguments."""

_COUNTER = itertools.count()


class UniqueName(Protocol):
    """Makes names that no other test of this run has."""

    def __call__(self, stem: str = ...) -> str:
        """A new name that begins with ``stem``."""


@pytest.fixture(scope="session")
def kafka_clusters() -> Iterator[MakeCluster]:
    """Makes a LocalCluster from its arguments; closes every one at the end of the session.

    A test that closes its own cluster (it may, at once or with ``with``) frees its memory
    for the next.
    """
    with ExitStack() as made:

        def make(*arguments: Any, **options: Any) -> LocalCluster:
            return made.enter_context(LocalCluster(*arguments, **options))

        yield make


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> UniqueName:
    """Names for topics and groups: tests that share a cluster must not share those.

    They carry the test's name, so that a broker's log tells which test it was.
    """
    test = "".join(char if char.isalnum() else "-" for char in request.node.name)[:80]

    def name(stem: str = "name") -> str:
        return f"{stem}.{test}.{os.getpid()}.{next(_COUNTER)}"

    return name
