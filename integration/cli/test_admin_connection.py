"""The connection of the commands, while the brokers at its other end come and go."""

from __future__ import annotations

import pytest

from integration.support.topics import create_topic
from rackward.admin import AdminConnection, connect, read_reassignments, read_state
from rackward.admin.configs import read_default_min_isr
from rackward.clusters import Cluster
from rackward.clusters.pytest_plugin import UniqueName
from tests.support.waiting import PATIENCE, wait_until


@pytest.mark.parametrize("cluster", ["local"], indirect=True)
def test_a_controller_that_dies_is_looked_for_again(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    create_topic(cluster, unique_name("led"), [[0, 2]])
    with connect({}, cluster.bootstrap_servers, timeout=PATIENCE) as admin:
        # With KRaft brokers name any of themselves, which passes requests on.
        admin._controller = 5
        assert read_reassignments(admin) == {}
        assert admin._controller == 5
        cluster.kill_broker(5)
        try:
            assert read_reassignments(admin) == {}
            assert admin._controller != 5
        finally:
            cluster.start_broker(5)


@pytest.mark.parametrize("cluster", ["local"], indirect=True)
def test_a_broker_that_joins_later_is_found(cluster: Cluster) -> None:
    """Not five minutes later, when the client would next ask who there is."""

    def up(admin: AdminConnection) -> bool:
        return 5 in read_state(admin, []).view.racks()

    cluster.stop_broker(5)
    try:
        with connect({}, cluster.bootstrap_servers, timeout=PATIENCE) as before:
            wait_until(lambda: not up(before), PATIENCE, "broker 5 is fenced")
        later = connect({}, cluster.bootstrap_servers, timeout=PATIENCE)
    finally:
        cluster.start_broker(5)
    with later:
        wait_until(lambda: up(later), PATIENCE, "broker 5 is back")
        assert read_default_min_isr(later, 5) == 1
