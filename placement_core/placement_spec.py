"""What a placer is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from placement_core.errors import InvalidOptionError

ReplicaLists = tuple[tuple[int, ...], ...]
"""One tuple of broker ids per partition; the first of each is its preferred leader."""


@dataclass(frozen=True, slots=True)
class PlacementSpec:
    """The partitions to place: ``first_partition`` and the ``partitions - 1`` after it.

    ``replication_factor`` is the number of replicas that each shall have in the end.
    ``topic``, where known, lets a placer continue what the topic's other partitions began,
    and gives each topic a start of its own under one seed.
    ``present`` holds the replicas that the partitions have already, index = partition -
    ``first_partition``; an absent or empty entry is a partition that does not exist yet. A
    placer keeps them, and their order, and adds what is missing.
    ``ignore_racks`` places as if no broker had a rack.

    Raises InvalidOptionError where the values cannot be meant.
    """

    partitions: int
    replication_factor: int
    topic: str | None = None
    first_partition: int = 0
    present: ReplicaLists = ()
    ignore_racks: bool = False

    def __post_init__(self) -> None:
        _at_least("partitions", self.partitions, 1)
        _at_least("replication_factor", self.replication_factor, 1)
        _at_least("first_partition", self.first_partition, 0)
        object.__setattr__(self, "present", _replica_lists(self.present))
        if len(self.present) > self.partitions:
            raise InvalidOptionError(
                f"present has {len(self.present)} replica lists for {self.partitions} partitions: "
                "give one for each partition from first_partition on, or fewer"
            )
        for partition, row in enumerate(self.present, self.first_partition):
            if len(set(row)) < len(row):
                raise InvalidOptionError(
                    f"the present replicas of partition {partition} name a broker twice: {row}"
                )
            if len(row) > self.replication_factor:
                raise InvalidOptionError(
                    f"partition {partition} has {len(row)} replicas {row}, more than the "
                    f"replication factor {self.replication_factor}: a placer takes no replica away"
                )

    def row(self, index: int) -> tuple[int, ...]:
        """The present replicas of the ``index``-th partition to place; () where it is new."""
        return self.present[index] if index < len(self.present) else ()


def _at_least(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidOptionError(f"{name} is {value!r}: give a whole number, {least} or more")


def _replica_lists(rows: Iterable[Iterable[int]]) -> ReplicaLists:
    return tuple(tuple(row) for row in rows)
