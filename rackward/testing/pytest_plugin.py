"""Fixtures for test suites: ``pytest_plugins = ["rackward.testing.pytest_plugin"]``.

The plugin does not register itself, so installing rackward changes no one's tests.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from rackward.testing.local import LocalCluster

MakeCluster = Callable[..., LocalCluster]
"""Takes the arguments of LocalCluster."""

_COUNTER = itertools.count()


class UniqueName(Protocol):
    """Returns names that no other test of this run uses."""

    def __call__(self, stem: str = ...) -> str:
        """Return a new name that begins with ``stem``."""


@pytest.fixture(scope="session")
def kafka_clusters() -> Iterator[MakeCluster]:
    """Create LocalClusters from their arguments; close all of them at the end of the session.

    A test may close its own cluster earlier, to free memory for the next one.
    """
    with ExitStack() as clusters:

        def make(*arguments: Any, **options: Any) -> LocalCluster:
            return clusters.enter_context(LocalCluster(*arguments, **options))

        yield make


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> UniqueName:
    """Return names for topics and groups, which tests on a shared cluster must not share.

    A name contains the test's name, so that brokers' logs can be attributed to tests.
    """
    test = "".join(char if char.isalnum() else "-" for char in request.node.name)[:80]

    def name(stem: str = "name") -> str:
        return f"{stem}.{test}.{os.getpid()}.{next(_COUNTER)}"

    return name
