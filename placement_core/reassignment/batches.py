"""Moves in batches of limited size, in the order in which a cluster should execute them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from placement_core.cluster import Move, TopicPartition
from placement_core.errors import InvalidOptionError


@dataclass(frozen=True, slots=True)
class Batch:
    """Moves to execute together; ``bytes`` is what they copy over the network (None: unknown)."""

    moves: tuple[Move, ...]
    bytes: int | None

    @property
    def copies(self) -> int:
        """The number of replicas that are copied."""
        return sum(len(move.adding) for move in self.moves)


def split_into_batches(
    moves: Iterable[Move],
    *,
    max_partitions: int | None = None,
    max_bytes: int | None = None,
    sizes: Mapping[TopicPartition, int] | None = None,
) -> tuple[Batch, ...]:
    """Return ``moves`` in batches of limited numbers of partitions and bytes (None: no limit).

    The order: moves that copy nothing, since they are done at once and free space; then partitions
    that get more replicas; then the others. Within each of these, the brokers that copy alternate,
    so that no batch loads one broker while others are idle. Batches are filled in that order; a
    partition larger than ``max_bytes`` is a batch of its own.

    ``sizes`` are the bytes of each partition on its leader. Raises InvalidOptionError for limits
    below 1 and, with ``max_bytes``, for partitions to copy whose size is unknown.
    """
    for name, limit in (("max_partitions", max_partitions), ("max_bytes", max_bytes)):
        if limit is not None and limit < 1:
            raise InvalidOptionError(f"{name} is {limit}: give at least 1")
    ordered = _ordered(moves)
    copied = [_copied_bytes(move, sizes) for move in ordered]
    if max_bytes is not None:
        unknown = [m.partition for m, n in zip(ordered, copied, strict=True) if n is None]
        if unknown:
            raise InvalidOptionError(
                f"the size of {unknown[0].topic}-{unknown[0].partition} is not known (and of "
                f"{len(unknown) - 1} more): give sizes, or no limit in bytes"
            )
    batches: list[Batch] = []
    batch: list[Move] = []
    total: int | None = 0
    for move, size in zip(ordered, copied, strict=True):
        extended = None if total is None or size is None else total + size
        full = max_partitions is not None and len(batch) >= max_partitions
        too_large = max_bytes is not None and extended is not None and extended > max_bytes
        if batch and (full or too_large):
            batches.append(Batch(tuple(batch), total))
            batch, extended = [], size
        batch.append(move)
        total = extended
    if batch:
        batches.append(Batch(tuple(batch), total))
    return tuple(batches)


def _copied_bytes(move: Move, sizes: Mapping[TopicPartition, int] | None) -> int | None:
    """Return what a move copies; None if that is unknown."""
    if not move.adding:
        return 0
    size = None if sizes is None else sizes.get(move.partition)
    return None if size is None else size * len(move.adding)


def _ordered(moves: Iterable[Move]) -> list[Move]:
    copies: Counter[tuple[int, int]] = Counter()
    keyed = []
    for move in sorted(moves, key=lambda move: move.partition):
        adding = move.adding
        rank = 0 if not adding else 1 if len(move.before) < len(move.after) else 2
        broker = adding[0] if adding else -1
        copies[rank, broker] += 1
        keyed.append((rank, copies[rank, broker] if adding else 0, broker, move))
    return [move for *_, move in sorted(keyed, key=lambda key: (*key[:3], key[3].partition))]
