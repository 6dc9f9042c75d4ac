"""Assigning for groups of other clients, with metadata and members as arguments."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import LeaderRackAwareCooperativeSticky
from assignors.consumer_protocol import EMPTY_SUBSCRIPTION, NOTHING_ASSIGNED, SubscriptionReader
from assignors.encoding import encode_assignment
from assignors.leader_moves import RefreshPolicy
from assignors.model import Plan
from rackward.groups.host_racks import HostRacks
from rackward.lead.assigner import GroupAssigner
from rackward.lead.protocols import DEFAULT_PROTOCOLS, RawMember
from tests.support.kafka_python import cluster_metadata, subscription_bytes
from tests.support.waiting import TEST_TIMEOUT

RACKS = {0: "a", 1: "b", 2: "c"}
EVEN = [0, 1, 2] * 2
LEAD = RawMember("rackward-lead-1", None, EMPTY_SUBSCRIPTION)


def assigner(
    refresh: RefreshPolicy | None = None, racks: Mapping[str, object] | None = None
) -> GroupAssigner:
    return GroupAssigner("g", DEFAULT_PROTOCOLS, HostRacks.parse(racks or {}, "test"), refresh)


def run(
    group: GroupAssigner,
    protocol: str,
    members: Sequence[RawMember],
    leaders: Mapping[str, Sequence[int]],
    generation: int = 1,
    now: float = 0.0,
) -> dict[str, dict[str, list[int]]]:
    """Return the assignments of one rebalance, after their bytes were written and read."""
    joined = group.read(protocol, members)
    cluster = cluster_metadata(RACKS, leaders)
    deleted = frozenset(topic for topic in group.topics if topic not in leaders)
    result = group.assign(protocol, generation, members, joined, cluster, deleted, now)
    written = {m.id: NOTHING_ASSIGNED for m in members} | encode_assignment(result.assigned)
    read = SubscriptionReader().read_assignment
    return {
        member: {topic: list(numbers) for topic, numbers in read(data).items()}
        for member, data in written.items()
    }


def members_in(racks: str, topics: Sequence[str] = ("t",), **more: Any) -> list[RawMember]:
    """Return a member per letter, its rack, that subscribes to ``topics``; and one that leads."""
    return [
        LEAD,
        *(
            RawMember(f"{rack}{at}", None, subscription_bytes(topics, rack=rack, **more))
            for at, rack in enumerate(racks)
        ),
    ]


@pytest.mark.parametrize("protocol", sorted(DEFAULT_PROTOCOLS))
def test_every_protocol_is_answered_by_rack(protocol: str) -> None:
    assigned = run(assigner(), protocol, members_in("abc"), {"t": EVEN})
    assert assigned == {
        LEAD.id: {},
        "a0": {"t": [0, 3]},
        "b1": {"t": [1, 4]},
        "c2": {"t": [2, 5]},
    }


@pytest.mark.parametrize("protocol", ["range", "roundrobin"])
def test_only_range_keeps_topics_together(protocol: str) -> None:
    members = members_in("aa", ["t", "u"])
    assigned = run(assigner(), protocol, members, {"t": [0], "u": [0]})
    topics = sorted(len(each) for each in assigned.values())
    assert topics == ([0, 0, 2] if protocol == "range" else [0, 1, 1])


def test_eager_members_get_back_what_they_had() -> None:
    group, members = assigner(), members_in("xxx")
    first = run(group, "roundrobin", members, {"t": EVEN})
    # In another order, with another member, which gets two partitions of the others.
    joined = [*reversed(members), RawMember("new", None, subscription_bytes(["t"], rack="x"))]
    second = run(group, "roundrobin", joined, {"t": EVEN}, generation=2)
    kept = [p for m in first for p in first[m].get("t", []) if p in second[m].get("t", [])]
    assert len(kept) == 5
    assert sorted(len(each.get("t", [])) for each in second.values()) == [0, 1, 1, 2, 2]


def test_a_restarted_member_is_recognised_by_client_id() -> None:
    group = assigner()
    names = [f"c{n}" for n in range(3)]
    old = [RawMember(f"{n}-{'0' * 36}", None, subscription_bytes(["t"])) for n in names]
    new = [RawMember(f"{n}-{'1' * 36}", None, subscription_bytes(["t"])) for n in reversed(names)]
    first = run(group, "roundrobin", old, {"t": EVEN})
    second = run(group, "roundrobin", new, {"t": EVEN}, generation=2)
    assert {m[:2]: owned for m, owned in first.items()} == {
        m[:2]: owned for m, owned in second.items()
    }


def test_what_cooperative_members_own_is_withheld_from_others() -> None:
    members = [
        LEAD,
        RawMember(
            "a0", None, subscription_bytes(["t"], owned={"t": [0, 1, 2, 3]}, generation=3, rack="a")
        ),
        RawMember("b1", None, subscription_bytes(["t"], rack="b")),
    ]
    group = assigner()
    assigned = run(group, "cooperative-sticky", members, {"t": [0, 0, 1, 1]}, generation=4)
    assert assigned == {LEAD.id: {}, "a0": {"t": [0, 1]}, "b1": {}}
    assert group.metrics.withheld == 2


def test_racks_of_the_mapping_by_client_id_and_by_host() -> None:
    group = assigner(racks={"reader-1": "a", "10.0.2.0/24": "b"})
    members = [
        RawMember("m1", None, subscription_bytes(["t"]), "reader-1", "/10.0.9.9"),
        RawMember("m2", None, subscription_bytes(["t"]), "other", "/10.0.2.7"),
    ]
    assert group.needs_hosts("cooperative-sticky")
    assigned = run(group, "cooperative-sticky", members, {"t": [1, 0]})
    assert assigned == {"m1": {"t": [1]}, "m2": {"t": [0]}}


def test_hosts_are_needed_for_eager_members_without_claims() -> None:
    needed = {name for name in DEFAULT_PROTOCOLS if assigner().needs_hosts(name)}
    assert needed == {"sticky", "roundrobin", "RoundRobinAssigner", "rack-affinity"}


def test_a_plan_that_takes_too_long_is_replaced_by_a_plain_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()

    def wait(*_: object) -> Plan:
        ended.wait(TEST_TIMEOUT)
        raise TimeoutError

    monkeypatch.setattr(LeaderRackAwareCooperativeSticky, "assign", wait)
    monkeypatch.setattr("rackward.lead.assigner.PLAN_SECONDS", 0.05)
    group = assigner()
    joined = members_in("abc")
    assigned = run(group, "sticky", joined, {"t": [0] * 6000})
    ended.set()
    assert group.metrics.off_rack is None
    assert sorted(len(each.get("t", [])) for each in assigned.values()) == [0, 2000, 2000, 2000]


def test_new_partitions_and_topics_justify_a_rebalance() -> None:
    group = assigner()
    run(group, "range", members_in("ab", ["t", "u"]), {"t": [0, 1]})
    same = cluster_metadata(RACKS, {"t": [0, 1]})
    assert group.justifies_rebalance(same, 1, 1.0) is None
    for leaders in ({"t": [0, 1, 2]}, {"t": [0, 1], "u": [0]}, {}):
        changed = cluster_metadata(RACKS, leaders)
        reason = group.justifies_rebalance(changed, 1, 1.0)
        assert reason == "the partitions of 1 topics changed"


def test_leaders_that_moved_justify_a_rebalance_by_the_policy() -> None:
    policy = RefreshPolicy(stable_seconds=10.0, unstable_seconds=10.0, min_interval=0.0)
    group = assigner(policy)
    run(group, "cooperative-sticky", members_in("ab"), {"t": [0, 1]})
    assert group.metrics.off_rack == 0
    moved = cluster_metadata(RACKS, {"t": [1, 0]})
    reasons = [group.justifies_rebalance(moved, 1, now) for now in (1.0, 5.0, 12.0)]
    assert reasons == [None, None, "partition leaders moved"]
    assert group.metrics.off_rack == 2


@given(st.lists(st.binary(max_size=60), max_size=5), st.sampled_from(sorted(DEFAULT_PROTOCOLS)))
def test_no_bytes_of_members_stop_a_rebalance(sent: list[bytes], protocol: str) -> None:
    members = [RawMember(f"m{at}", None, data) for at, data in enumerate(sent)]
    good = members_in("a")
    assigned = run(assigner(), protocol, [*members, *good], {"t": EVEN})
    numbers = sorted(p for each in assigned.values() for p in each.get("t", []))
    assert numbers == [0, 1, 2, 3, 4, 5]
