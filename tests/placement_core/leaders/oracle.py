"""The best leaders by trying all, and locality by trying all quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from placement_core import ClusterView, TopicPartition
from placement_core.leaders import Readers

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
