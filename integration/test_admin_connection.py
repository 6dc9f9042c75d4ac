"""The connection of the commands, while the brokers at its other end come and go."""

from __future__ import annotations

import pytest

from integration.topics import create_topic
from rackward.admin import connect, read_ongoing
from rackward.clusters import Cluster
from rackward.clusters.pytest_plugin import UniqueName


@pytest.mark.parametrize("cluster", ["local"], indirect=True)
def test_a_controller_that_dies_is_looked_for_again(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    create_topic(cluster, unique_name("led"), [[0, 2]])
    with connect({}, cluster.bootstrap_servers) as admin:
        # With KRaft brokers name any of themselves, which passes requests on.
        admin._controller = 5
        assert read_ongoing(admin) == {}
        assert admin._controller == 5
        cluster.kill_broker(5)
        try:
            assert read_ongoing(admin) == {}
            assert admin._controller != 5
        finally:
            cluster.start_broker(5)
