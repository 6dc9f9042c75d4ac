"""Which brokers take the places of placeholders, now that there are brokers enough (KIP-409).

A broker fills a placeholder of a partition that it does not hold yet. Among several, the one whose
rack has the fewest of the partition's replicas, the widest level first; then the one that holds
the fewest replicas in all, so that a broker that has just joined is not passed over; then the one
of the lowest id. Replicas that are there stay where they are, in their order: the new ones come
last and lead nothing until somebody says so.

The decision looks at what is there and remembers nothing. So a partition that has its replicas is
never touched, and asking twice, or after a broker has come and gone, changes nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from placement_core.cluster import Broker, ClusterView, TopicPartition, without_placeholders
from placement_core.racks import RackPath, parse_rack


@dataclass(frozen=True, slots=True)
class Wanted:
    """The replicas that a partition shall have.

    ``stand_ins`` are brokers that were down when the partition was made and were named in its
    list, because the cluster took no shorter one. While such a broker is down its place is as
    good as a placeholder.
    """

    replication_factor: int
    stand_ins: frozenset[int] = frozenset()


def held_by(row: Iterable[int], wanted: Wanted, live: Collection[int]) -> tuple[int, ...]:
    """The replicas of a list that count: neither placeholders nor stand-ins that are down."""
    return tuple(
        broker
        for broker in without_placeholders(row)
        if broker in live or broker not in wanted.stand_ins
    )


def fill(
    view: ClusterView,
    wanted: Mapping[TopicPartition, Wanted],
    busy: Collection[TopicPartition] = (),
    down: Iterable[Broker] = (),
) -> dict[TopicPartition, tuple[int, ...]]:
    """The new replica list of each partition that gets at least one more replica now.

    ``view`` has the live brokers and the lists of the whole cluster, which say how much each
    broker holds. ``busy`` are partitions under reassignment: they are left alone, and their lists
    have the replicas that they are getting. ``down`` are brokers that are known and not live:
    their replicas count where they stand. A partition that the view does not have is left out.
    Where there are still too few brokers it gets those that there are.
    """
    live = view.racks().keys()
    racks = {broker.id: parse_rack(broker.rack) for broker in (*down, *view.brokers)}
    depth = max((len(rack) for rack in racks.values() if rack is not None), default=0)
    paths = {broker: _levels(rack, depth) for broker, rack in racks.items()}
    load = Counter(broker for row in view.replicas.values() for broker in row)
    filled: dict[TopicPartition, tuple[int, ...]] = {}
    for place in sorted(wanted.keys() & view.replicas.keys()):
        if place in busy:
            continue
        row, want = view.replicas[place], wanted[place]
        held = held_by(row, want, live)
        added = _added(held, want.replication_factor, live, paths, load)
        if added:
            load.update(added)
            waiting = tuple(b for b in without_placeholders(row) if b not in held)
            filled[place] = (*held, *added, *waiting)[: want.replication_factor]
    return filled


Levels = tuple[RackPath, ...] | None
"""Every level of a rack as the path down to it, widest first; None for an unknown rack."""


def _levels(rack: RackPath | None, depth: int) -> Levels:
    return None if rack is None else tuple(rack[: level + 1] for level in range(depth))


def _added(
    held: tuple[int, ...],
    replication_factor: int,
    live: Collection[int],
    paths: Mapping[int, Levels],
    load: Counter[int],
) -> tuple[int, ...]:
    """The brokers that take what is missing, as far as there are any."""
    added: list[int] = []
    while len(held) + len(added) < replication_factor:
        among = [*held, *added]
        there: Counter[RackPath] = Counter(
            level for broker in among for level in set(paths.get(broker) or ())
        )

        def rank(
            broker: int, there: Counter[RackPath] = there, most: int = len(among)
        ) -> tuple[tuple[int, ...], int, int]:
            levels = paths[broker]
            # Nobody knows where it stands: perhaps where all the others do.
            taken = (most,) if levels is None else tuple(there[level] for level in levels)
            return taken, load[broker], broker

        open_to = [broker for broker in live if broker not in among]
        if not open_to:
            break
        added.append(min(open_to, key=rank))
    return tuple(added)
