"""Groups of stock consumers, led from the first rebalance on: every assignment is optimal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.support.leading import (
    UNMODIFIED_CLIENTS,
    WITH_GO_OR_NODE,
    LedGroup,
    leaders_in_all_racks,
    led_group,
    live_group,
    wait_for_status,
)
from rack_traffic.advice import assigned_by_rackward
from rackward.testing import Cluster


@pytest.fixture(
    params=[
        *sorted(UNMODIFIED_CLIENTS),
        *(pytest.param(each, marks=pytest.mark.slow) for each in WITH_GO_OR_NODE),
    ]
)
def led(request: pytest.FixtureRequest, shared_three_brokers: Cluster) -> Iterator[LedGroup]:
    with led_group(shared_three_brokers, request.param, leaders_in_all_racks(3)) as group:
        yield group


def test_members_join_and_leave_and_leaders_move(
    shared_three_brokers: Cluster, led: LedGroup
) -> None:
    with led.leading() as leader:
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
