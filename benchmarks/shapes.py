"""The groups that are timed: seeded, so that every run sees the same ones."""

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

    ``at_most`` is the time in milliseconds that a first assignment is allowed (issue 3); the
    incremental ones are allowed half as much again. ``memory`` is in megabytes.
    """

    partitions: int
    members: int
    topics: int
    at_most: float | None = None
    memory: int | None = None
    subscribe: Subscribe = lambda _, names, __: names
    assignor: type[Assignor] = LeaderRackAwareCooperativeSticky
    adapter: bool = False


def _half(_: int, names: list[str], rng: random.Random) -> list[str]:
    return rng.sample(names, len(names) // 2)


def _buckets(member: int, names: list[str], _: random.Random) -> list[str]:
    width = len(names) // 5
    return names[member % 5 * width :][:width]


def _nested(member: int, names: list[str], _: random.Random) -> list[str]:
    return names[: len(names) // 5 * (member % 5 + 1)]


def _divergent(member: int, names: list[str], _: random.Random) -> list[str]:
    return names if member else names[:1]


SHAPES = {
    "small 360/12": Shape(360, 12, 12),
    "uniform 25k/100": Shape(25_000, 100, 100, at_most=5),
    "uniform 40k/800": Shape(40_000, 800, 200, at_most=12),
    "uniform 50k/1000": Shape(50_000, 1_000, 100, at_most=12),
    "5 disjoint buckets 10k/1000": Shape(10_000, 1_000, 100, at_most=12, subscribe=_buckets),
    "5 nested buckets 10k/1000": Shape(10_000, 1_000, 100, at_most=12, subscribe=_nested),
    "random halves 50k/1000": Shape(50_000, 1_000, 100, at_most=200, subscribe=_half),
    "range 50k/1000": Shape(50_000, 1_000, 100, at_most=50, assignor=LeaderRackAwareRange),
    "kafka-python 50k/1000, bytes to bytes": Shape(50_000, 1_000, 100, at_most=150, adapter=True),
    "uniform 1M/2000": Shape(1_000_000, 2_000, 500, at_most=1_000, memory=700),
    "1M/2000, one divergent": Shape(
        1_000_000, 2_000, 500, at_most=1_000, memory=700, subscribe=_divergent
    ),
}

STEPS = ("start", "leaders move", "join", "leave")


def first_input(shape: Shape) -> tuple[list[Member], Leaders]:
    """The group before its first assignment."""
    rng = random.Random(1)
    each = shape.partitions // shape.topics
    leaders: Leaders = {
        f"topic-{t:04}": [rng.choice(RACKS) for _ in range(each)] for t in range(shape.topics)
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
    """The group at a step of its life; after the start, members own the first plan."""
    members, leaders = first_input(shape)
    if step == "start":
        return members, leaders
    owned = shape.assignor().assign(members, leaders).partitions
    settled = [replace(member, owned=owned[member.id]) for member in members]
    if step == "join":
        middle = settled[len(settled) // 2]
        newcomer = replace(middle, id="member-new", owned={}, generation=-1)
        return [*settled, newcomer], leaders
    if step == "leave":
        return settled[: len(settled) // 2] + settled[len(settled) // 2 + 1 :], leaders
    rng = random.Random(2)
    moved: Leaders = {
        topic: [rng.choice(RACKS) if rng.random() < 0.1 else rack for rack in row]
        for topic, row in leaders.items()
    }
    return settled, moved
