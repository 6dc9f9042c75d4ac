"""Placement with fewer live brokers than replicas (KIP-409).

Goal. Create a topic although some brokers are down: its partitions get the replicas that live
brokers can hold, and a placeholder, -1, -2, -3 ..., for each one that is missing (see
:mod:`placement_core.cluster`). `fill_placeholders` fills them later.

Constraints. There must be at least min(``min_insync_replicas``, RF) live brokers, so that producers
can write with any acks from the first moment on. Leaders are as even over the live brokers as the
wrapped placer makes them.

Algorithm. With enough live brokers the wrapped placer places the partitions. Otherwise it is called
with the number of live brokers as replication factor, and placeholders are appended. Partitions
that have replicas already get no placeholders: those that the wrapped placer cannot complete are an
error.

Worked example, RF 3, brokers 0 in rack a and 1 in rack b live, 2 in rack c down::

    new topic of 3 partitions                      0 1 -1   1 0 -1   0 1 -1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from placement_core.cluster import (
    Broker,
    ClusterView,
    TopicPartition,
    with_placeholders,
    without_placeholders,
)
from placement_core.errors import InvalidOptionError, PlacementError, format_brokers
from placement_core.placers.round_robin import RackAlternatingPlacer
from placement_core.placers.spec import (
    PlacementSpec,
    ReplicaLists,
    ReplicaPlacer,
    eligible_brokers,
    require_int,
)
from placement_core.racks import RackPath, parse_rack


@dataclass(frozen=True, slots=True)
class UnderReplicatedPlacer:
    """Wraps a placer; returns placeholders for the replicas that no live broker can hold.

    ``min_insync_replicas`` is the topic's own setting if it has one, else the cluster's.

    Never used unless a placer is wrapped explicitly: brokers report such partitions as complete,
    but they have fewer copies than requested until the placeholders are filled.

    The rule and a worked table are in :mod:`placement_core.placers.under_replicated`.
    """

    placer: ReplicaPlacer = field(default_factory=RackAlternatingPlacer)
    min_insync_replicas: int = 1

    def __post_init__(self) -> None:
        require_int("min_insync_replicas", self.min_insync_replicas, 1)
        if isinstance(self.placer, UnderReplicatedPlacer):
            raise InvalidOptionError("an under-replicated placer wraps another one: wrap it once")

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists | None:
        """See ReplicaPlacer. Raises PlacementError if there are too few live brokers."""
        usable = eligible_brokers(view, broker_ids)
        view = replace(
            view, replicas={p: without_placeholders(row) for p, row in view.replicas.items()}
        )
        if len(usable) >= spec.replication_factor or any(spec.present):
            return self.placer.place(spec, view, broker_ids)
        minimum = min(self.min_insync_replicas, spec.replication_factor)
        if len(usable) < minimum:
            live = format_brokers(usable) if usable else "none"
            raise PlacementError(
                f"{minimum} in-sync replicas are needed to write (the smaller of "
                f"min.insync.replicas {self.min_insync_replicas} and replication factor "
                f"{spec.replication_factor}), but there are {len(usable)} live brokers ({live}): "
                "wait for more brokers, or lower min.insync.replicas"
            )
        reachable = replace(spec, replication_factor=len(usable))
        layout = self.placer.place(reachable, view, broker_ids)
        if layout is None:
            return None
        return tuple(with_placeholders(row, spec.replication_factor) for row in layout)


# ---- Filling placeholders: brokers for the missing replicas once they are available (KIP-409).
#
# A placeholder of a partition is filled by a live broker that does not hold the partition yet. Of
# several, in this order:
#
# 1. the broker whose rack has the fewest replicas of the partition, the widest level first; a
#    broker with an unknown rack counts as standing where all the others do;
# 2. the broker with the fewest replicas in all, so that a broker that has just joined gets some;
# 3. the broker with the lowest id.
#
# Replicas stay where they are, in their order. New ones are appended, so that leaders do not
# change.
#
# Worked example: racks {0: a, 1: b, 2: a, 3: c}, RF 3. The list (0, 1, -1) becomes (0, 1, 3), since
# rack c has no replica; without broker 3 it becomes (0, 1, 2).
#
# The decision depends on the present lists alone. A partition that has all its replicas is never
# changed, and repeating the decision, or taking it after a broker has left and returned, changes
# nothing twice.


@dataclass(frozen=True, slots=True)
class ReplicationTarget:
    """The replicas that a partition shall have.

    ``offline_replicas`` are brokers that were down when the partition was created and were put
    into its list because the cluster accepted no shorter one. While such a broker is down, its
    replica counts as a placeholder.
    """

    replication_factor: int
    offline_replicas: frozenset[int] = frozenset()


def counted_replicas(
    row: Iterable[int], target: ReplicationTarget, live: Collection[int]
) -> tuple[int, ...]:
    """Return the replicas of a list without placeholders and offline replicas that are down."""
    return tuple(
        broker
        for broker in without_placeholders(row)
        if broker in live or broker not in target.offline_replicas
    )


def fill_placeholders(
    view: ClusterView,
    targets: Mapping[TopicPartition, ReplicationTarget],
    reassigning: Collection[TopicPartition] = (),
    offline_brokers: Iterable[Broker] = (),
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the new replica list of each partition that gets at least one more replica now.

    ``view`` has the live brokers and the lists of the whole cluster, from which the load of each
    broker is counted. ``reassigning`` are partitions under reassignment: they are left alone, and
    their lists contain the replicas that they are getting. ``offline_brokers`` are known brokers
    that are not live: their replicas count in their racks.

    Partitions that the view does not have are omitted. With too few brokers, a partition gets as
    many replicas as there are brokers for.
    """
    live = view.racks().keys()
    racks = {b.id: parse_rack(b.rack) or () for b in (*offline_brokers, *view.brokers)}
    depth = max(map(len, racks.values()), default=0)
    nodes = {
        broker: [rack[: level + 1] for level in range(depth)] if rack else []
        for broker, rack in racks.items()
    }
    loads = Counter(broker for row in view.replicas.values() for broker in row)
    filled: dict[TopicPartition, tuple[int, ...]] = {}
    for partition in sorted(targets.keys() & view.replicas.keys()):
        if partition in reassigning:
            continue
        row, target = view.replicas[partition], targets[partition]
        counted = counted_replicas(row, target, live)
        added = _added(counted, target.replication_factor, live, nodes, loads)
        if added:
            loads.update(added)
            offline = tuple(b for b in without_placeholders(row) if b not in counted)
            filled[partition] = (*counted, *added, *offline)[: target.replication_factor]
    return filled


def _added(
    counted: tuple[int, ...],
    replication_factor: int,
    live: Collection[int],
    nodes: Mapping[int, Sequence[RackPath]],
    loads: Counter[int],
) -> tuple[int, ...]:
    """Return the brokers that take the missing replicas, as far as there are any.

    ``nodes`` has the path down to each level of a broker's rack, widest first; none if the rack is
    unknown.
    """
    holders = list(counted)
    while len(holders) < replication_factor:
        replicas_below = Counter(node for broker in holders for node in set(nodes.get(broker, ())))
        ranked = [
            (
                [replicas_below[node] for node in nodes[broker]] or [len(holders)],
                loads[broker],
                broker,
            )
            for broker in live
            if broker not in holders
        ]
        if not ranked:
            break
        holders.append(min(ranked)[-1])
    return tuple(holders[len(counted) :])
