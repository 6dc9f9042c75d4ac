"""Groups that the controller leads."""

from __future__ import annotations

from pathlib import Path

from integration.support.controllers import controller
from integration.support.groups import ConsumerGroup
from integration.support.leading import STOCK, LedGroup
from integration.support.topics import create_topic, new_name
from rackward.clusters import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

PARTITIONS = 12
REPLICAS = [[(p // 4) % 3] for p in range(PARTITIONS)]


def test_the_active_controller_leads_the_groups_of_its_configuration(
    shared_three_brokers: Cluster, tmp_path: Path
) -> None:
    topic = create_topic(shared_three_brokers, new_name("led"), REPLICAS)
    client = STOCK["confluent-cooperative-sticky"]
    with ConsumerGroup(shared_three_brokers, topics=[topic], client=client) as group:
        led = LedGroup(shared_three_brokers, group, topic, PARTITIONS)
        with controller(shared_three_brokers, tmp_path, lead={"groups": group.id}) as running:
            leads = f'rackward_lead_leading{{group="{group.id}"}} 1.0'
            wait_until(lambda: leads in running.metrics(), 2 * TEST_TIMEOUT, "the controller leads")
            led.start("a1", "b1", "c1")
            led.settle()
            off_rack = f'rackward_lead_off_rack_partitions{{group="{group.id}"}} 0.0'
            wait_until(lambda: off_rack in running.metrics(), TEST_TIMEOUT, "nothing is off-rack")
            assert running.stop() == 130
