"""Subscriptions read in lockstep: the same columns and plans as one by one, for any bytes."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import Member
from assignors.consumer_protocol import SubscriptionReader, write_user_data
from assignors.encoding import read_members
from assignors.group import Members
from assignors.group_leader import GroupContext, Leaders
from assignors.group_leader.rebalance import Leadership
from tests.support.group_leader import BROKER_RACKS, Joined, sticky_protocol
from tests.support.kafka_python import subscription_bytes

Rows = list[Joined]

TOPICS = ("t", "a-name-of-nine-bytes-and-more", "u", "pending")
LEADERS = Leaders(
    racks={
        "t": ["a", "b", "c", None, "a", "b"],
        "a-name-of-nine-bytes-and-more": ["b", "a"],
        "u": ["c"],
    },
    topics_without_metadata=frozenset({"pending"}),
    broker_racks=BROKER_RACKS,
)
ONE_BY_ONE = 10**9


def read(rows: Rows, *, lockstep: bool) -> Members:
    return read_members(rows, min_lockstep_members=1 if lockstep else ONE_BY_ONE)


def columns(members: Members) -> dict[str, Any]:
    """Return what the columns say, without the numbers of topics and sets."""
    claims = members.claims
    return {
        "ids": members.ids,
        "instance ids": members.instance_ids,
        "topics": [members.topic_sets[number] for number in members.topic_set.tolist()],
        "all topics": members.topics,
        "racks": members.racks,
        "generations": members.generations.tolist(),
        "released": members.released.tolist(),
        "errors": sorted(members.errors),
        "claims": Counter(
            (member, claims.names[topic], number)
            for member, topic, number in zip(
                claims.member.tolist(), claims.topic.tolist(), claims.number.tolist(), strict=True
            )
        ),
    }


@st.composite
def subscriptions(draw: st.DrawFn) -> bytes:
    """Return the bytes of a member, mostly regular ones."""
    topics = draw(st.lists(st.sampled_from(TOPICS), unique=True))
    topics = draw(st.sampled_from([list(TOPICS), topics]))
    owned = draw(
        st.dictionaries(
            st.sampled_from([*TOPICS, "unknown"]), st.lists(st.integers(-1, 7), max_size=4)
        )
    )
    regular = draw(st.integers(0, 3)) > 0
    version = 3 if regular else draw(st.integers(0, 4))
    rack = draw(st.sampled_from(["a", "b", "c", None]))
    generation = draw(st.integers(-2, 3))
    user_data = b"" if regular else draw(st.sampled_from([b"\7", write_user_data("b", owned, 2)]))
    data = subscription_bytes(
        topics,
        version=min(version, 3),
        rack=rack,
        owned=owned,
        generation=generation,
        user_data=user_data,
    )
    return struct.pack(">h", version) + data[2:]


@st.composite
def groups(draw: st.DrawFn, *, mutated: bool) -> Rows:
    messages = draw(st.lists(subscriptions(), min_size=1, max_size=6))
    if mutated:
        which = draw(st.integers(0, len(messages) - 1))
        data = messages[which]
        at = draw(st.integers(0, len(data)))
        noise = draw(st.sampled_from([b"", b"\xff", b"\x7f\xff\xff\xff"]) | st.binary(max_size=5))
        messages[which] = data[:at] + noise + data[at + draw(st.integers(0, 5)) :]
    ids = draw(st.permutations([f"m{number}" for number in range(len(messages))]))
    return [
        (member_id, None if number % 2 else f"static-{number}", data)
        for number, (member_id, data) in enumerate(zip(ids, messages, strict=True))
    ]


def check_group(rows: Rows) -> None:
    """Check columns, assignment and hand-over of one group, read in lockstep and one by one."""
    fast, slow = (read(rows, lockstep=lockstep) for lockstep in (True, False))
    assert columns(fast) == columns(slow)
    protocol, context = sticky_protocol(), GroupContext("g", 1)
    first, second = (
        Leadership().assign(protocol, members, LEADERS, frozenset(), context, 0.0)
        for members in (fast, slow)
    )
    assert (first.assigned, first.withheld) == (second.assigned, second.withheld)
    check_hand_over(slow, first.assigned, first.withheld)


def check_hand_over(
    members: Members, assigned: Mapping[str, Mapping[str, list[int]]], withheld: int
) -> None:
    """Check that every partition has one subscriber, unless another member still reads it."""
    subscribers = Counter[str]()
    while_joining = set(members.claims_while_joining.keys(members.ids))
    readers = Counter((topic, number) for _, topic, number in while_joining)
    owners: dict[tuple[str, int], str] = {}
    for member in members:
        subscribers.update(member.topics)
        for topic, numbers in assigned[member.id].items():
            assert topic in member.topics
            assert numbers == sorted(set(numbers))
            for number in numbers:
                assert owners.setdefault((topic, number), member.id) == member.id
                is_own = (member.id, topic, number) in while_joining
                assert is_own or (topic, number) not in readers
    unassigned = {
        (topic, number)
        for topic, row in LEADERS.racks.items()
        for number in range(len(row))
        if subscribers[topic] and (topic, number) not in owners
    }
    assert unassigned <= readers.keys()
    pending = sum(topic == "pending" for topic, _ in readers)
    assert len(unassigned) <= withheld <= len(unassigned) + pending


@settings(max_examples=60)
@given(groups(mutated=False))
def test_a_group_is_read_in_lockstep_as_one_by_one(rows: Rows) -> None:
    check_group(rows)


@settings(max_examples=100)
@given(groups(mutated=True))
def test_a_member_of_any_bytes_is_read_as_one_by_one(rows: Rows) -> None:
    check_group(rows)


REGULAR = subscription_bytes(["t", "u"], rack="a", owned={"t": [1, 2], "u": [0]}, generation=5)


@pytest.mark.parametrize("length", range(len(REGULAR)))
def test_a_truncated_subscription_does_not_disturb_the_others(length: int) -> None:
    rows: Rows = [("m0", None, REGULAR), ("m1", None, REGULAR[:length]), ("m2", None, REGULAR)]
    assert columns(read(rows, lockstep=True)) == columns(read(rows, lockstep=False))


def with_topics(names: Sequence[bytes], owned: Sequence[bytes], tail: bytes = b"") -> bytes:
    """Return the bytes of a version 3 with these names, each owned with partition 7."""
    topics = b"".join(struct.pack(">h", len(name)) + name for name in names)
    claims = b"".join(struct.pack(">h", len(n)) + n + struct.pack(">ii", 1, 7) for n in owned)
    fields = struct.pack(">hi", 3, len(names)), topics, struct.pack(">ii", -1, len(owned)), claims
    return b"".join(fields) + (tail or struct.pack(">ih", 5, -1))


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(with_topics([b"t"], [b"t"] * 400), id="many-entries"),
        pytest.param(with_topics([b"t"], [b"t", b"t"]), id="a-topic-twice"),
        pytest.param(with_topics([b"t" * 300], [b"t" * 300]), id="a-long-name"),
        pytest.param(with_topics([b"t\0", b"t"], [b"t\0", b"t"]), id="names-that-differ-by-a-zero"),
        pytest.param(with_topics([b"t"], [b"\xff\xfe"]), id="an-owned-name-that-is-not-utf-8"),
        pytest.param(with_topics([b"t"], [b""]), id="an-empty-name"),
        pytest.param(with_topics([b""], [b"t"]), id="an-empty-subscribed-name"),
        pytest.param(
            with_topics([b"t"], [b"t"], struct.pack(">ih", 5, 2) + b"\xff\xfe"), id="bad-rack"
        ),
        pytest.param(with_topics([b"t"], [b"t"], struct.pack(">ih", 5, 0)), id="an-empty-rack"),
        pytest.param(with_topics([b"t"], [b"t"], struct.pack(">ih", -7, -1)), id="generation-7"),
        pytest.param(with_topics([b"t"], [b"t"]) + b"more", id="fields-of-a-later-version"),
        pytest.param(b"", id="no-bytes"),
    ],
)
def test_odd_subscriptions_in_a_regular_group(odd: bytes) -> None:
    rows: Rows = [(f"m{n}", None, REGULAR) for n in range(3)]
    rows.append(("odd", None, odd))
    assert columns(read(rows, lockstep=True)) == columns(read(rows, lockstep=False))


def test_claims_on_topics_that_nobody_subscribes_to() -> None:
    check_group([("m0", None, subscription_bytes([], owned={"t": [1], "u": [0]}, generation=5))])


def test_impossible_claims_without_metadata_are_ignored() -> None:
    odd = subscription_bytes(["t", "pending"], owned={"pending": [-1]}, generation=5)
    check_group([("m0", None, REGULAR), ("m1", None, odd)])


def test_of_members_with_one_id_the_last_counts() -> None:
    other = subscription_bytes(["u"], rack="b")
    members = read_members([("m", None, REGULAR), ("m", "static", other)])
    assert list(members) == [Member("m", frozenset("u"), "b", "static")]


def test_a_regular_group_is_read_without_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("one by one")

    monkeypatch.setattr(SubscriptionReader, "read", fail)
    long = "a-name-of-nine-bytes-and-more"
    subscribed = subscription_bytes(["t", long], owned={long: [1], "t": [0]}, generation=5)
    without_user_data = subscription_bytes(["t"], owned={"t": [1]}, user_data=None)
    rows: Rows = [(f"m{n}", None, without_user_data) for n in range(2)]
    assert read(rows, lockstep=True).claims.number.tolist() == [1, 1]
    members = read([("m0", None, subscribed), ("m1", None, subscribed)], lockstep=True)
    assert sorted(members.claims.number.tolist()) == [0, 0, 1, 1]
    members = read([(f"m{n}", None, REGULAR) for n in range(3)], lockstep=True)
    assert sorted(members.claims.number.tolist()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
