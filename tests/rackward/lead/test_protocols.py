"""Names of protocols, and what members of other clients say that they own."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData

from assignors.consumer_protocol import EMPTY_SUBSCRIPTION, split_user_data
from placement_core import InvalidOptionError
from rack_traffic.advice import LED_PROTOCOLS, OWN_PROTOCOLS
from rackward.kafka.groups import GroupKind
from rackward.lead.protocols import (
    DEFAULT_PROTOCOLS,
    PROTOCOL_STRATEGIES,
    Owned,
    PreviousAssignment,
    RawMember,
    match_previous,
    parse_protocols,
    read_foreign_user_data,
    read_members,
    why_refused,
)
from tests.support.kafka_python import assignment_bytes, subscription_bytes

NOTHING = PreviousAssignment()


def sticky_user_data(
    owned: Owned, generation: int, version: int = 1, *, prefixed: bool = False
) -> bytes:
    """Return the user data of sticky assignors; kafka-python's is ``prefixed`` with its version."""
    rows = [
        StickyAssignorUserData.TopicPartition(topic=topic, partitions=list(numbers))
        for topic, numbers in owned.items()
    ]
    fields: dict[str, object] = {"previous_assignment": rows}
    if version == 1:
        fields["generation"] = generation
    encoded = bytes(StickyAssignorUserData(version=version, **fields).encode())
    return encoded if prefixed else encoded[2:]


class TestParseProtocols:
    def test_names_are_added_to_the_defaults(self) -> None:
        protocols = parse_protocols("--protocol", ["rack-affinity=sticky", "range=sticky"])
        assert protocols["rack-affinity"] == PROTOCOL_STRATEGIES["sticky"]
        assert protocols["range"] == PROTOCOL_STRATEGIES["sticky"]
        assert protocols["roundrobin"] == DEFAULT_PROTOCOLS["roundrobin"]

    @pytest.mark.parametrize("pair", ["rack-affinity", "=range", "x=best", "x="])
    def test_other_texts_are_errors(self, pair: str) -> None:
        with pytest.raises(InvalidOptionError, match=r"--protocol .*: write NAME=STRATEGY"):
            parse_protocols("--protocol", [pair])

    @pytest.mark.parametrize(("name", "reason"), [("stream", "tasks"), ("faust", "standbys")])
    def test_protocols_of_one_library_cannot_be_added(self, name: str, reason: str) -> None:
        with pytest.raises(InvalidOptionError, match=reason):
            parse_protocols("--protocol", [f"{name}=sticky"])
        refused = why_refused(GroupKind.CLASSIC, "consumer", name, DEFAULT_PROTOCOLS)
        assert refused is not None
        assert reason in refused
        assert "--protocol" not in refused


def test_the_rack_of_kafka_gos_rack_affinity_is_its_user_data() -> None:
    strategy = DEFAULT_PROTOCOLS["rack-affinity"]
    members = [
        RawMember(name, None, b"\0\1" + subscription_bytes(["t"], version=0, user_data=data)[2:])
        for name, data in (("m1", b"az1"), ("m2", b"\xff"))
    ]
    joined = read_members("rack-affinity", strategy, members, PreviousAssignment())
    assert joined.racks == ["az1", None]
    assert joined.errors == []


class TestUserData:
    @pytest.mark.parametrize("prefixed", [False, True])
    @pytest.mark.parametrize(("version", "generation"), [(0, -1), (1, 7)])
    def test_sticky(self, version: int, generation: int, prefixed: bool) -> None:
        data = sticky_user_data({"t": [0, 2], "u": [5]}, 7, version, prefixed=prefixed)
        owned, read_generation = read_foreign_user_data(data)
        assert {topic: list(tps) for topic, tps in owned.items()} == {"t": [0, 2], "u": [5]}
        assert read_generation == generation

    def test_the_generation_of_javas_cooperative_sticky(self) -> None:
        assert read_foreign_user_data(struct.pack(">i", 12)) == ({}, 12)
        assert read_foreign_user_data(struct.pack(">i", -9)) == ({}, -1)

    @given(st.binary(max_size=100), st.lists(st.sampled_from(["t", "orders"]), max_size=3))
    def test_splitting_keeps_the_rest(self, data: bytes, topics: list[str]) -> None:
        whole = subscription_bytes(topics, user_data=data, owned={"t": [1]}, generation=4, rack="a")
        plain, user_data = split_user_data(whole)
        assert user_data == data
        assert plain == (
            subscription_bytes(topics, user_data=None, owned={"t": [1]}, generation=4, rack="a")
            if data
            else whole
        )

    @given(st.binary(max_size=100))
    def test_other_bytes_are_returned_unsplit_or_shorter(self, data: bytes) -> None:
        plain, user_data = split_user_data(data)
        assert len(plain) + len(user_data) == len(data)


class TestReadMembers:
    def read(
        self, protocol: str, *members: RawMember, previous: PreviousAssignment = NOTHING
    ) -> dict[str, tuple[Mapping[str, Sequence[int]], int, bool]]:
        joined = read_members(protocol, DEFAULT_PROTOCOLS[protocol], members, previous)
        return {
            each.id: (each.owned, each.generation, bool(each.owned) and not released)
            for each, released in zip(joined, joined.released.tolist(), strict=True)
        }

    def test_a_cooperative_member_owns_what_its_fields_say(self) -> None:
        member = RawMember(
            "m",
            None,
            subscription_bytes(
                ["t"], user_data=struct.pack(">i", 3), owned={"t": [1]}, generation=3
            ),
        )
        assert self.read("cooperative-sticky", member) == {"m": ({"t": [1]}, 3, True)}

    def test_an_older_java_has_its_generation_in_the_user_data(self) -> None:
        data = subscription_bytes(
            ["t"], user_data=struct.pack(">i", 9), owned={"t": [1]}, version=1
        )
        member = RawMember("m", None, data)
        assert self.read("cooperative-sticky", member) == {"m": ({"t": [1]}, 9, True)}

    def test_a_sticky_member_has_released_what_its_user_data_says(self) -> None:
        data = sticky_user_data({"t": [4]}, 5)
        member = RawMember("m", None, subscription_bytes(["t"], user_data=data, version=1))
        assert self.read("sticky", member) == {"m": ({"t": [4]}, 5, False)}

    def test_an_eager_member_has_released_its_fields_too(self) -> None:
        member = RawMember("m", None, subscription_bytes(["t"], owned={"t": [4]}, generation=5))
        assert self.read("sticky", member) == {"m": ({"t": [4]}, 5, False)}

    def test_cooperative_members_that_own_nothing_own_nothing(self) -> None:
        previous = PreviousAssignment([RawMember("m", None, b"")], {"m": {"t": [2]}}, 8)
        member = RawMember("m", None, subscription_bytes(["t"]))
        read = self.read("cooperative-sticky", member, previous=previous)
        assert read == {"m": ({}, -1, False)}

    def test_members_that_do_not_read_are_left_out(self) -> None:
        assert self.read("range", RawMember("lead", None, EMPTY_SUBSCRIPTION)) == {}

    def test_user_data_of_rackwards_protocols_is_read(self) -> None:
        from assignors.consumer_protocol import write_user_data

        data = subscription_bytes(["t"], user_data=write_user_data("a", {"t": [1]}, 2), version=1)
        (member,) = read_members(
            "leader-rack-aware-cooperative-sticky",
            DEFAULT_PROTOCOLS["leader-rack-aware-cooperative-sticky"],
            [RawMember("m", None, data)],
            NOTHING,
        )
        assert member.rack == "a"
        assert list(member.owned["t"]) == [1]

    def test_a_sent_rack_precedes_the_mapping(self) -> None:
        members = [
            RawMember("m", None, subscription_bytes(["t"], rack="a")),
            RawMember("n", None, subscription_bytes(["t"])),
        ]
        strategy = DEFAULT_PROTOCOLS["range"]
        joined = read_members("range", strategy, members, NOTHING, {"m": "x", "n": "b"})
        assert joined.racks == ["a", "b"]


class TestMatchPrevious:
    def match(self, before: Sequence[RawMember], *members: RawMember) -> dict[str, Owned]:
        """Match with members of which the first had partition 0, the second partition 1."""
        owned = {member.id: {"t": [number]} for number, member in enumerate(before)}
        return match_previous(members, PreviousAssignment(before, owned, 1))

    def test_by_member_id(self) -> None:
        found = self.match([member("m", host="h1")], member("m", client="other", host="h2"))
        assert found == {"m": {"t": [0]}}

    def test_by_instance_id(self) -> None:
        before = [member("old", "i")]
        assert self.match(before, member("new", "i")) == {"new": {"t": [0]}}
        assert self.match(before, member("new", "j")) == {}

    def test_by_client_id_and_host(self) -> None:
        before = [member("old-1", host="h1"), member("old-2", host="h2")]
        assert self.match(before, member("new", host="h2")) == {"new": {"t": [1]}}

    def test_nobody_gets_what_a_present_member_had(self) -> None:
        assert self.match([member("m")], member("a"), member("m")) == {"m": {"t": [0]}}

    def test_equal_names_are_matched_once_each(self) -> None:
        before = [member(f"old-{n}") for n in range(2)]
        found = self.match(before, *(member(f"new-{n}") for n in range(3)))
        assert found == {"new-0": {"t": [0]}, "new-1": {"t": [1]}}


def member(
    name: str, instance: str | None = None, *, client: str = "c", host: str | None = "h"
) -> RawMember:
    return RawMember(name, instance, b"", client, host)


def test_a_described_assignment_ignores_what_cannot_be_read() -> None:
    good = assignment_bytes({"t": [1]})
    members = [RawMember("m", None, b"", assignment=good)]
    members += [RawMember(f"odd{n}", None, b"", assignment=b"x" * n) for n in range(3)]
    previous = PreviousAssignment.of(members)
    assert [name for name, owned in previous.owned.items() if owned] == ["m"]
    assert list(previous.owned["m"]["t"]) == [1]


def test_advice_knows_the_protocols_that_are_answered() -> None:
    assert {*LED_PROTOCOLS, *OWN_PROTOCOLS} == DEFAULT_PROTOCOLS.keys()
