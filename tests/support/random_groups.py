"""Random groups with unusual input of every kind, small enough for the oracles.

They come from a seed or from Hypothesis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st

from assignors import Member, Plan

RACKS: tuple[tuple[str, ...], ...] = (
    ("a", "b", "c"),
    ("a",),
    ("a", "b"),
    ("a", "/a", "b", "c", "d"),
    ("/dc1/r1", "/dc1/r2", "/dc2/r1", "/dc2/r2"),
    ("/dc1", "/dc1/r1", "/dc1/r2", "/dc2/r1"),
    ("/dc1/x/1", "/dc1/x/2", "/dc1/y/1", "/dc2", "/dc2/x", "solo", "dc1"),
)
UNKNOWN: tuple[str | None, ...] = (None, "", "/", "//")
INVALID_CLAIMS: tuple[object, ...] = (-1, -7, 10**6, 2**40, "0", None, 0.5, 2.0, (0,))


def first_quick(numbers: Iterable[int]) -> list[Any]:
    """Return parameters of a test: ``make test-quick`` runs it with the first number only."""
    first, *others = numbers
    return [first, *(pytest.param(number, marks=pytest.mark.thorough) for number in others)]


@dataclass(frozen=True)
class Group:
    """The input of an assignor, and its options."""

    members: tuple[Member, ...]
    leader_racks: Mapping[str, Sequence[str | None]]
    weights: Mapping[str, Sequence[float]] | None = None
    max_imbalance: float = 0.0
    co_partitioned: bool = True


@dataclass(frozen=True)
class Size:
    """Upper bounds of a random group."""

    members: int
    topics: int
    partitions: int
    cells: int = field(default=10**9)


SMALL = Size(members=4, topics=3, partitions=6, cells=8)
MIDDLE = Size(members=12, topics=8, partitions=12, cells=60)
LARGE = Size(members=40, topics=14, partitions=60, cells=320)


def random_group(seed: object, size: Size, *, imbalance: bool = False) -> Group:
    """Return a group that depends on the arguments alone."""
    rng = Random(f"{seed}")
    racks = rng.choice(RACKS)
    leader_racks = draw_leaders(rng, size, racks)
    subscriptions = draw_subscriptions(rng, rng.randint(1, size.members), sorted(leader_racks))
    owned, generations = draw_owned(rng, subscriptions, leader_racks)
    unknown_share = rng.choice((0.0, 0.0, 0.2, 1.0)) if rng.random() < 0.5 else 0.0
    static = rng.choice((0.0, 0.0, 0.5, 1.0))
    numbers = rng.sample(range(100), len(subscriptions))
    members = [
        Member(
            id=f"m-{number}",
            topics=frozenset(topics),
            rack=rng.choice(UNKNOWN) if rng.random() < unknown_share else rng.choice(racks),
            instance_id=f"{'iz'[number % 2]}-{rng.randint(0, 99)}-{number}"
            if rng.random() < static
            else None,
            owned=owned[i],  # type: ignore[arg-type]  # some claims are invalid on purpose
            generation=generations[i],
        )
        for i, (number, topics) in enumerate(zip(numbers, subscriptions, strict=True))
    ]
    return Group(
        members=tuple(members),
        leader_racks=leader_racks,
        weights=draw_weights(rng, leader_racks),
        max_imbalance=rng.choice((0.25, 0.5, 1.0, 3.0)) if imbalance else 0.0,
        co_partitioned=rng.random() < 0.8,
    )


def draw_leaders(rng: Random, size: Size, racks: Sequence[str]) -> dict[str, list[str | None]]:
    """Return topics with the racks of their leaders; some topics empty, some racks unknown."""
    unknown_share = rng.choice((0.0, 0.0, 0.1, 0.5, 1.0)) if rng.random() < 0.4 else 0.0
    # Leaders may be in racks without members, and many of them in one rack.
    wider = [*racks, "far", "/dc9/r1"] if rng.random() < 0.3 else list(racks)
    crowded = [rng.choice(wider)] * rng.choice((0, 0, 0, 3, 8))
    # Range groups topics by partition count: half of the groups have equal counts.
    same = rng.randint(1, size.partitions) if rng.random() < 0.5 else None
    leader_racks: dict[str, list[str | None]] = {}
    left = size.cells
    for topic in range(rng.randint(1, size.topics)):
        count = rng.randint(1, size.partitions) if same is None else same
        count = min(0 if rng.random() < 0.05 else count, left)
        left -= count
        leader_racks[f"t{topic}"] = [
            rng.choice(UNKNOWN) if rng.random() < unknown_share else rng.choice(wider + crowded)
            for _ in range(count)
        ]
    return leader_racks


def draw_subscriptions(rng: Random, members: int, topics: Sequence[str]) -> list[set[str]]:
    """Return each member's topics: equal, one that differs, nested, disjoint, or random."""
    kind = rng.choice(("uniform", "uniform", "divergent", "nested", "blocks", "any", "any"))
    equal = [set(topics) for _ in range(members)]
    if kind == "uniform":
        subscriptions = equal
    elif kind == "divergent":
        subscriptions = equal
        subscriptions[rng.randrange(members)] = set(rng.sample(topics, rng.randint(0, len(topics))))
    elif kind == "nested":
        subscriptions = [set(topics[: rng.randint(0, len(topics))]) for _ in range(members)]
    elif kind == "blocks":
        cut = rng.randint(0, len(topics))
        subscriptions = [set(rng.choice((topics[:cut], topics[cut:]))) for _ in range(members)]
    else:
        share = rng.choice((0.3, 0.5, 0.8))
        subscriptions = [
            {topic for topic in topics if rng.random() < share} for _ in range(members)
        ]
    for wanted in subscriptions:
        if rng.random() < 0.05:
            wanted.add("no-such-topic")
    return subscriptions


def draw_owned(
    rng: Random, subscriptions: Sequence[set[str]], leader_racks: Mapping[str, Sequence[object]]
) -> tuple[list[dict[str, list[object]]], list[int]]:
    """Return each member's claims and generation: consistent, stale, conflicting or invalid."""
    members = range(len(subscriptions))
    owned: list[dict[str, list[object]]] = [{} for _ in members]
    kind = rng.choice(("none", "clean", "clean", "clean", "stale", "doubled", "invalid"))
    if kind == "none":
        return owned, [-1 for _ in members]
    owned_share = rng.choice((0.5, 0.9, 1.0))
    extra = 0.4 if kind in ("doubled", "invalid") else 0.0
    # In half of the cases the first members own most partitions.
    uneven = rng.random() < 0.4
    for topic, row in leader_racks.items():
        candidates = [i for i in members if topic in subscriptions[i]]
        pool = candidates if candidates and rng.random() < 0.9 else list(members)
        pool = pool[: 1 + len(pool) // 2] if uneven else pool
        for number in range(len(row)):
            if rng.random() < owned_share:
                owned[rng.choice(pool)].setdefault(topic, []).append(number)
            if rng.random() < extra:
                owned[rng.choice(members)].setdefault(topic, []).append(number)
    if kind == "invalid":
        for _ in range(4):
            topic = rng.choice([*leader_racks, "no-such-topic", "gone"])
            owned[rng.choice(members)].setdefault(topic, []).append(rng.choice(INVALID_CLAIMS))
    for claims in owned:
        for numbers in claims.values():
            rng.shuffle(numbers)
    stale = kind != "clean"
    return owned, [rng.choice((7, 7, 6, -1)) if stale else 7 for _ in members]


def draw_weights(
    rng: Random, leader_racks: Mapping[str, Sequence[object]]
) -> dict[str, list[float]] | None:
    """Return traffic by partition: none, a few sizes, random, or partly missing or invalid."""
    kind = rng.choice(("none", "none", "none", "sizes", "any", "invalid"))
    if kind == "none":
        return None
    weights: dict[str, list[float]] = {}
    for topic, row in leader_racks.items():
        if kind == "sizes":
            weights[topic] = [rng.choice((1.0, 10.0, 100.0)) for _ in row]
        else:
            weights[topic] = [rng.random() * 10 ** rng.randint(0, 6) for _ in row]
        if kind == "invalid":
            values = (0.0, -1.0, float("nan"), float("inf"), float("-inf"))
            weights[topic] = [
                rng.choice(values) if rng.random() < 0.4 else weight for weight in weights[topic]
            ]
            weights[topic] = weights[topic][: rng.randint(0, len(row))] + [0.0] * rng.randint(0, 1)
            if rng.random() < 0.2:
                del weights[topic]
    return weights


# Changes from one rebalance to the next.

LeaderLists = dict[str, list[str | None]]


def with_assignments(members: Sequence[Member], plan: Plan, generation: int) -> list[Member]:
    """Return the members, each owning what the plan assigns to it, as of ``generation``."""
    return [
        replace(
            member,
            owned={t: list(numbers) for t, numbers in plan.partitions[member.id].items()},
            generation=generation,
        )
        for member in members
    ]


def random_leaders(rng: Random, topics: int, partitions: int, racks: Sequence[str]) -> LeaderLists:
    """Return topics whose leaders are in random racks."""
    return {
        f"topic-{topic:02}": [rng.choice(racks) for _ in range(partitions)]
        for topic in range(topics)
    }


def move_leaders(
    rng: Random, leaders: Mapping[str, Sequence[str | None]], share: float, racks: Sequence[str]
) -> LeaderLists:
    """Return the leaders with a random share of them moved to another rack."""
    moved = {topic: list(row) for topic, row in leaders.items()}
    cells = [(topic, number) for topic, row in moved.items() for number in range(len(row))]
    for topic, number in rng.sample(cells, round(len(cells) * share)):
        moved[topic][number] = rng.choice([r for r in racks if r != moved[topic][number]])
    return moved


# Hypothesis strategies for groups, whose failures shrink.

TOPICS = ("t0", "t1", "t2", "t3")

rack_ids: st.SearchStrategy[str | None] = st.sampled_from(
    ["a", "b", "c", "/a", None, "", "/", "/dc1", "/dc1/r1", "/dc1/r2", "/dc2/r1", "/dc2/r1/s1"]
)
weight_values = st.one_of(
    st.floats(min_value=0, max_value=1e9),
    st.sampled_from([0.0, -1.0, float("nan"), float("inf"), float("-inf")]),
)


@st.composite
def leader_rack_maps(draw: st.DrawFn, partitions: int = 5) -> dict[str, list[str | None]]:
    """Draw topics with up to ``partitions`` partitions each."""
    known = draw(st.lists(st.sampled_from(TOPICS), unique=True, max_size=3))
    return {topic: draw(st.lists(rack_ids, max_size=partitions)) for topic in known}


@st.composite
def groups(draw: st.DrawFn, members: int = 4) -> Group:
    """Draw up to ``members`` members with any subscriptions, claims, racks and generations."""
    leader_racks = draw(leader_rack_maps())
    ids = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=members))
    claims = st.dictionaries(
        st.sampled_from([*TOPICS, "gone"]), st.lists(st.integers(-1, 6), max_size=6), max_size=3
    )
    return Group(
        members=tuple(
            Member(
                id=id_,
                topics=draw(st.frozensets(st.sampled_from(TOPICS))),
                rack=draw(rack_ids),
                instance_id=draw(st.none() | st.sampled_from(["i1", "i2"]).map(id_.__add__)),
                owned=draw(claims),
                generation=draw(st.integers(-1, 2)),
            )
            for id_ in ids
        ),
        leader_racks=leader_racks,
        weights=draw(
            st.none()
            | st.dictionaries(st.sampled_from(TOPICS), st.lists(weight_values, max_size=6))
        ),
        max_imbalance=draw(st.sampled_from([0.0, 0.0, 0.5, 1.0, 3.0])),
        co_partitioned=draw(st.booleans()),
    )
