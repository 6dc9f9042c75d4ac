"""Random groups from a seed: every oddity of the contract, at sizes the oracles can take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

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
GARBAGE: tuple[object, ...] = (-1, -7, 10**6, 2**40, "0", None, 0.5, 2.0, (0,))


@dataclass(frozen=True)
class Group:
    """What is handed to an assignor, with the options to build it with."""

    members: tuple[Member, ...]
    leader_racks: Mapping[str, Sequence[str | None]]
    weights: Mapping[str, Sequence[float]] | None = None
    max_imbalance: float = 0.0
    co_partitioned: bool = True


@dataclass(frozen=True)
class Size:
    """Upper bounds of what is drawn."""

    members: int
    topics: int
    partitions: int
    cells: int = field(default=10**9)


SMALL = Size(members=4, topics=3, partitions=6, cells=8)
MIDDLE = Size(members=12, topics=8, partitions=12, cells=60)
LARGE = Size(members=40, topics=14, partitions=60, cells=320)


def random_group(seed: object, size: Size, *, imbalance: bool = False) -> Group:
    """A group that depends on nothing but its arguments."""
    rng = Random(f"{seed}")
    racks = rng.choice(RACKS)
    leader_racks = draw_leaders(rng, size, racks)
    subscriptions = draw_subscriptions(rng, rng.randint(1, size.members), sorted(leader_racks))
    owned, generations = draw_owned(rng, subscriptions, leader_racks)
    lost = rng.choice((0.0, 0.0, 0.2, 1.0)) if rng.random() < 0.5 else 0.0
    static = rng.choice((0.0, 0.0, 0.5, 1.0))
    seats = rng.sample(range(100), len(subscriptions))
    members = [
        Member(
            id=f"m-{seat}",
            topics=frozenset(topics),
            rack=rng.choice(UNKNOWN) if rng.random() < lost else rng.choice(racks),
            instance_id=f"{'iz'[seat % 2]}-{rng.randint(0, 99)}-{seat}"
            if rng.random() < static
            else None,
            owned=owned[i],  # type: ignore[arg-type]  # garbage among the numbers, on purpose
            generation=generations[i],
        )
        for i, (seat, topics) in enumerate(zip(seats, subscriptions, strict=True))
    ]
    return Group(
        members=tuple(members),
        leader_racks=leader_racks,
        weights=draw_weights(rng, leader_racks),
        max_imbalance=rng.choice((0.25, 0.5, 1.0, 3.0)) if imbalance else 0.0,
        co_partitioned=rng.random() < 0.8,
    )


def draw_leaders(rng: Random, size: Size, racks: Sequence[str]) -> dict[str, list[str | None]]:
    """Topics with the racks of their leaders; some empty, some leaders lost."""
    lost = rng.choice((0.0, 0.0, 0.1, 0.5, 1.0)) if rng.random() < 0.4 else 0.0
    # Leaders may stand in racks where no member can, and crowd in one of them.
    wider = [*racks, "far", "/dc9/r1"] if rng.random() < 0.3 else list(racks)
    crowded = [rng.choice(wider)] * rng.choice((0, 0, 0, 3, 8))
    # Range groups topics by partition count: let counts coincide in half of the groups.
    same = rng.randint(1, size.partitions) if rng.random() < 0.5 else None
    found: dict[str, list[str | None]] = {}
    left = size.cells
    for topic in range(rng.randint(1, size.topics)):
        count = rng.randint(1, size.partitions) if same is None else same
        count = min(0 if rng.random() < 0.05 else count, left)
        left -= count
        found[f"t{topic}"] = [
            rng.choice(UNKNOWN) if rng.random() < lost else rng.choice(wider + crowded)
            for _ in range(count)
        ]
    return found


def draw_subscriptions(rng: Random, members: int, topics: Sequence[str]) -> list[set[str]]:
    """Who subscribes to what: all, one or two who differ, nested, or anything."""
    kind = rng.choice(("uniform", "uniform", "divergent", "nested", "blocks", "any", "any"))
    everyone = [set(topics) for _ in range(members)]
    if kind == "uniform":
        found = everyone
    elif kind == "divergent":
        found = everyone
        found[rng.randrange(members)] = set(rng.sample(topics, rng.randint(0, len(topics))))
    elif kind == "nested":
        found = [set(topics[: rng.randint(0, len(topics))]) for _ in range(members)]
    elif kind == "blocks":
        cut = rng.randint(0, len(topics))
        found = [set(rng.choice((topics[:cut], topics[cut:]))) for _ in range(members)]
    else:
        share = rng.choice((0.3, 0.5, 0.8))
        found = [{topic for topic in topics if rng.random() < share} for _ in range(members)]
    for wanted in found:
        if rng.random() < 0.05:
            wanted.add("no-such-topic")
    return found


def draw_owned(
    rng: Random, subscriptions: Sequence[set[str]], leader_racks: Mapping[str, Sequence[object]]
) -> tuple[list[dict[str, list[object]]], list[int]]:
    """Claims per member, with their generations; clean, stale, doubled or garbage."""
    members = range(len(subscriptions))
    owned: list[dict[str, list[object]]] = [{} for _ in members]
    kind = rng.choice(("none", "clean", "clean", "clean", "stale", "doubled", "garbage"))
    if kind == "none":
        return owned, [-1 for _ in members]
    held = rng.choice((0.5, 0.9, 1.0))
    extra = 0.4 if kind in ("doubled", "garbage") else 0.0
    # A lopsided past makes moves scarce: most of what is held is held by the first members.
    lopsided = rng.random() < 0.4
    for topic, row in leader_racks.items():
        takers = [i for i in members if topic in subscriptions[i]]
        pool = takers if takers and rng.random() < 0.9 else list(members)
        pool = pool[: 1 + len(pool) // 2] if lopsided else pool
        for number in range(len(row)):
            if rng.random() < held:
                owned[rng.choice(pool)].setdefault(topic, []).append(number)
            if rng.random() < extra:
                owned[rng.choice(members)].setdefault(topic, []).append(number)
    if kind == "garbage":
        for _ in range(4):
            topic = rng.choice([*leader_racks, "no-such-topic", "gone"])
            owned[rng.choice(members)].setdefault(topic, []).append(rng.choice(GARBAGE))
    for claims in owned:
        for numbers in claims.values():
            rng.shuffle(numbers)
    stale = kind != "clean"
    return owned, [rng.choice((7, 7, 6, -1)) if stale else 7 for _ in members]


def draw_weights(
    rng: Random, leader_racks: Mapping[str, Sequence[object]]
) -> dict[str, list[float]] | None:
    """Traffic by partition: none, a few sizes, anything, or with holes and nonsense in it."""
    kind = rng.choice(("none", "none", "none", "sizes", "any", "odd"))
    if kind == "none":
        return None
    found: dict[str, list[float]] = {}
    for topic, row in leader_racks.items():
        if kind == "sizes":
            found[topic] = [rng.choice((1.0, 10.0, 100.0)) for _ in row]
        else:
            found[topic] = [rng.random() * 10 ** rng.randint(0, 6) for _ in row]
        if kind == "odd":
            nonsense = (0.0, -1.0, float("nan"), float("inf"), float("-inf"))
            found[topic] = [
                rng.choice(nonsense) if rng.random() < 0.4 else weight for weight in found[topic]
            ]
            found[topic] = found[topic][: rng.randint(0, len(row))] + [0.0] * rng.randint(0, 1)
            if rng.random() < 0.2:
                del found[topic]
    return found


# ---- What happens to a group from one rebalance to the next.

LeaderLists = dict[str, list[str | None]]


def fed_back(members: Sequence[Member], plan: Plan, generation: int) -> list[Member]:
    """The same members, each owning what the plan gave it, a generation later."""
    return [
        replace(
            member,
            owned={t: list(numbers) for t, numbers in plan.partitions[member.id].items()},
            generation=generation,
        )
        for member in members
    ]


def random_leaders(rng: Random, topics: int, partitions: int, racks: Sequence[str]) -> LeaderLists:
    """Every partition's leader in a rack of its own chance."""
    return {
        f"topic-{topic:02}": [rng.choice(racks) for _ in range(partitions)]
        for topic in range(topics)
    }


def move_leaders(
    rng: Random, leaders: Mapping[str, Sequence[str | None]], share: float, racks: Sequence[str]
) -> LeaderLists:
    """A share of the leaders, drawn by chance, each in another rack than before."""
    moved = {topic: list(row) for topic, row in leaders.items()}
    cells = [(topic, number) for topic, row in moved.items() for number in range(len(row))]
    for topic, number in rng.sample(cells, round(len(cells) * share)):
        moved[topic][number] = rng.choice([r for r in racks if r != moved[topic][number]])
    return moved


def locality(plan: Plan) -> float:
    """The share of partitions read within their rack."""
    return 1 - plan.off_rack / sum(plan.loads.values())


# ---- Hypothesis strategies for groups: they shrink, where the seeded generator only draws.

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
    """Some of the topics, with zero to ``partitions`` partitions each."""
    known = draw(st.lists(st.sampled_from(TOPICS), unique=True, max_size=3))
    return {topic: draw(st.lists(rack_ids, max_size=partitions)) for topic in known}


@st.composite
def groups(draw: st.DrawFn, members: int = 4) -> Group:
    """Up to ``members`` members with any subscriptions, claims, racks and generations."""
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
