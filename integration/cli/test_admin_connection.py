"""The admin connection of the commands, while brokers stop and start."""

from __future__ import annotations

import pytest

from integration.support.topics import create_topic
from rackward.kafka import AdminConnection, connect, read_reassignments, read_state
from rackward.kafka.configs import read_default_min_isr
from rackward.testing import Cluster
from rackward.testing.pytest_plugin import UniqueName
from tests.support.waiting import TEST_TIMEOUT, wait_until


@pytest.mark.parametrize("cluster", ["local"], indirect=True)
def test_another_broker_forwards_after_one_dies(cluster: Cluster, unique_name: UniqueName) -> None:
    create_topic(cluster, unique_name("led"), [[0, 2]])
    with connect({}, cluster.bootstrap_servers, timeout=TEST_TIMEOUT) as admin:
        assert read_reassignments(admin) == {}
        cluster.kill_broker(5)
        try:
            for _ in range(5):
                assert read_reassignments(admin) == {}
        finally:
            cluster.start_broker(5)


@pytest.mark.parametrize("cluster", ["local"], indirect=True)
def test_a_broker_that_starts_later_is_used(cluster: Cluster) -> None:
    """It is used before the client's next periodic metadata request, five minutes later."""

    def up(admin: AdminConnection) -> bool:
        return 5 in read_state(admin, []).view.racks()

    cluster.stop_broker(5)
    try:
        with connect({}, cluster.bootstrap_servers, timeout=TEST_TIMEOUT) as before:
            wait_until(lambda: not up(before), TEST_TIMEOUT, "broker 5 is fenced")
        later = connect({}, cluster.bootstrap_servers, timeout=TEST_TIMEOUT)
    finally:
        cluster.start_broker(5)
    with later:
        wait_until(lambda: up(later), TEST_TIMEOUT, "broker 5 is back")
        assert read_default_min_isr(later, 5) == 1
