"""One rebalance on the group leader: input of the assignor, assignments and log lines."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import LeaderRackAwareRange, Member
from assignors.group import Group
from assignors.group_leader import Leaders
from assignors.group_leader.history import Assignment
from assignors.group_leader.rebalance import (
    MAX_PARTITIONS_OF_TOPIC,
    MAX_TOPICS_LOGGED,
    fallback_assignment,
)
from tests.support.group_leader import (
    FailingAssignor,
    FixedAssignor,
    Joined,
    joined_member,
    leaders_in,
    rebalanced,
    sticky_protocol,
)
from tests.support.kafka_python import subscription_bytes

SIX = [joined_member(f"m{i}", "aabbcc"[i]) for i in range(6)]
THIRTY_SIX = leaders_in(t=["aabbcc"[p * 5 % 6] for p in range(36)])


def assigned(result: Assignment) -> Counter[tuple[str, int]]:
    return Counter(
        (topic, partition)
        for topics in result.assigned.values()
        for topic, partitions in topics.items()
        for partition in partitions
    )


def every(topic: str, count: int) -> Counter[tuple[str, int]]:
    return Counter((topic, partition) for partition in range(count))


# Weights.


def test_errors_of_a_weight_function_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def weights(topic: str) -> Any:
        if topic == "raises":
            raise RuntimeError("no")
        return {"t": [1, 2.5], "unknown": None, "strings": ["x"]}[topic]

    leaders = leaders_in(t=["a", "b"], unknown=["a"], strings=["a"], raises=["a"])
    members = [joined_member("m", "a", topics=["t", "unknown", "strings", "raises"])]
    for source in (weights, {"t": [1, 2.5]}):
        assignor = FixedAssignor()
        protocol = sticky_protocol(assignor, weights=source)
        for _ in range(2):
            rebalanced(protocol, leaders, members)
        assert {topic: row.tolist() for topic, row in assignor.weights.items()} == {"t": [1.0, 2.5]}
    assert sorted(m for m in caplog.messages if m.startswith("no weights")) == [
        "no weights: topic=raises error=RuntimeError('no')",
        "no weights: topic=strings error=ValueError(\"could not convert string to float: 'x'\")",
    ]


def test_weights_of_wrong_type_do_not_fail_the_rebalance() -> None:
    protocol = sticky_protocol(weights=cast("Any", 5))
    assert assigned(rebalanced(protocol, THIRTY_SIX, SIX)) == every("t", 36)
    last = protocol.history.latest()
    assert last is not None
    assert last.off_rack == 0


# Warnings.


def test_each_warning_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    suffix = "-" + "0" * 36
    members = [
        joined_member("m1" + suffix, "x", topics=["t", "absent", "deleted"]),
        ("m2" + suffix, None, subscription_bytes(["t"], user_data=b"\xff\0garbage")),
        ("m3" + suffix, None, b"\0\1\0"),
    ]
    leaders = Leaders({"t": ["a", None]}, frozenset({"absent", "deleted"}), {0: "a", 1: None})
    protocol = sticky_protocol()
    for _ in range(3):
        rebalanced(protocol, leaders, members, frozenset({"deleted"}))
    assert sorted(caplog.messages) == [
        "brokers without broker.rack; their partitions count as local everywhere: 1",
        "ignoring a part of a subscription that cannot be decoded: member=m2"
        + suffix
        + " error=user data: unknown version 255",
        "ignoring a part of a subscription that cannot be decoded: member=m3"
        + suffix
        + " error=subscription: truncated",
        "members without a rack read across racks: m2, m3",
        "no member is in a rack of the brokers, so every partition is read across racks: racks of"
        " members: x; racks of brokers: a",
        "subscribed topic does not exist: deleted",
        "subscribed topic has no metadata yet (unless it is new, grant this user Describe on it):"
        " absent",
    ]


def test_a_topic_that_was_deleted_twice_is_logged_twice(caplog: pytest.LogCaptureFixture) -> None:
    protocol, members = sticky_protocol(), [joined_member("m", "a")]
    deleted = Leaders({}, frozenset({"t"}), {0: "a"})
    for leaders in (deleted, deleted, leaders_in(t=["a"]), deleted):
        rebalanced(protocol, leaders, members, frozenset({"t"}))
    assert caplog.messages == ["subscribed topic does not exist: t"] * 2


def test_thousand_unknown_topics_do_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unknown = [f"x{i}" for i in range(1000)]
    member = joined_member("m", "a", topics=["t", *unknown])
    leaders = Leaders(THIRTY_SIX.racks, frozenset(unknown), {0: "a"})
    protocol = sticky_protocol()
    for _ in range(2):
        assert assigned(rebalanced(protocol, leaders, [member])) == every("t", 36)
    assert len(caplog.records) == MAX_TOPICS_LOGGED + 1


# Assignors that fail.


def test_failing_assignor_leads_to_assignment_without_racks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    protocol = sticky_protocol(FailingAssignor())
    for _ in range(2):
        result = rebalanced(protocol, THIRTY_SIX, SIX)
    assert assigned(result) == every("t", 36)
    assert {len(topics["t"]) for topics in result.assigned.values()} == {6}
    (record,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
    message = record.getMessage()
    assert message.startswith(
        "assignor failed, assigning without regard to racks: protocol=sticky"
        " error=ZeroDivisionError('injected')\n"
    )
    assert message.endswith("raise ZeroDivisionError(self._message)")


def test_owners_keep_partitions_of_topic_without_metadata() -> None:
    leaders = Leaders({"t": ["a", "b"]}, frozenset({"pending"}), {0: "a", 1: "b"})
    members = [
        joined_member("m1", "a", owned={"pending": [0, 2]}, topics=["t", "pending"]),
        joined_member("m2", "b", owned={"pending": [1]}, topics=["t", "pending"]),
    ]
    result = rebalanced(sticky_protocol(), leaders, members)
    assert {member: dict(topics) for member, topics in result.assigned.items()} == {
        "m1": {"t": [0], "pending": [0, 2]},
        "m2": {"t": [1], "pending": [1]},
    }


@pytest.mark.parametrize("claimed", [MAX_PARTITIONS_OF_TOPIC, 2**31 - 1, -1])
def test_impossible_claim_on_topic_without_metadata_is_ignored(claimed: int) -> None:
    """It neither raises nor makes arrays as long as the number that is claimed."""
    leaders = Leaders({"t": ["a"]}, frozenset({"pending"}), {0: "a"})
    owned = {"pending": [claimed, 3]}
    members = [joined_member("m", "a", owned=owned, topics=["t", "pending"])]
    result = rebalanced(sticky_protocol(), leaders, members)
    assert result.assigned == {"m": {"t": [0], "pending": [3]}}


def fallback(
    members: Sequence[Member], leaders: Mapping[str, Sequence[str | None]]
) -> Mapping[str, Mapping[str, list[int]]]:
    group = Group.of(members, leaders)
    return group.assignment(fallback_assignment(group))


def test_fallback_assignment_leaves_partitions_with_their_owners() -> None:
    """Up to the ceiling of 2; of two claims that of the later generation counts."""
    members = [
        Member("m1", frozenset("t"), owned={"t": [4, 5], "u": [0]}, generation=2),
        Member("m2", frozenset("t"), owned={"t": [0, 1, 2, 5]}, generation=2),
        Member("m3", frozenset("tu"), owned={"t": [4, 9], "absent": [0]}, generation=1),
    ]
    leaders = {"t": ["a"] * 5, "u": ["a"], "absent-too": ["a"]}
    assert fallback(members, leaders) == {
        "m1": {"t": [3, 4]},
        "m2": {"t": [0, 1]},
        "m3": {"t": [2], "u": [0]},
    }
    assert fallback([], leaders) == {}


@settings(max_examples=60)
@given(st.lists(st.tuples(st.binary(max_size=60), st.booleans()), min_size=1, max_size=5))
def test_any_bytes_of_peers_leave_each_partition_one_owner(
    peers: Sequence[tuple[bytes, bool]],
) -> None:
    members = [joined_member("good", "a")]
    members += [
        (f"p{i}", None, data if raw else subscription_bytes(["t"], user_data=data))
        for i, (data, raw) in enumerate(peers)
    ]
    leaders = leaders_in(t=["a", "b", "c", None])
    for protocol in (
        sticky_protocol(),
        sticky_protocol(LeaderRackAwareRange(), cooperative=False),
    ):
        result = rebalanced(protocol, leaders, members)
        assert result.assigned.keys() == {member_id for member_id, _, _ in members}
        assert assigned(result) == every("t", 4)


# Cooperative rebalances: partitions that members still own.


def round_of(
    planned: Mapping[str, Sequence[int]], *members: Joined
) -> tuple[dict[str, list[int]], int]:
    """Return the assigned partitions of topic t by member, and the number of withheld ones."""
    plan = {member: {"t": list(partitions)} for member, partitions in planned.items()}
    result = rebalanced(
        sticky_protocol(FixedAssignor(plan)), leaders_in(t=["a", "a", "b", "b"]), members
    )
    return {m: topics.get("t", []) for m, topics in result.assigned.items()}, result.withheld


def owner(member_id: str, *partitions: int, generation: int = 1) -> Joined:
    return joined_member(member_id, "a", owned={"t": partitions}, generation=generation)


@pytest.mark.parametrize(
    ("planned", "members", "expected", "withheld"),
    [
        pytest.param(
            {"m1": [0, 1], "m2": [2, 3]},
            [owner("m1", 0, 1, 2, 3), joined_member("m2", "a")],
            {"m1": [0, 1], "m2": []},
            2,
            id="another-member-owns-it",
        ),
        pytest.param(
            {"m1": [0, 1], "m2": [2, 3]},
            [owner("m1", 0, 1), joined_member("m2", "a")],
            {"m1": [0, 1], "m2": [2, 3]},
            0,
            id="no-member-owns-it",
        ),
        *(
            pytest.param(
                {"m1": [0], "m2": [1], "m3": [2, 3]},
                [owner("m1", 2, generation=g1), owner("m2", 2, generation=g2), owner("m3", 3)],
                {"m1": [0], "m2": [1], "m3": [3]},
                1,
                id=f"claimed-twice-in-generations-{g1}-and-{g2}",
            )
            for g1, g2 in [(1, 1), (1, 2), (2, 1), (-1, 5)]
        ),
        pytest.param(
            {"m1": [2], "m2": []},
            [owner("m1", 2), owner("m2", 2)],
            {"m1": [2], "m2": []},
            0,
            id="claimed-twice-and-assigned-to-a-claimant",
        ),
        pytest.param(
            {"m2": [0, 1, 2, 3]},
            [
                joined_member("m1", "a", owned={"t": [3]}, topics=["u"]),
                joined_member("m2", "a"),
            ],
            {"m1": [], "m2": [0, 1, 2]},
            1,
            id="the-owner-no-longer-subscribes",
        ),
        pytest.param(
            {"m1": [0, 1], "m2": [2, 3]},
            [owner("m1", -4, 400), joined_member("m2", "a")],
            {"m1": [0, 1], "m2": [2, 3]},
            0,
            id="claims-on-partitions-that-do-not-exist",
        ),
    ],
)
def test_partitions_that_another_member_owns_are_withheld(
    planned: Mapping[str, Sequence[int]],
    members: list[Joined],
    expected: dict[str, list[int]],
    withheld: int,
) -> None:
    assert round_of(planned, *members) == (expected, withheld)
