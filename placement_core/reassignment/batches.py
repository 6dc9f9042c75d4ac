"""Moves in an order, and in portions that a cluster can take at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from placement_core.cluster import Move, TopicPartition
from placement_core.errors import InvalidOptionError


@dataclass(frozen=True, slots=True)
class Batch:
    """Moves to be made together; ``bytes`` are copied over the network (None: not known)."""

    moves: tuple[Move, ...]
    bytes: int | None

    @property
    def copies(self) -> int:
        """Replicas that are copied."""
        return sum(len(move.adding) for move in self.moves)


def batches(
    moves: Iterable[Move],
    *,
    most_partitions: int | None = None,
    most_bytes: int | None = None,
    sizes: Mapping[TopicPartition, int] | None = None,
) -> tuple[Batch, ...]:
    """``moves`` in batches of at most so many partitions and bytes to copy (None: no limit).

    The order: what copies nothing (it is done at once, and makes room); then partitions that
    have fewer replicas than they will have; then the others. Within each, brokers that copy
    take turns, so that no batch falls on one of them while others idle. A batch is filled in
    that order; a partition that is larger than ``most_bytes`` gets one of its own.

    ``sizes``: bytes of each partition on its leader. Raises InvalidOptionError for limits below 1
    and, with ``most_bytes``, for partitions to copy whose size is not known.
    """
    for name, limit in (("most_partitions", most_partitions), ("most_bytes", most_bytes)):
        if limit is not None and limit < 1:
            raise InvalidOptionError(f"{name} is {limit}: give at least 1")
    ordered = _ordered(moves)
    copied = [_bytes(move, sizes) for move in ordered]
    if most_bytes is not None:
        unknown = [m.partition for m, n in zip(ordered, copied, strict=True) if n is None]
        if unknown:
            raise InvalidOptionError(
                f"the size of {unknown[0].topic}-{unknown[0].partition} is not known (and of "
                f"{len(unknown) - 1} more): give sizes, or no limit in bytes"
            )
    found: list[Batch] = []
    batch: list[Move] = []
    total: int | None = 0
    for move, size in zip(ordered, copied, strict=True):
        wider = None if total is None or size is None else total + size
        full = most_partitions is not None and len(batch) >= most_partitions
        heavy = most_bytes is not None and wider is not None and wider > most_bytes
        if batch and (full or heavy):
            found.append(Batch(tuple(batch), total))
            batch, wider = [], size
        batch.append(move)
        total = wider
    if batch:
        found.append(Batch(tuple(batch), total))
    return tuple(found)


def _bytes(move: Move, sizes: Mapping[TopicPartition, int] | None) -> int | None:
    """What a move copies; None where that is not known."""
    if not move.adding:
        return 0
    size = None if sizes is None else sizes.get(move.partition)
    return None if size is None else size * len(move.adding)


def _ordered(moves: Iterable[Move]) -> list[Move]:
    turns: Counter[tuple[int, int]] = Counter()
    keyed = []
    for move in sorted(moves, key=lambda move: move.partition):
        adding = move.adding
        urgency = 0 if not adding else 1 if len(move.before) < len(move.after) else 2
        broker = adding[0] if adding else -1
        turns[urgency, broker] += 1
        keyed.append((urgency, turns[urgency, broker] if adding else 0, broker, move))
    return [move for *_, move in sorted(keyed, key=lambda key: (*key[:3], key[3].partition))]
