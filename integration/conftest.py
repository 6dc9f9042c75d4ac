"""The clusters that the tests run on: the same tests on processes and on containers.

Docker tests are left out, and the summary says so, where no engine answers;
RACKWARD_REQUIRE_DOCKER=1 (CI) makes that a failure instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from integration.support.controllers import look
from integration.support.topics import moved_topic
from rackward.clusters import Cluster, DockerCluster, LocalCluster
from rackward.clusters.docker import missing_docker
from rackward.clusters.errors import BrokerStateError
from rackward.clusters.pytest_plugin import UniqueName, kafka_clusters, unique_name

__all__ = ["cluster", "kafka_clusters", "unique_name"]

RACKS = ("a", "a", "b", "b", "c", "c")
FETCH_BYTES = str(256 * 1024)
"""Of a partition at a time. A throttle is only looked at before a fetch, so that with Kafka's 1 MB
replicas of 3 MB have arrived after three of them, 20 s later, however low it is."""
DOCKER_TESTS = "RACKWARD_DOCKER_TESTS"
SLOW_TESTS = "RACKWARD_SLOW_TESTS"
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
    with make(RACKS, server_properties={"replica.fetch.max.bytes": FETCH_BYTES}) as made:
        yield made


@pytest.fixture(scope="session")
def racks_of_one_broker() -> Iterator[Cluster]:
    """See `three_brokers`."""
    with LocalCluster(("a", "b", "c")) as made:
        yield made


@pytest.fixture
def three_brokers(racks_of_one_broker: Cluster) -> Iterator[Cluster]:
    """Brokers 0, 1 and 2 in racks a, b and c, for tests that shut some down.

    One that failed half-way leaves none of them down for the next.
    """
    made = racks_of_one_broker
    yield made
    for broker in made.racks.keys() - look(made).view.racks().keys():
        with suppress(BrokerStateError):
            made.resume_broker(broker)
        with suppress(BrokerStateError):
            made.start_broker(broker)


@pytest.fixture
def topic(cluster: Cluster, unique_name: UniqueName) -> Iterator[str]:
    """The name of a topic whose replicas are moved: it is not there yet."""
    with moved_topic(cluster, unique_name("moved")) as name:
        yield name


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long and is told apart by little.

    Containers run the Kafka that processes run. What they may do differently (addresses,
    restarts, doors of racks) is in the tests marked ``everywhere``; the others are run on them
    where RACKWARD_DOCKER_TESTS=all asks for it, and those marked ``slow`` with
    RACKWARD_SLOW_TESTS=all.
    """
    left = [
        item
        for item in items
        if (_on_shared_containers(item) and os.environ.get(DOCKER_TESTS) != "all")
        or (item.get_closest_marker("slow") and os.environ.get(SLOW_TESTS) != "all")
    ]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def _on_shared_containers(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return (
        call is not None
        and call.params.get("cluster") == "docker"
        and item.get_closest_marker("everywhere") is None
    )


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
