"""What must be true of every leader layout, worked out from the layouts alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.leaders import LeaderLayout, Readers

# ---- The best leaders by trying all, and locality by trying all quotas.

Leaders = Mapping[TopicPartition, int | None]


def quotas(readers: Readers, partitions: int) -> Iterator[dict[str | None, int]]:
    """Every way in which a balanced assignment shares partitions out to racks."""
    consumers = {rack: n for rack, n in readers.consumers.items() if n}
    each, rest = divmod(partitions, sum(consumers.values()))
    for extra in product(*(range(min(n, rest) + 1) for n in consumers.values())):
        if sum(extra) == rest:
            yield {
                rack: n * each + more
                for (rack, n), more in zip(consumers.items(), extra, strict=True)
            }


def local(view: ClusterView, readers: Readers, leaders: Leaders) -> int:
    """The most partitions that a balanced assignment reads in their leaders' racks."""
    read = [p for p in view.replicas if p.topic in readers.topics]
    racks = view.racks()
    led = Counter(
        racks[leader] for p in read if (leader := leaders.get(p)) is not None and racks.get(leader)
    )
    return max(
        sum(min(led[rack], quota) for rack, quota in quota_of.items() if rack)
        for quota_of in quotas(readers, len(read))
    )


def value(
    view: ClusterView, readers: Sequence[Readers], leaders: Leaders
) -> tuple[float, int, int]:
    """Weighted partitions not read locally, squared leaders per broker, changes."""
    off = 0.0
    for one in readers:
        count = sum(p.topic in one.topics for p in view.replicas)
        if count and sum(one.consumers.values()):
            off += one.weight * (count - local(view, one, leaders))
    loads = Counter(leader for leader in leaders.values() if leader in view.racks())
    changes = sum(
        view.replicas[p][0] != leader and view.replicas[p][0] in view.racks()
        for p, leader in leaders.items()
    )
    return off, sum(n * n for n in loads.values()), changes


def best_value(view: ClusterView, readers: Sequence[Readers]) -> tuple[float, int, int]:
    """The least value of all choices of leaders among replicas on known brokers."""
    known = view.racks()
    options = [
        [broker for broker in row if broker in known] or [row[0]] for row in view.replicas.values()
    ]
    return min(
        value(view, readers, dict(zip(view.replicas, chosen, strict=True)))
        for chosen in product(*options)
    )


def chosen(view: ClusterView, layout: LeaderLayout) -> dict[TopicPartition, int | None]:
    return {p: layout.order.get(p, row)[0] for p, row in view.replicas.items()}


def check_layout(view: ClusterView, readers: list[Readers], layout: LeaderLayout) -> None:
    """Only the order changes, and localities are what a balanced assignment can have."""
    for partition, row in layout.order.items():
        was = view.replicas[partition]
        assert sorted(row) == sorted(was), f"{partition}: {was} became {row}"
        behind = [broker for broker in was if broker != row[0]]
        assert list(row[1:]) == behind, f"{partition}: {was} became {row}: followers moved"
    changed = [p for p, row in layout.order.items() if view.replicas[p] != row]
    moved = [move.partition for move in layout.moves]
    assert moved == sorted(changed), f"moves of {moved}, not of {sorted(changed)}"
    by_name = {one.name: one for one in readers}
    today = {p: row[0] for p, row in view.replicas.items()}
    for one in layout.localities:
        reader = by_name[one.readers]
        count = sum(p.topic in reader.topics for p in view.replicas)
        assert one.partitions == count, f"{one.partitions} partitions, not {count}"
        before, after = local(view, reader, today), local(view, reader, chosen(view, layout))
        assert one.before == before, f"{one.before} local before, not {before}"
        assert one.after == after, f"{one.after} local after, not {after}"


# ---- Small clusters with consumers in odd places: seeded.

RACKS = ("a", "b", "c", "d")


def random_view(rng: random.Random, partitions: int, topics: str = "t") -> ClusterView:
    """Replicas anywhere, some on a broker that is gone, some brokers without a rack."""
    racks: list[str | None] = list(RACKS[: rng.randint(1, 4)])
    if rng.random() < 0.15:
        racks.append(None)
    brokers = tuple(Broker(n, rng.choice(racks)) for n in range(rng.randint(2, 6)))
    ids = [broker.id for broker in brokers] + ([9] if rng.random() < 0.2 else [])
    replicas = {}
    for n in range(partitions):
        count = min(rng.choice((1, 2, 3, 3)), len(ids))
        replicas[TopicPartition(topics[n % len(topics)], n // len(topics))] = tuple(
            rng.sample(ids, count)
        )
    return ClusterView(brokers, replicas)


def random_readers(rng: random.Random, name: str, topics: str = "t") -> Readers:
    """A few consumers, now and then in a rack without brokers, or in none."""
    racks: list[str | None] = [*RACKS, None]
    consumers = {rack: rng.choice((0, 0, 1, 1, 2, 3)) for rack in rng.sample(racks, 4)}
    return Readers(name, frozenset(topics), consumers, rng.choice((1.0, 1.0, 0.5, 2.0)))
