"""Each reason and each remedy as a reader sees it, with one and with several of what it counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from assignors.explain import LocalityFinding, Reason, Remedy, RemedyKind, reason_text, remedy_text


def finding(
    reason: Reason, topics: Sequence[str] = ("t",), members: Sequence[str] = (), **figures: Any
) -> LocalityFinding:
    partitions = dict.fromkeys(topics, (0,))
    return LocalityFinding(reason, partitions, rack="a", members=tuple(members), **figures)


@pytest.mark.parametrize(
    ("about", "text"),
    [
        (finding(Reason.NO_LEADER), "they have no leader"),
        (
            finding(Reason.RACKLESS_MEMBER, members=["m"]),
            "the rack of the member that reads them is unknown",
        ),
        (
            finding(Reason.RACKLESS_MEMBER, members=["m", "n"]),
            "the racks of the 2 members that read them are unknown",
        ),
        (
            finding(Reason.NO_MEMBER_IN_RACK, leaders_in_rack=1),
            "rack a leads 1 partition, and no member is in it",
        ),
        (
            finding(Reason.NOT_SUBSCRIBED_IN_RACK, "tuv", members_in_rack=1),
            "the member in rack a does not subscribe to t, u, v",
        ),
        (
            finding(Reason.NOT_SUBSCRIBED_IN_RACK, "tuvwx", members_in_rack=2),
            "the 2 members in rack a do not subscribe to t, u, v and 2 more",
        ),
        (
            finding(Reason.CO_PARTITIONED),
            "they are led in rack a, but the same partitions of other topics, which are assigned "
            "to the same member, are led in the member's rack",
        ),
        (
            finding(
                Reason.TOO_MANY_LEADERS,
                leaders_in_rack=3,
                members_in_rack=1,
                load_in_rack=2,
                local_in_rack=2,
            ),
            "rack a leads 3 partitions, and its member reads 2 in balance",
        ),
        (
            finding(
                Reason.TOO_MANY_LEADERS,
                leaders_in_rack=9,
                members_in_rack=2,
                load_in_rack=4,
                local_in_rack=3,
            ),
            "rack a leads 9 partitions, and its 2 members read 4 in balance, 3 of them led there",
        ),
    ],
    ids=lambda value: value.reason.value if isinstance(value, LocalityFinding) else "",
)
def test_reasons(about: LocalityFinding, text: str) -> None:
    assert reason_text(about) == text


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        (RemedyKind.WAIT, {}, "wait until the group is stable"),
        (RemedyKind.WAIT, {"off_rack_after": 3}, "wait until the group is stable: 3 off-rack at b"),
        (RemedyKind.WAIT, {"off_rack_after": 0}, "wait until the group is stable: 0 off-rack at b"),
        (RemedyKind.SET_BROKER_RACK, {}, "set broker.rack on the brokers without one"),
        (RemedyKind.SET_BROKER_RACK, {"brokers": (7,)}, "set broker.rack on broker 7"),
        (RemedyKind.SET_BROKER_RACK, {"brokers": (7, 9)}, "set broker.rack on brokers 7, 9"),
        (RemedyKind.SET_MEMBER_RACK, {"members": ("m",)}, "set the rack of this member: client.r"),
        (RemedyKind.SET_MEMBER_RACK, {"members": ("m", "n")}, "set the rack of these members: cl"),
        (RemedyKind.REBALANCE, {}, "rebalance with an assignor that uses the racks of leaders"),
        (
            RemedyKind.FIT_LEADERS,
            {"moves": {"a": {"t": (0, 1), "u": (4,)}, "b": {"t": (2,)}}},
            "move 4 leaders to the racks of the members that read them",
        ),
        (RemedyKind.FIT_LEADERS, {"moves": {"a": {"t": (0,)}}}, "move 1 leader to the racks of th"),
        (
            RemedyKind.MOVE_LEADERS,
            {"moves": {"a": {"t": (0, 1), "u": (4,)}, "b": {"t": (2,)}, "c": {"t": (3,)}}},
            "move 3 leaders to a and 1 to b and 1 to c",
        ),
        (
            RemedyKind.SUBSCRIBE,
            {"rack": "a", "topics": ("t", "u")},
            "subscribe the members in a to t, u",
        ),
        (RemedyKind.SEPARATE_TOPICS, {}, "set co_partitioned=False in the assignor"),
        (RemedyKind.START_MEMBERS, {"rack": "a", "count": 1}, "start 1 more member in a"),
        (RemedyKind.START_MEMBERS, {"rack": "a", "count": 2}, "start 2 more members in a"),
    ],
)
def test_remedies(kind: RemedyKind, values: dict[str, Any], text: str) -> None:
    assert remedy_text(Remedy(kind, **values)).startswith(text)


def test_text_without_fields_is_used_for_every_kind() -> None:
    assert all("{" not in reason_text(finding(reason)) for reason in Reason)
    assert all("{" not in remedy_text(Remedy(kind)) for kind in RemedyKind)
