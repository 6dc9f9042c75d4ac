"""Consumer demands derived from groups and from the option --readers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from placement_core import RACK_AWARE_SELECTOR, InvalidOptionError, TopicPartition
from placement_core.leaders import ConsumerDemand, CurrentAssignment
from rack_traffic.advice import assigned_by_rackward
from rackward.groups import readers
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import (
    AssignmentKind,
    Readers,
    check_exists,
    current_assignment,
    demand_of_group,
    may_read_followers,
    parse_readers,
    rackless_members,
    readers_of_groups,
    select_groups,
)
from rackward.kafka import AdminConnection
from rackward.kafka.groups import Group, GroupMember, ListedGroup
from rackward.units import matches_name
from tests.support.described_groups import group as described_group
from tests.support.described_groups import member

BOTH = frozenset({"orders", "payments"})
NO_HOSTS = HostRacks()


def of_rack(
    name: str, rack: str | None, topics: frozenset[str] = BOTH, **owned: Any
) -> GroupMember:
    return member(name, rack, owned, host=f"/10.0.0.{name[1:]}", topics=topics)


STICKY = described_group(
    *(of_rack("m1", "a"), of_rack("m2", "a"), of_rack("m3", "b"), of_rack("m4", None)),
    id="billing",
    protocol="leader-rack-aware-cooperative-sticky",
)


def test_groups_that_may_read_followers() -> None:
    for protocol, expected in (("range", True), ("rack-affinity", False), (STICKY.protocol, False)):
        group = replace(STICKY, protocol=protocol)
        assert may_read_followers(group, {0: "", 1: RACK_AWARE_SELECTOR}) is expected
        assert not may_read_followers(group, {0: "", 1: "com.example.Selector"})


def test_a_sticky_group_is_one_demand() -> None:
    assert demand_of_group(STICKY, NO_HOSTS) == [
        ConsumerDemand("billing", BOTH, {"a": 2, "b": 1, None: 1})
    ]


@pytest.mark.parametrize("protocol", ["range", "leader-rack-aware-range"])
def test_a_range_group_is_one_demand_per_topic(protocol: str) -> None:
    only = of_rack("m5", "c", frozenset({"orders"}))
    group = replace(STICKY, protocol=protocol, members=(*STICKY.members[:3], only))
    assert demand_of_group(group, NO_HOSTS) == [
        ConsumerDemand("billing: orders", frozenset({"orders"}), {"a": 2, "b": 1, "c": 1}),
        ConsumerDemand("billing: payments", frozenset({"payments"}), {"a": 2, "b": 1}),
    ]


def test_each_subscription_is_a_demand_of_its_own() -> None:
    only = of_rack("m5", "c", frozenset({"orders"}))
    group = replace(STICKY, members=(*STICKY.members[:3], only))
    assert demand_of_group(group, NO_HOSTS) == [
        ConsumerDemand("billing: orders", frozenset({"orders"}), {"c": 1}),
        ConsumerDemand("billing: orders, payments", BOTH, {"a": 2, "b": 1}),
    ]


def test_subscription_by_pattern_reads_topics_of_the_group() -> None:
    pattern = of_rack("m1", "a", frozenset(), orders=(0, 1))
    other = of_rack("m2", "b", frozenset(), payments=(0,))
    group = replace(STICKY, members=(pattern, other))
    assert demand_of_group(group, NO_HOSTS) == [ConsumerDemand("billing", BOTH, {"a": 1, "b": 1})]


def test_members_without_a_rack_are_known_and_can_be_mapped() -> None:
    assert [each.id for each in rackless_members(STICKY, NO_HOSTS)] == ["m4"]
    mapping = HostRacks.parse_option("--mapping", "10.0.0.4=c")
    assert rackless_members(STICKY, mapping) == []
    assert demand_of_group(STICKY, mapping)[0].consumers == {"a": 2, "b": 1, "c": 1}


OWNERS = described_group(
    of_rack("m1", "a", orders=(0, 1, 2)),
    of_rack("m2", None, orders=(2, 3), extra=(0,)),
    id="audit",
)


def test_what_the_members_of_a_group_own() -> None:
    orders = [TopicPartition("orders", number) for number in range(4)]
    expected = {
        TopicPartition("extra", 0): None,
        orders[0]: "a",
        orders[1]: "a",
        # Two members claim partition 2, so nobody reads it, as in an explanation.
        orders[3]: None,
    }
    topics = BOTH | {"extra"}
    assert current_assignment(OWNERS, NO_HOSTS) == CurrentAssignment("audit", topics, expected)
    mapping = HostRacks.parse_option("--mapping", "10.0.0.2=b")
    assert current_assignment(OWNERS, mapping).racks[orders[3]] == "b"


@pytest.mark.parametrize(
    ("group", "follows"),
    [
        (STICKY, True),
        (replace(STICKY, protocol="leader-rack-aware-range"), True),
        (OWNERS, False),
        (replace(OWNERS, protocol="cooperative-sticky"), False),
        (replace(OWNERS, protocol="stream"), False),
        (replace(OWNERS, protocol="range", leader="rackward-lead-1"), True),
        (replace(OWNERS, protocol="range", waiting=("rackward-lead-1",)), False),
        (replace(OWNERS, type="consumer", protocol="uniform"), False),
        # A name of a client's own assignor on the brokers.
        (replace(STICKY, type="consumer"), False),
    ],
)
def test_groups_that_follow_leaders(group: Group, follows: bool) -> None:
    assert assigned_by_rackward(group) == follows
    readers = readers_of_groups([group], NO_HOSTS)
    assert (bool(readers.demands), bool(readers.assignments)) == (follows, not follows)
    assert (readers.max_imbalance is None) == follows


def test_the_kind_of_assignment_can_be_chosen() -> None:
    both = [STICKY, OWNERS]
    mixed = readers_of_groups(both, NO_HOSTS)
    assert [each.name for each in mixed.demands] == ["billing"]
    assert [each.name for each in mixed.assignments] == ["audit"]
    assert mixed.topics == BOTH | {"extra"}
    reassigned = readers_of_groups(both, NO_HOSTS, AssignmentKind.REASSIGNED)
    assert (len(reassigned.demands), reassigned.assignments) == (3, ())
    current = readers_of_groups(both, NO_HOSTS, AssignmentKind.CURRENT)
    assert current.demands == ()
    assert [each.name for each in current.assignments] == ["billing", "audit"]
    assert Readers().topics == frozenset()


def test_assignment_is_unknown_while_rebalancing() -> None:
    for group, kind in (
        (replace(OWNERS, state="PreparingRebalance"), None),
        (replace(STICKY, state="CompletingRebalance"), AssignmentKind.CURRENT),
        (replace(OWNERS, type="consumer", state="Reconciling"), None),
    ):
        with pytest.raises(InvalidOptionError, match=f"group {group.id}: it is rebalancing"):
            readers_of_groups([group], NO_HOSTS, kind)
    assert readers_of_groups([replace(STICKY, state="PreparingRebalance")], NO_HOSTS).demands


def test_parse_readers() -> None:
    assert parse_readers("--readers", "a=2, b=1,/dc1/r2=0") == {"a": 2, "b": 1, "/dc1/r2": 0}


@pytest.mark.parametrize("text", ["", "a", "a=", "a=x", "a=-1", "a=0", "a=1.5"])
def test_invalid_readers_are_an_error_that_names_the_option(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"^--readers"):
        parse_readers("--readers", text)


def test_what_a_pattern_matches_may_be_refused_and_a_name_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = {name: replace(STICKY, id=name) for name in ("a-1", "a-2", "b")}

    def matching(_admin: object, _brokers: object, patterns: Sequence[str]) -> list[ListedGroup]:
        (pattern,) = patterns
        return [ListedGroup(each, "consumer") for each in groups if matches_name(each, pattern)]

    def find(_admin: object, _brokers: object, names: Collection[str]) -> dict[str, Group]:
        return {each: groups[each] for each in names if each in groups}

    def check(name: str, found: Group | None) -> Group:
        if name == "a-2":
            raise InvalidOptionError("refused")
        return check_exists(name, found)

    monkeypatch.setattr(readers, "list_matching_groups", matching)
    monkeypatch.setattr(readers, "find_groups", find)
    admin = cast("AdminConnection", None)
    selected, refused = select_groups(admin, [0], ["b", "a-*"], check)
    assert [each.id for each in selected] == ["a-1", "b"]
    assert refused == {"a-2": "refused"}
    for patterns, problem in (
        (["a-*", "a-2"], "refused"),
        (["c"], "group c does not exist"),
        (["b", "c-*"], "group c-.: no group matches it"),
    ):
        with pytest.raises(InvalidOptionError, match=problem):
            select_groups(admin, [0], patterns, check)
