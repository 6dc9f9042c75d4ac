"""Checks, optima by enumeration and random cases for leader layouts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.leaders import ConsumerDemand, LeaderLayout

Leaders = Mapping[TopicPartition, int | None]


def quotas(readers: ConsumerDemand, partitions: int) -> Iterator[dict[str | None, int]]:
    """Yield every distribution of partitions over racks that a balanced assignment may have."""
    consumers = {rack: n for rack, n in readers.consumers.items() if n}
    each, rest = divmod(partitions, sum(consumers.values()))
    for extra in product(*(range(min(n, rest) + 1) for n in consumers.values())):
        if sum(extra) == rest:
            yield {
                rack: n * each + more
                for (rack, n), more in zip(consumers.items(), extra, strict=True)
            }


def local(view: ClusterView, readers: ConsumerDemand, leaders: Leaders) -> int:
    """Return the maximum of partitions that a balanced assignment reads locally."""
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
    view: ClusterView, readers: Sequence[ConsumerDemand], leaders: Leaders
) -> tuple[float, int, int]:
    """Return weighted partitions not read locally, squared leaders per broker, changes."""
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


def best_value(view: ClusterView, readers: Sequence[ConsumerDemand]) -> tuple[float, int, int]:
    """Return the minimum value of all choices of leaders among replicas on live brokers."""
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


def check_layout(view: ClusterView, readers: list[ConsumerDemand], layout: LeaderLayout) -> None:
    """Assert that only the order changes and that localities match the enumeration."""
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
        reader = by_name[one.name]
        count = sum(p.topic in reader.topics for p in view.replicas)
        assert one.partitions == count, f"{one.partitions} partitions, not {count}"
        before, after = local(view, reader, today), local(view, reader, chosen(view, layout))
        assert one.before == before, f"{one.before} local before, not {before}"
        assert one.after == after, f"{one.after} local after, not {after}"


RACKS = ("a", "b", "c", "d")


def random_view(rng: random.Random, partitions: int, topics: str = "t") -> ClusterView:
    """Return random replicas, some on a missing broker, some on brokers without a rack."""
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


def random_readers(rng: random.Random, name: str, topics: str = "t") -> ConsumerDemand:
    """Return a few consumers, some in a rack without brokers or in an unknown rack."""
    racks: list[str | None] = [*RACKS, None]
    consumers = {rack: rng.choice((0, 0, 1, 1, 2, 3)) for rack in rng.sample(racks, 4)}
    return ConsumerDemand(name, frozenset(topics), consumers, rng.choice((1.0, 1.0, 0.5, 2.0)))
