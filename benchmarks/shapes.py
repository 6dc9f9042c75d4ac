"""The groups that are measured. They are seeded, so that every run has the same input."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member

RACKS = "abc"
Assignor = LeaderRackAwareCooperativeSticky | LeaderRackAwareRange
Leaders = dict[str, list[str | None]]
Subscribe = Callable[[int, list[str], random.Random], list[str]]


@dataclass(frozen=True, slots=True)
class Shape:
    """A group of ``members`` on ``topics`` topics of ``partitions / topics`` partitions each.

    ``max_milliseconds`` limits the first assignment; the limit of incremental ones is 1.5 times as
    high.
    """

    partitions: int
    members: int
    topics: int
    max_milliseconds: float | None = None
    max_megabytes: int | None = None
    subscribe: Subscribe = lambda _, names, __: names
    assignor: type[Assignor] = LeaderRackAwareCooperativeSticky


def _random_half(_: int, names: list[str], rng: random.Random) -> list[str]:
    return rng.sample(names, len(names) // 2)


def disjoint_buckets(member: int, names: list[str], _: random.Random) -> list[str]:
    width = len(names) // 5
    return names[member % 5 * width :][:width]


def _nested_buckets(member: int, names: list[str], _: random.Random) -> list[str]:
    return names[: len(names) // 5 * (member % 5 + 1)]


def _one_divergent(member: int, names: list[str], _: random.Random) -> list[str]:
    return names if member else names[:1]


SHAPES = {
    "small 360/12": Shape(360, 12, 12),
    "uniform 25k/100": Shape(25_000, 100, 100, max_milliseconds=5),
    "uniform 40k/800": Shape(40_000, 800, 200, max_milliseconds=12),
    "uniform 50k/1000": Shape(50_000, 1_000, 100, max_milliseconds=12),
    "5 disjoint buckets 10k/1000": Shape(
        10_000, 1_000, 100, max_milliseconds=12, subscribe=disjoint_buckets
    ),
    "5 nested buckets 10k/1000": Shape(
        10_000, 1_000, 100, max_milliseconds=12, subscribe=_nested_buckets
    ),
    "random halves 50k/1000": Shape(
        50_000, 1_000, 100, max_milliseconds=200, subscribe=_random_half
    ),
    "range 50k/1000": Shape(50_000, 1_000, 100, max_milliseconds=50, assignor=LeaderRackAwareRange),
    "uniform 1M/2000": Shape(1_000_000, 2_000, 500, max_milliseconds=1_000, max_megabytes=700),
    "1M/2000, one divergent": Shape(
        1_000_000, 2_000, 500, max_milliseconds=1_000, max_megabytes=700, subscribe=_one_divergent
    ),
}

STEPS = ("start", "leaders move", "join", "leave")


def first_input(shape: Shape) -> tuple[list[Member], Leaders]:
    """Return the group before its first assignment."""
    rng = random.Random(1)
    partitions_per_topic = shape.partitions // shape.topics
    leaders: Leaders = {
        f"topic-{t:04}": [rng.choice(RACKS) for _ in range(partitions_per_topic)]
        for t in range(shape.topics)
    }
    names = list(leaders)
    members = [
        Member(
            f"member-{m:05}",
            frozenset(shape.subscribe(m, names, rng)),
            RACKS[m % len(RACKS)],
            generation=1,
        )
        for m in range(shape.members)
    ]
    return members, leaders


def input_of(shape: Shape, step: str) -> tuple[list[Member], Leaders]:
    """Return the group at a step; after "start", members own the first plan's partitions."""
    members, leaders = first_input(shape)
    if step == "start":
        return members, leaders
    owned = shape.assignor().assign(members, leaders).partitions
    owners = [replace(member, owned=owned[member.id]) for member in members]
    if step == "join":
        middle = owners[len(owners) // 2]
        new_member = replace(middle, id="member-new", owned={}, generation=-1)
        return [*owners, new_member], leaders
    if step == "leave":
        return owners[: len(owners) // 2] + owners[len(owners) // 2 + 1 :], leaders
    rng = random.Random(2)
    moved: Leaders = {
        topic: [rng.choice(RACKS) if rng.random() < 0.1 else rack for rack in row]
        for topic, row in leaders.items()
    }
    return owners, moved
