"""The workloads: topics and their leaders, groups and their members, traffic, and what happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from rackward.bench import BenchError
from rackward.measurement.strategies import Client, Strategy

RACKS = ("a", "b", "c")
BROKERS: Mapping[int, str] = {0: "a", 1: "b", 2: "c"}

MOVED_SHARE = 0.1
"""The share of the leaders that move at once."""

EVEN = (1, 1, 1)


class Event(Enum):
    """What happens at the beginning of a step."""

    START = "start"
    LEADERS_MOVE = "leaders-move"
    MEMBER_LEAVES = "member-leaves"
    MEMBER_JOINS = "member-joins"


@dataclass(frozen=True, slots=True)
class TopicShape:
    """A topic: its share of the partitions, and the shares of the racks in its leaders."""

    name: str
    share: int = 1
    leaders: tuple[int, int, int] = EVEN


@dataclass(frozen=True, slots=True)
class MemberShape:
    """A member: its rack, and the names of the topics that it subscribes to (None: all)."""

    rack: str
    topics: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """What groups read, and what happens meanwhile.

    ``groups`` are those of each strategy. With ``skewed`` a few partitions have most of the
    traffic. ``events`` follow the start of all members; ``seeded_events`` more are drawn.
    """

    key: str
    title: str
    topics: tuple[TopicShape, ...] = (TopicShape("t"),)
    groups: tuple[tuple[MemberShape, ...], ...] = ()
    skewed: bool = False
    events: tuple[Event, ...] = ()
    seeded_events: int = 0

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing happens after the start."""
        return not self.events and not self.seeded_events

    def is_possible(self, strategy: Strategy) -> bool:
        """Return whether members with this strategy can do it.

        Java's VerifiableConsumer subscribes to one topic. kafka-python's roundrobin raises KeyError
        if a member is not subscribed to a topic of another one (3.0.12): where it skips such a
        member, it takes a pair of ids for the id of the next.
        """
        subscribed = {
            self.topics if member.topics is None else member.topics
            for group in self.groups
            for member in group
        }
        if strategy.client is Client.JAVA:
            return all(len(topics) == 1 for topics in subscribed)
        if strategy.client is Client.KAFKA_PYTHON and strategy.assignor == "roundrobin":
            return len(subscribed) == 1
        return True


def _group(racks: str) -> tuple[MemberShape, ...]:
    return tuple(map(MemberShape, racks))


_SIX = (_group("abcabc"),)

WORKLOADS: dict[str, Workload] = {
    each.key: each
    for each in (
        Workload("even", "Even leaders", groups=_SIX),
        Workload(
            "one-rack-leads",
            "One rack leads most",
            topics=(TopicShape("t", leaders=(4, 1, 1)),),
            groups=_SIX,
        ),
        Workload("rack-without-members", "A rack without members", groups=(_group("aaabbb"),)),
        Workload("uneven-members", "Uneven members", groups=(_group("aaabbc"),)),
        Workload(
            "subscriptions",
            "Different subscriptions",
            topics=(TopicShape("t", 2), TopicShape("u", 1)),
            groups=(
                tuple(
                    MemberShape(rack, topics) for topics in (("t",), ("t", "u")) for rack in RACKS
                ),
            ),
        ),
        Workload("skewed", "Skewed traffic", groups=_SIX, skewed=True),
        Workload("several-groups", "Several groups", groups=(_group("aabb"), _group("bbcc"))),
        Workload("churn", "Members and leaders change", groups=_SIX, seeded_events=8),
        Workload("decay", "Leaders move", groups=_SIX, events=(Event.LEADERS_MOVE,) * 25),
    )
}


def select_workloads(keys: Sequence[str] | None) -> list[Workload]:
    """Return the workloads with these keys; None: all. Raises BenchError for an unknown key."""
    if keys is None:
        return list(WORKLOADS.values())
    for key in keys:
        if key not in WORKLOADS:
            raise BenchError(f"there is no workload {key!r}: give one of {', '.join(WORKLOADS)}")
    return [WORKLOADS[key] for key in dict.fromkeys(keys)]


def divide(count: int, shares: Sequence[int]) -> list[int]:
    """Divide ``count`` by ``shares`` into integers (largest remainders first)."""
    whole = sum(shares)
    parts = [count * share // whole for share in shares]
    order = sorted(range(len(shares)), key=lambda index: -(count * shares[index] % whole))
    for index in order[: count - sum(parts)]:
        parts[index] += 1
    return parts


def replicas(shape: TopicShape, partitions: int, random: Random) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, the leader first: one in each rack.

    Leaders are shuffled: in step with partition numbers they would favour or penalise an
    assignor by coincidence.
    """
    brokers = list(BROKERS)
    leaders = [
        broker
        for broker, count in zip(brokers, divide(partitions, shape.leaders), strict=True)
        for _ in range(count)
    ]
    random.shuffle(leaders)
    layout = []
    for leader in leaders:
        others = [broker for broker in brokers if broker != leader]
        random.shuffle(others)
        layout.append((leader, *others))
    return layout


def traffic_weights(workload: Workload, partitions: int, random: Random) -> list[int]:
    """Return the relative traffic of each partition: equal, or as 1, 1/2, 1/3 ... shuffled."""
    if not workload.skewed:
        return [1] * partitions
    weights = [max(1, round(partitions / rank)) for rank in range(1, partitions + 1)]
    random.shuffle(weights)
    return weights


def events(workload: Workload, random: Random) -> list[Event]:
    """Return what happens after the start.

    A drawn event is never a second leave in a row: of six members, five are left at least.
    """
    drawn: list[Event] = []
    away = False
    for _ in range(workload.seeded_events):
        change = Event.MEMBER_JOINS if away else Event.MEMBER_LEAVES
        event = random.choice([Event.LEADERS_MOVE, change])
        if event is change:
            away = not away
        drawn.append(event)
    return [*workload.events, *drawn]
