"""A static member that leads its group and restarts: brokers tell it that it is a follower."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from assignors.group_leader import GroupContext, Leaders
from assignors.group_leader.leadership import Leadership
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from assignors.leader_moves import RefreshPolicy, leads_since_before_restart
from tests.support.kafka_python import assignment_bytes, subscription_bytes

UUIDS = "6d4c2e5e-2f0a-4f0c-9e9a-0f2f6a1b3c4d", "00000000-2f0a-4f0c-9e9a-0f2f6a1b3c4d"
ME, LEADER = (f"one-{uuid}" for uuid in UUIDS)


@pytest.mark.parametrize(
    ("leader", "member", "instance", "expected"),
    [
        (LEADER, ME, "one", True),
        (ME, ME, "one", False),
        (f"two-{UUIDS[1]}", ME, "one", False),
        (f"one-two-{UUIDS[1]}", ME, "one", False),
        (LEADER, ME, None, False),
        ("", ME, "one", False),
    ],
)
def test_the_old_member_id_is_recognised(
    leader: str, member: str, instance: str | None, expected: bool
) -> None:
    assert leads_since_before_restart(leader, member, instance) is expected


def described(member: str, rack: str, partitions: list[int]) -> tuple[str, str, bytes, bytes]:
    sent = subscription_bytes(["t"], rack=rack)
    return member, member, sent, assignment_bytes({"t": partitions})


def leaders_in(*racks: str) -> Any:
    read = Leaders({"t": list(racks)}, frozenset(), {0: "a", 1: "b"})
    return lambda _: (read, ())


@pytest.mark.parametrize(("racks", "requests"), [("aabb", False), ("bbaa", True)])
def test_restarted_leader_compares_with_present_leaders(
    racks: str, requests: bool, caplog: pytest.LogCaptureFixture
) -> None:
    policy = RefreshPolicy(
        stable_seconds=0.0, unstable_seconds=0.0, min_interval=10.0, check_interval=1.0
    )
    strategy = LeaderRackAwareCooperativeStickyAssignor(rack="a", refresh=policy)
    leadership = Leadership(strategy.rebalance, policy)
    assert leadership.monitor is not None
    members = [
        described("one", "a", [0, 1]),
        described("two", "b", [2, 3]),
        ("broken", None, b"\0", b"\0"),
    ]
    context, read = GroupContext("g", 7), leaders_in(*racks)
    leadership.resume(members, read, context, 100.0)
    with caplog.at_level(logging.INFO):
        # As after any assignment that another member may have made before: not at once.
        assert not leadership.monitor.check(read, 105.0, context)
        assert leadership.monitor.check(read, 111.0, context) is requests
    assert ("off_rack=4 off_rack_after=0" in caplog.text) is requests
