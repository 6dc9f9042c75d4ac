"""Groups of stock consumers, led from the first rebalance on: every assignment is optimal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.support.groups import ConsumerGroup
from integration.support.leading import (
    UNMODIFIED_CLIENTS,
    WITH_GO_OR_NODE,
    LedGroup,
    leading,
    live_group,
    wait_for_status,
    wait_until_leading,
)
from integration.support.topics import create_topic, new_name
from rack_traffic.advice import assigned_by_rackward
from rackward.testing import Cluster

PARTITIONS = 12
REPLICAS = [[(p * 7) % 3, (p * 7 + 1) % 3, (p * 7 + 2) % 3] for p in range(PARTITIONS)]
"""Leaders in all racks, four in each."""


@pytest.fixture
def topic(shared_three_brokers: Cluster) -> str:
    return create_topic(shared_three_brokers, new_name("led"), REPLICAS)


@pytest.fixture(
    params=[
        *sorted(UNMODIFIED_CLIENTS),
        *(pytest.param(each, marks=pytest.mark.slow) for each in WITH_GO_OR_NODE),
    ]
)
def led(
    request: pytest.FixtureRequest, shared_three_brokers: Cluster, topic: str
) -> Iterator[LedGroup]:
    client = (UNMODIFIED_CLIENTS | WITH_GO_OR_NODE)[request.param]
    with ConsumerGroup(shared_three_brokers, topics=[topic], client=client) as group:
        yield LedGroup(shared_three_brokers, group, topic, PARTITIONS)


def test_members_join_and_leave_and_leaders_move(
    shared_three_brokers: Cluster, led: LedGroup
) -> None:
    with leading(shared_three_brokers, led.group.id) as leader:
        wait_until_leading(leader)
        led.start("a1", "b1", "c1")
        owned = led.settle()
        assert {name: len(tps) for name, tps in owned.items()} == {"a1": 4, "b1": 4, "c1": 4}
        led.start("a2")
        led.settle()
        led.stop("b1")
        led.settle()
        # The leaders of racks a and c are exchanged.
        moved = {
            tp: {0: 2, 2: 0}.get(broker, broker)
            for tp, broker in shared_three_brokers.view([led.topic]).known_leaders.items()
        }
        shared_three_brokers.move_leaders(moved)
        led.settle()
        status = wait_for_status(
            leader, lambda each: each.metrics.members == 3, "three members are known"
        )
        assert status.metrics.off_rack == status.metrics.optimum
        assert status.reason == ""
        # As others see the group: led, by a member that does not count as one of its consumers.
        found = live_group(shared_three_brokers, led.group.id)
        assert found.leader is not None
        assert assigned_by_rackward(found)
        assert {each.client_id for each in found.members} >= {"a1", "a2", "c1"}
        assert len(found.members) == 3
