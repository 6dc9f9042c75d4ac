from __future__ import annotations

from dataclasses import replace

import pytest

from placement_core import InvalidOptionError
from placement_core.leaders import Readers
from rackward.admin.groups import Group, GroupMember
from rackward.group_readers import HostRacks, readers_by_hand, readers_of, without_rack

BOTH = frozenset({"orders", "payments"})


def member(name: str, rack: str | None, topics: frozenset[str] = BOTH) -> GroupMember:
    return GroupMember(name, None, name, f"/10.0.0.{name[1:]}", rack, topics)


STICKY = Group(
    id="billing",
    type="classic",
    state="Stable",
    protocol_type="consumer",
    protocol="leader-rack-aware-cooperative-sticky",
    generation=None,
    members=(member("m1", "a"), member("m2", "a"), member("m3", "b"), member("m4", None)),
)


def rack_of(one: GroupMember) -> str | None:
    return one.rack


def test_a_group_that_balances_all_topics_together_is_one_set() -> None:
    assert readers_of(STICKY, rack_of) == [Readers("billing", BOTH, {"a": 2, "b": 1, None: 1})]


@pytest.mark.parametrize("protocol", ["range", "leader-rack-aware-range"])
def test_a_group_that_balances_topic_by_topic_is_a_set_per_topic(protocol: str) -> None:
    only = member("m5", "c", frozenset({"orders"}))
    group = replace(STICKY, protocol=protocol, members=(*STICKY.members[:3], only))
    assert readers_of(group, rack_of) == [
        Readers("billing: orders", frozenset({"orders"}), {"a": 2, "b": 1, "c": 1}),
        Readers("billing: payments", frozenset({"payments"}), {"a": 2, "b": 1}),
    ]


def test_members_that_differ_in_what_they_read_are_counted_apart() -> None:
    only = member("m5", "c", frozenset({"orders"}))
    found = readers_of(replace(STICKY, members=(*STICKY.members[:3], only)), rack_of)
    assert found == [
        Readers("billing: orders", frozenset({"orders"}), {"c": 1}),
        Readers("billing: orders, payments", BOTH, {"a": 2, "b": 1}),
    ]


def test_who_subscribes_by_pattern_reads_what_the_group_has() -> None:
    pattern = replace(member("m1", "a", frozenset()), assignment={"orders": (0, 1)})
    other = replace(member("m2", "b", frozenset()), assignment={"payments": (0,)})
    group = replace(STICKY, members=(pattern, other))
    assert readers_of(group, rack_of) == [Readers("billing", BOTH, {"a": 1, "b": 1})]


def test_racks_are_mapped_by_host_and_by_the_narrowest_network() -> None:
    hosts = HostRacks.read("--mapping", "10.0.0.3=c,10.0.0.0/8=a,10.0.0.0/24=b,worker-1=d")
    assert [hosts.rack(host) for host in ("/10.0.0.3", "/10.0.0.4", "/10.1.0.1", "/worker-1")] == [
        *("c", "b", "a", "d")
    ]
    assert hosts.rack("/192.168.0.1") is None
    assert hosts.rack("/worker-2") is None
    assert hosts.rack("/::1") is None


@pytest.mark.parametrize("text", ["a", "10.0.0.0/99=a", "10.0.0.1=", "x/y=a", "h=a,h=b"])
def test_a_mapping_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"^--mapping"):
        HostRacks.read("--mapping", text)


def test_members_without_a_rack_are_counted() -> None:
    assert without_rack([STICKY, STICKY], rack_of) == 2


def test_readers_by_hand() -> None:
    found = readers_by_hand("--readers", "a=2, b=1,/dc1/r2=0", BOTH)
    assert found == Readers("readers", BOTH, {"a": 2, "b": 1, "/dc1/r2": 0})
    for text in ("", "a", "a=", "a=x", "a=-1", "a=0", "a=1.5"):
        with pytest.raises(InvalidOptionError, match=r"^--readers"):
            readers_by_hand("--readers", text, BOTH)
