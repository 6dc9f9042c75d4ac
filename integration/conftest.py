"""The clusters that the tests run on: the same tests on processes and on containers.

Docker tests are left out, and the summary says so, where no engine answers;
RACKWARD_REQUIRE_DOCKER=1 (CI) makes that a failure instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rackward.clusters import Cluster, DockerCluster, LocalCluster
from rackward.clusters.docker_engine import missing_docker
from rackward.clusters.pytest_plugin import kafka_clusters, unique_name

__all__ = ["cluster", "kafka_clusters", "unique_name"]

RACKS = ("a", "a", "b", "b", "c", "c")
REQUIRE_DOCKER = "RACKWARD_REQUIRE_DOCKER"


# Session scope makes pytest run all tests of one parameter before those of the next, so
# only one of the two clusters is up at a time.
@pytest.fixture(
    scope="session",
    params=["local", pytest.param("docker", marks=pytest.mark.docker)],
)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Six brokers in racks a, a, b, b, c, c with a listener per rack.

    Shared by every test that names it: topics and groups need names of their own
    (`unique_name`), and a test that hurts a broker heals it.
    """
    make = DockerCluster if request.param == "docker" else LocalCluster
    with make(RACKS) as made:
        yield made


# Not once all are collected: pytest-xdist reads the marks then, before this file could add them.
def pytest_itemcollected(item: pytest.Item) -> None:
    """Where tests are spread over processes (``--dist loadgroup``), those of one cluster stay
    in one process, which starts it once, and the others of a file stay together."""
    call = getattr(item, "callspec", None)
    group = call.params.get("cluster", item.path.stem) if call else item.path.stem
    item.add_marker(pytest.mark.xdist_group(group))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave Docker tests out, or fail them, before a fixture tries to reach the engine."""
    if item.get_closest_marker("docker") is None or (reason := missing_docker()) is None:
        return
    if os.environ.get(REQUIRE_DOCKER) == "1":
        pytest.fail(f"{REQUIRE_DOCKER}=1, but {reason}", pytrace=False)
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if count := sum("docker" in report.keywords for report in skipped):
        terminalreporter.write_line(
            f"{count} Docker tests were left out. {REQUIRE_DOCKER}=1 requires them.", yellow=True
        )
