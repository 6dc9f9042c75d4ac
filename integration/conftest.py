"""Fixtures and options of the integration tests, which run on processes and on containers.

Tests that need Docker are skipped if no engine responds; the summary has their number.

======================== ===== ==============================================================
variable                 value effect
======================== ===== ==============================================================
RACKWARD_REQUIRE_DOCKER  1     without a Docker engine, tests that need one fail
RACKWARD_DOCKER_TESTS    all   all tests of the shared cluster run on containers, too, instead
                               of only those marked ``everywhere``
RACKWARD_KAFKA_VERSION   3.9.1 clusters run this version; tests marked ``new_protocol`` run from
                               4.0 on
======================== ===== ==============================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

from rackward.testing import Cluster, ClusterError, DockerCluster, LocalCluster, broker_config
from rackward.testing.broker_config import PORT_RANGE
from rackward.testing.docker import check_docker
from rackward.testing.errors import BrokerStateError
from rackward.testing.kafka_jars import default_version
from rackward.testing.pytest_plugin import UniqueName, kafka_clusters, unique_name

# Imported by the fixture: a missing extra must skip tests, not break the collection.
if TYPE_CHECKING:
    from integration.support.secured import Secured

__all__ = ["cluster", "kafka_clusters", "unique_name"]

RACKS = ("a", "a", "b", "b", "c", "c")
FETCH_BYTES = str(256 * 1024)
"""Replica fetch size. Brokers check a throttle only before a fetch: with the default of 1 MB, three
fetches copy 3 MB within 20 s, whatever the throttle is."""
REQUIRE_DOCKER = "RACKWARD_REQUIRE_DOCKER"


@pytest.fixture(scope="session", autouse=True)
def own_ports(request: pytest.FixtureRequest) -> None:
    """Let each worker of pytest-xdist take ports from a range of its own.

    Otherwise a worker that starts a cluster could take the ports of a broker that a test of
    another worker has stopped.
    """
    if worker := getattr(request.config, "workerinput", None):
        share = int(worker["workerid"].removeprefix("gw")) / worker["workercount"]
        start = Random(worker["testrunuid"]).random() + share
        broker_config._next_port = int(start % 1 * len(PORT_RANGE))


# With session scope, pytest runs all tests of one parameter before those of the next, so
# only one of the two clusters runs at a time.
@pytest.fixture(
    scope="session",
    params=["local", pytest.param("docker", marks=pytest.mark.docker)],
)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Six brokers in racks a, a, b, b, c, c with a listener per rack, shared by many tests.

    Topics and groups need unique names (`unique_name`), and a test that stops or pauses a
    broker starts or resumes it.
    """
    cluster_type = DockerCluster if request.param == "docker" else LocalCluster
    with cluster_type(RACKS, server_properties={"replica.fetch.max.bytes": FETCH_BYTES}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def shared_three_brokers() -> Iterator[Cluster]:
    """See `three_brokers`."""
    with LocalCluster(("a", "b", "c")) as cluster:
        yield cluster


@pytest.fixture
def three_brokers(shared_three_brokers: Cluster) -> Iterator[Cluster]:
    """Brokers 0, 1 and 2 in racks a, b and c, for tests that stop some of them.

    All brokers run again for the next test, even if this one fails.
    """
    cluster = shared_three_brokers
    yield cluster
    for broker in cluster.racks:
        with suppress(BrokerStateError):
            cluster.resume_broker(broker)
        with suppress(BrokerStateError):
            cluster.start_broker(broker)


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One broker with a listener for each protocol and mechanism, for tests of clients."""
    from integration.support.secured import LISTENERS, run_secured

    with run_secured(LISTENERS, tmp_path_factory.mktemp("secured")) as secured:
        yield secured


@pytest.fixture
def topic(cluster: Cluster, unique_name: UniqueName) -> Iterator[str]:
    """Name of a topic that the test creates and moves; it is deleted after the test."""
    from integration.support.topics import throttle_settings, with_admin

    name = unique_name("moved")
    yield name
    with_admin(cluster, lambda admin: admin.delete_topics([name], raise_errors=False))
    assert throttle_settings(cluster) == {}, "a throttle is left"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that need newer brokers, and on containers those that containers can hardly
    affect.

    Containers run the same Kafka as processes. What may differ (addresses, restarts, rack
    listeners) is in the tests marked ``everywhere``.
    """
    all_docker = os.environ.get("RACKWARD_DOCKER_TESTS") == "all"
    old_brokers = int(default_version().partition(".")[0]) < 4
    deselected = [
        item
        for item in items
        if (not all_docker and _on_shared_containers(item))
        or (old_brokers and item.get_closest_marker("new_protocol"))
    ]
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if item not in deselected]


def _on_shared_containers(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return (
        callspec is not None
        and callspec.params.get("cluster") == "docker"
        and item.get_closest_marker("everywhere") is None
    )


def pytest_report_header() -> str:
    """Return the version of the brokers."""
    return f"brokers: Kafka {default_version()}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail Docker tests before a fixture tries to reach the engine."""
    if item.get_closest_marker("docker") is None:
        return
    try:
        check_docker()
    except ClusterError as error:
        if os.environ.get(REQUIRE_DOCKER) == "1":
            pytest.fail(f"{REQUIRE_DOCKER}=1, but {error}", pytrace=False)
        pytest.skip(str(error))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the number of skipped Docker tests."""
    skipped = terminalreporter.stats.get("skipped", [])
    # Reports of skipped modules have no keywords.
    if count := sum("docker" in getattr(report, "keywords", ()) for report in skipped):
        terminalreporter.write_line(
            f"{count} Docker tests were skipped. {REQUIRE_DOCKER}=1 makes that a failure.",
            yellow=True,
        )
