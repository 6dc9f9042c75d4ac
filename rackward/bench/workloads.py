"""The workloads: topics and their leaders, groups and their members, traffic, and what happens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from rackward.bench import BenchError
from rackward.bench.strategies import Client, Producers, Strategy

RACKS = ("a", "b", "c")
MOVED_SHARE = 0.1
"""The share of the leaders that move at once."""


class Event(Enum):
    """What happens at the beginning of a step."""

    START = "start"
    LEADERS_MOVE = "leaders-move"
    MEMBER_LEAVES = "member-leaves"
    MEMBER_JOINS = "member-joins"
    BROKER_DIES = "broker-dies"
    BROKER_RETURNS = "broker-returns"

    @property
    def title(self) -> str:
        """What happens, in words."""
        return _TITLES[self]


_TITLES = {
    Event.START: "all members start",
    Event.LEADERS_MOVE: "a tenth of the leaders move",
    Event.MEMBER_LEAVES: "a member leaves",
    Event.MEMBER_JOINS: "a member joins",
    Event.BROKER_DIES: "a broker dies",
    Event.BROKER_RETURNS: "the broker returns",
}


@dataclass(frozen=True, slots=True)
class TopicShape:
    """A topic: its share of the partitions, and the weights of racks whose brokers lead more.

    A broker leads in proportion to the weight of its rack; default: 1. ``traffic`` is the topic's
    share of the bytes, where producers choose the partitions.
    """

    name: str
    share: int = 1
    leaders: Mapping[str, int] = field(default_factory=dict)
    traffic: int = 1


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
    ``writers`` are the racks of producers, with their shares of the bytes; with none, one producer
    writes to each partition its share. ``racks`` has the rack of each broker.
    """

    key: str
    title: str
    topics: tuple[TopicShape, ...] = (TopicShape("t"),)
    groups: tuple[tuple[MemberShape, ...], ...] = ()
    skewed: bool = False
    events: tuple[Event, ...] = ()
    seeded_events: int = 0
    writers: Mapping[str, float] = field(default_factory=dict)
    racks: tuple[str, ...] = RACKS

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
        if bool(self.writers) != (strategy.producers is not Producers.FIXED):
            return False
        every_topic = tuple(topic.name for topic in self.topics)
        subscribed = {
            every_topic if member.topics is None else member.topics
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
    workload.key: workload
    for workload in (
        Workload("even", "Even leaders", groups=_SIX),
        Workload(
            "one-rack-leads",
            "One rack leads most",
            topics=(TopicShape("t", leaders={"a": 4}),),
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
        Workload(
            "producers",
            "Racks that write 60, 30 and 10 %",
            topics=(TopicShape("heavy", traffic=3), TopicShape("light")),
            groups=(_group("aaaaaabbbc"),),
            writers={"a": 0.6, "b": 0.3, "c": 0.1},
            racks=RACKS * 2,
        ),
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


def replicas(
    shape: TopicShape, partitions: int, racks: Mapping[int, str], random: Random
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, the leader first; ``racks`` are the brokers'.

    Every partition has a replica in each of up to three racks. Followers are spread evenly within
    a rack. Leaders are shuffled: in step with partition numbers they would favour or penalise an
    assignor by coincidence.
    """
    by_rack: dict[str, list[int]] = defaultdict(list)
    for broker, rack in sorted(racks.items()):
        by_rack[rack].append(broker)
    brokers = sorted(racks)
    counts = divide(partitions, [shape.leaders.get(racks[broker], 1) for broker in brokers])
    leaders = [broker for broker, count in zip(brokers, counts, strict=True) for _ in range(count)]
    random.shuffle(leaders)
    followed: Counter[int] = Counter()
    layout = []
    for leader in leaders:
        other_racks = sorted(rack for rack in by_rack if rack != racks[leader])
        followers = []
        for rack in random.sample(other_racks, min(2, len(other_racks))):
            follower = min(by_rack[rack], key=lambda broker: (followed[broker], broker))
            followed[follower] += 1
            followers.append(follower)
        layout.append((leader, *followers))
    return layout


def choose_leader_moves(
    replicas: Sequence[Sequence[int]],
    leaders: Sequence[int],
    racks: Mapping[int, str],
    share: float,
    random: Random,
) -> dict[int, int]:
    """Return new leaders by partition, for ``share`` of the partitions (at least one).

    Each new leader is a replica in another rack: a move within a rack changes nothing that is
    measured.
    """
    candidates = {
        partition: others
        for partition, brokers in enumerate(replicas)
        if (others := [broker for broker in brokers if racks[broker] != racks[leaders[partition]]])
    }
    count = min(len(candidates), max(1, round(share * len(replicas))))
    return {
        partition: random.choice(candidates[partition])
        for partition in sorted(random.sample(list(candidates), count))
    }


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
