"""Placement over racks with levels (KIP-879): spread over the widest level first, then within.

Goal. Each partition's replicas over as many data centres as there are, then over as many rooms of
each, then racks, then brokers; and leaders, as well as replicas, even over brokers, whatever the
shape of the tree.

Algorithm. The rack paths of the brokers form a tree whose leaves are brokers. Each node has a
:class:`~placement_core.placers.ring.Ring` over its children, which picks the child for each
replica; the child's own ring picks the next one down, until a broker is reached.

1. Leaders are placed first, one round for all partitions, so that every broker leads equally often
   (once in as many partitions as there are brokers), however uneven the tree is.
2. Then followers, with the leaders counted as turns that their brokers have had.
3. Partitions added to a topic, and replicas added to partitions, continue where the rings stopped:
   the replicas that the topic has are counted as turns too.
4. A ring does not know which brokers below its children a partition has left. So replicas that were
   added to partitions are exchanged afterwards, among the last partitions, until brokers are even
   or have been gone through twenty times.

Worked example: brokers 0 to 5 in /dc1/r1, /dc1/r2, /dc2/r1, /dc2/r2, /dc3/r1, /dc3/r2, RF 3, seed
1. Each partition has one replica per data centre, and each broker leads one of six::

    partitions 0 to 5     035  314  420  513  142  250
    partitions 6 to 11    512  153  204  413  052  304

With RF 5, two of the three data centres have a replica in both of their racks.

Differences to the proposal. There, each replica advances the pointer from the replica before it, so
that with as many replicas as data centres one of these would lead everything; and a room with one
broker has as many turns as one with nine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from placement_core.cluster import ClusterView
from placement_core.errors import PlacementError, format_brokers
from placement_core.flow import IntArray, Segments
from placement_core.placers.ring import Request, Ring, level_last
from placement_core.placers.round_robin import (
    MISSING,
    SimplePlacer,
    existing_rows,
    new_seed,
    topic_rng,
)
from placement_core.placers.spec import (
    PlacementSpec,
    ReplicaLists,
    candidates,
    to_replica_lists,
)
from placement_core.plugins import read_properties
from placement_core.racks import RackPath

LAST_PARTITIONS = 8
"""The number of last partitions, per child of a node, that are leveled after all are placed."""

_MAX_EXCHANGING_BROKERS, _EXCHANGES = 100, 20
"""Larger clusters keep what rings leave uneven, a few replicas of hundreds: in one of 100 brokers,
twenty passes take a second."""


@dataclass(frozen=True, slots=True)
class MultiLevelPlacer:
    """Spreads each partition's replicas over the widest level of the racks first, then within.

    ``seed`` decides where the rings start. Partitions added to a topic and replicas added to
    partitions continue where the rings stopped.

    If no broker has a rack, this is SimplePlacer. If only some brokers have one it raises
    MissingRacksError, unless the spec ignores racks.

    The rule and a worked table are in :mod:`placement_core.placers.multi_level`.
    """

    seed: int = field(default_factory=new_seed)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> MultiLevelPlacer:
        """Construct from ``seed``. Raises InvalidOptionError."""
        return cls(**read_properties("multi-level", properties, seed=int))

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists:
        """See ReplicaPlacer. Raises PlacementError, of which MissingRacksError is one."""
        among = candidates(spec, view, broker_ids)
        if not among.racks:
            return SimplePlacer(seed=self.seed).place(spec, view, broker_ids)
        _require_among(among.ids, spec, among.racks)
        existing = existing_rows(spec, view).values()
        # Brokers are numbers from here on. Those that are not among the candidates come last.
        ids = list(dict.fromkeys(chain(among.ids, *spec.present, *existing)))
        number = {broker: at for at, broker in enumerate(ids)}
        tree = TreeNode.build({number[broker]: among.racks[broker] for broker in among.ids})
        rows = np.full((spec.replication_factor, spec.partitions), MISSING)
        for index, row in enumerate(spec.present):
            rows[: len(row), index] = [number[broker] for broker in row]
        is_new = rows[0] == MISSING

        def served(brokers: Iterable[int]) -> IntArray:
            return np.bincount([number[broker] for broker in brokers], minlength=len(ids))

        def distribution(turns: IntArray, purpose: str) -> _Distribution:
            return _Distribution(turns, partial(topic_rng, self.seed, spec, purpose))

        distribution(served(row[0] for row in existing), "leaders").extend(tree, rows[:1])
        replicas = served(chain.from_iterable(existing))
        replicas += np.bincount(rows[0, is_new], minlength=len(ids))
        added = rows == MISSING
        distribution(replicas, "followers").extend(tree, rows)
        if added[:, ~is_new].any() and len(among.ids) <= _MAX_EXCHANGING_BROKERS:
            replicas += np.bincount(rows[added], minlength=len(ids))
            _exchange(tree, rows, added, replicas)
        return to_replica_lists(rows, ids)


def _require_among(chosen: Collection[int], spec: PlacementSpec, racks: Collection[int]) -> None:
    """Raise PlacementError if a live broker in a rack has a replica and is not ``chosen``."""
    for index, row in enumerate(spec.present):
        if others := [broker for broker in row if broker in racks and broker not in chosen]:
            raise PlacementError(
                f"partition {spec.first_partition + index} has a replica on "
                f"{format_brokers(others)}, which is not among the brokers to place on: add it to "
                "them, so that the replicas are spread over racks"
            )


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A data centre, room or rack with what is below it. Brokers are numbers.

    path
        The levels down to this node, () for the root.
    children
        Nodes, and the brokers in this very rack.
    sizes
        Per child, the number of brokers below it.
    child_of
        The index of the child that each broker below stands under.
    """

    path: RackPath
    children: tuple[TreeNode | int, ...]
    sizes: tuple[int, ...]
    child_of: Mapping[int, int]

    @classmethod
    def build(cls, racks: Mapping[int, RackPath], path: RackPath = ()) -> TreeNode:
        """Return the tree of the brokers in ``racks`` from ``path`` down.

        Brokers come first, in order, then nodes, by name.
        """
        below: dict[str, dict[int, RackPath]] = {}
        children: list[TreeNode | int] = []
        for broker in sorted(racks):
            if len(racks[broker]) == len(path):
                children.append(broker)
            else:
                below.setdefault(racks[broker][len(path)], {})[broker] = racks[broker]
        children.extend(cls.build(below[name], (*path, name)) for name in sorted(below))
        return cls(
            path,
            tuple(children),
            tuple(1 if isinstance(child, int) else len(child.child_of) for child in children),
            {
                broker: index
                for index, child in enumerate(children)
                for broker in ((child,) if isinstance(child, int) else child.child_of)
            },
        )


@dataclass(frozen=True, slots=True)
class _Distribution:
    """One round of replicas for all partitions.

    served
        The number of replicas that each broker had before.
    rng_of
        Returns the random generator for the ring of the node with a path.
    """

    served: IntArray
    rng_of: Callable[[RackPath], random.Random]

    def extend(self, tree: TreeNode, rows: IntArray) -> None:
        """Replace MISSING in ``rows``, which has the i-th replica of every partition as row i."""
        present = (rows != MISSING).sum(axis=0)
        short = (present < len(rows)).nonzero()[0]
        if not len(short):
            return
        counts = len(rows) - present[short]
        held = rows[:, short].T
        at, _ = (held != MISSING).nonzero()
        replicas = self.distribute(tree, counts, at, held[held != MISSING])
        row = np.repeat(present[short] - counts.cumsum() + counts, counts)
        rows[row + np.arange(len(row)), np.repeat(short, counts)] = replicas

    def distribute(
        self, node: TreeNode, counts: IntArray, held_at: IntArray, held: IntArray
    ) -> IntArray:
        """Return the brokers below ``node`` for a sequence of partitions, one after the other.

        ``counts`` is the number of replicas that each partition needs, ``held`` the brokers that
        have some already, each of the partition at ``held_at``. There must be room for all.
        """
        children = len(node.children)
        child_of = np.full(len(self.served), MISSING)
        child_of[list(node.child_of)] = list(node.child_of.values())
        inside = child_of >= 0
        before = np.bincount(child_of[inside], self.served[inside], children).astype(np.int64)
        known = child_of[held] >= 0
        held_at, held = held_at[known], held[known]
        held_child = child_of[held]

        ring = Ring(node.sizes, before.tolist(), self.rng_of(node.path))
        if len(held) or counts.max() > 1:
            picks = _pick_several(ring, counts, held_at, held_child)
        else:
            picks = ring.turns(len(counts))

        brokers = np.empty(len(picks), np.int64)
        partition = np.repeat(np.arange(len(counts)), counts)
        for child, below in enumerate(node.children):
            picked = (picks == child).nonzero()[0]
            if isinstance(below, int):
                brokers[picked] = below
            elif len(picked):
                visits = Segments.of(partition[picked])
                place = np.full(len(counts), MISSING)
                place[visits.keys] = np.arange(len(visits.keys))
                there = (held_child == child) & (place[held_at] >= 0)
                brokers[picked] = self.distribute(
                    below, visits.lengths(len(picked)), place[held_at[there]], held[there]
                )
        return brokers


def _pick_several(
    ring: Ring, counts: IntArray, held_at: IntArray, held_child: IntArray
) -> IntArray:
    """Return the child of every replica, in order of the partitions, the last ones leveled.

    ``held_child`` is a child below which the partition at ``held_at`` has a replica.
    """
    requests, request_of = _requests(len(ring.sizes), counts, held_at, held_child)
    picks = ring.pick(requests, request_of)
    split = max(0, len(counts) - LAST_PARTITIONS * len(ring.sizes))
    ends = counts.cumsum()
    starts = ends - counts
    last = [picks[a:b].tolist() for a, b in zip(starts[split:], ends[split:], strict=True)]
    level_last(ring, last, [requests[r][1] for r in request_of[split:].tolist()])
    picks[starts[split] :] = list(chain.from_iterable(last))
    return picks


def _requests(
    children: int, counts: IntArray, held_at: IntArray, held_child: IntArray
) -> tuple[list[Request], IntArray]:
    """Return the distinct requests, and the index of each partition's among them."""
    key = counts * (children + 1) + children
    key[held_at] += held_child - children
    distinct, request_of = np.unique(key, return_inverse=True)
    requests: list[Request] = [
        (count, (held,) if held < children else ())
        for count, held in zip(
            *(x.tolist() for x in np.divmod(distinct, children + 1)), strict=True
        )
    ]
    # Of partitions with several replicas, that was the last one only.
    number: dict[Request, int] = {}
    several = Segments.of(held_at)
    for at, start, length in zip(
        several.keys.tolist(), several.starts, several.lengths(len(held_at)), strict=True
    ):
        if length > 1:
            request = (int(counts[at]), tuple(held_child[start : start + length].tolist()))
            request_of[at] = number.setdefault(request, len(requests) + len(number))
    return [*requests, *number], request_of


# ---- Replicas that were added to partitions, evened out over the brokers.


def _exchange(tree: TreeNode, rows: IntArray, added: NDArray[np.bool_], loads: IntArray) -> None:
    """Move ``added`` replicas of the last partitions until brokers are as even as they can be.

    ``loads`` has the replicas of each broker. A replica moves to where its partition is spread over
    the tree as well as before. It moves to a broker with one replica less, too: that makes nothing
    more even, but another replica can then move.
    """
    first = max(0, rows.shape[1] - LAST_PARTITIONS * len(tree.child_of))
    places = [(row, first + at) for at, row in np.argwhere(added[:, first:].T).tolist()]
    for _ in range(_EXCHANGES):
        if np.ptp(loads[list(tree.child_of)]) < 2:
            return
        for row, partition in places:
            source = int(rows[row, partition])
            others = np.delete(rows[:, partition], row).tolist()
            targets = _targets(tree, others, source)
            target = min(targets, key=loads.__getitem__, default=source)
            if loads[target] < loads[source]:
                rows[row, partition] = target
                loads[source] -= 1
                loads[target] += 1


def _targets(node: TreeNode, held: Collection[int], source: int) -> Iterator[int]:
    """Yield the brokers below ``node`` that the replica on ``source`` may be on instead.

    ``held`` are the partition's other brokers. At each level these are the children with the fewest
    that have room, as for any next replica. Where that is not the child above ``source``, what is
    left below that child has to be spread evenly without it.
    """
    replicas = _counts(node, held)
    with_room = [child for child, size in enumerate(node.sizes) if replicas[child] < size]
    fewest = min(replicas[child] for child in with_room)
    above_source = node.child_of.get(source)
    may_leave = above_source is None or _is_even_without(node.children[above_source], held, source)
    for child in with_room:
        if replicas[child] == fewest and (child == above_source or may_leave):
            below = node.children[child]
            if isinstance(below, int):
                yield below
            else:
                yield from _targets(below, held, source)


def _is_even_without(node: TreeNode | int, held: Collection[int], source: int) -> bool:
    """Whether no child beside those above ``source`` has two replicas more than they have."""
    while not isinstance(node, int):
        counts = _counts(node, held)
        child = node.child_of[source]
        if max(counts) > counts[child] + 1:
            return False
        node = node.children[child]
    return True


def _counts(node: TreeNode, held: Collection[int]) -> list[int]:
    """Return how many of ``held`` are below each child."""
    counts = [0] * len(node.sizes)
    for broker in held:
        if (child := node.child_of.get(broker)) is not None:
            counts[child] += 1
    return counts
