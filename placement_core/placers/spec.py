"""What a placer gets, what it returns, and the validation of both.

A *placer* decides which brokers hold the replicas of partitions and which replica leads: a pure
function from a :class:`PlacementSpec` and a :class:`~placement_core.cluster.ClusterView` to one
replica list per partition. :class:`ReplicaPlacer` is the interface.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from placement_core.cluster import ClusterView, placeholders
from placement_core.errors import (
    InvalidOptionError,
    MissingRacksError,
    PlacementError,
    format_brokers,
)
from placement_core.flow import IntArray
from placement_core.racks import RackPath, parse_rack

ReplicaLists = tuple[tuple[int, ...], ...]
"""One tuple of broker ids per partition; the first of each is its preferred leader."""


@dataclass(frozen=True, slots=True)
class PlacementSpec:
    """The partitions to place: ``first_partition`` and the ``partitions - 1`` after it.

    replication_factor
        The number of replicas that each partition shall have in the end.
    topic
        The name of the topic, if known. A placer continues the rotation of the topic's other
        partitions, and starts each topic at a different point with one seed.
    present
        The replicas that the partitions have already, index = partition - ``first_partition``. A
        missing or empty entry is a partition that does not exist yet. A placer keeps present
        replicas, in their order, and appends the missing ones.
    ignore_racks
        Place as if no broker had a rack.

    Raises InvalidOptionError if a value is out of range.
    """

    partitions: int
    replication_factor: int
    topic: str | None = None
    first_partition: int = 0
    present: ReplicaLists = ()
    ignore_racks: bool = False

    def __post_init__(self) -> None:
        require_int("partitions", self.partitions, 1)
        require_int("replication_factor", self.replication_factor, 1)
        require_int("first_partition", self.first_partition, 0)
        object.__setattr__(self, "present", tuple(map(tuple, self.present)))
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
                    f"replication factor {self.replication_factor}: a placer removes no replica"
                )

    def present_replicas(self, index: int) -> tuple[int, ...]:
        """Return the present replicas of the ``index``-th partition; () if it is new."""
        return self.present[index] if index < len(self.present) else ()


def require_int(name: str, value: object, minimum: int) -> None:
    """Raise InvalidOptionError unless ``value`` is an integer (no bool) of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise InvalidOptionError(f"{name} is {value!r}: give a whole number, {minimum} or more")


@runtime_checkable
class ReplicaPlacer(Protocol):
    """Decides which brokers hold the replicas of partitions, and which replica leads.

    Any class with this method is a placer; it does not have to inherit from this one.
    """

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists | None:
        """Return the replica lists of the partitions of ``spec``, in order of their numbers.

        ``view`` has the live brokers and the replica lists of the cluster's topics. New replicas
        go to ``broker_ids`` only, or to any live broker if that is None. Return None to defer to
        the simple placer. Raise a RackwardError if the placement is not possible.
        """
        ...


@dataclass(frozen=True, slots=True)
class Candidates:
    """The brokers that may get new replicas, ``ids`` in ascending order, and the racks.

    ``racks`` is empty if racks do not matter (none is known, or they are ignored). Otherwise it
    has the rack of every candidate and of every other live broker that has one.
    """

    ids: tuple[int, ...]
    racks: Mapping[int, RackPath]


def candidates(
    spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None
) -> Candidates:
    """Return the candidates of a request.

    Raises PlacementError if ``broker_ids`` names a broker that is not live or if the brokers are
    too few, and MissingRacksError if only some of the candidates have a rack.
    """
    chosen = eligible_brokers(view, broker_ids)
    _require_enough(spec, chosen)
    racks = {
        broker.id: rack
        for broker in view.brokers
        if not spec.ignore_racks and (rack := parse_rack(broker.rack)) is not None
    }
    without = chosen - racks.keys()
    if len(without) == len(chosen):
        racks = {}
    elif without:
        raise MissingRacksError(without)
    return Candidates(tuple(sorted(chosen)), racks)


def eligible_brokers(view: ClusterView, broker_ids: Collection[int] | None) -> frozenset[int]:
    """Return ``broker_ids``, or all live brokers if that is None.

    Raises PlacementError if ``broker_ids`` names a broker that is not live.
    """
    live = frozenset(broker.id for broker in view.brokers)
    chosen = live if broker_ids is None else frozenset(broker_ids)
    if unknown := chosen - live:
        raise PlacementError(
            f"{format_brokers(unknown)} requested, but the live brokers are "
            f"{', '.join(map(str, sorted(live))) or 'none'}: name live ones"
        )
    return chosen


def _require_enough(spec: PlacementSpec, chosen: frozenset[int]) -> None:
    """Raise PlacementError unless every partition can have all its replicas on distinct brokers."""
    replicas = spec.replication_factor
    if len(chosen) < replicas and len(spec.present) < spec.partitions:
        raise PlacementError(
            f"replication factor {replicas} on {len(chosen)} brokers: request "
            f"{len(chosen)} replicas at most, or more brokers"
        )
    for partition, row in enumerate(spec.present, spec.first_partition):
        if len(chosen.union(row)) < replicas:
            raise PlacementError(
                f"replication factor {replicas} for partition {partition}, which has replicas on "
                f"{list(row)}: the {format_brokers(chosen)} to choose from are too few"
            )


def to_replica_lists(rows: IntArray, brokers: Sequence[int]) -> ReplicaLists:
    """Return replica lists from ``rows[i]``, the i-th replica of every partition.

    They are indexes of ``brokers``.
    """
    ids = np.array(brokers, object)
    lists = list(zip(*(ids[row].tolist() for row in rows), strict=True))
    # A tuple made of the iterator grows step by step, and each time the garbage collector scans it.
    return tuple(lists)


def validate_layout(
    layout: object, spec: PlacementSpec, usable: Set[int], missing: int = 0
) -> ReplicaLists:
    """Return the layout that a placer returned, as tuples; raise ValueError if it is not valid.

    ``usable`` are the brokers that may get new replicas. There must be a list for every partition,
    with ``replication_factor`` distinct brokers, the present ones first. If brokers are
    ``missing``, lists must end in one placeholder for each.
    """
    if not _is_sequence(layout):
        raise ValueError(f"it returned {layout!r}, which is not a sequence of replica lists")
    if len(layout) != spec.partitions:
        raise ValueError(
            f"it placed {len(layout)} partitions, but {spec.partitions} were requested"
        )
    if not missing and not spec.present and _is_valid(layout, spec, usable):
        return tuple(layout)
    rows = []
    for index, row in enumerate(layout):
        present = spec.present_replicas(index)
        if problem := _problem(row, present, spec, usable, missing):
            raise ValueError(f"it gave partition {spec.first_partition + index} {problem}")
        rows.append(tuple(row))
    return tuple(rows)


def _is_valid(layout: Sequence[Any], spec: PlacementSpec, usable: Set[int]) -> bool:
    """Return whether the layout of new partitions is one of tuples, and valid.

    This takes a tenth of the time of looking for a problem list by list.
    """
    length = spec.replication_factor
    if set(map(type, layout)) != {tuple} or set(map(len, layout)) != {length}:
        return False
    if set(map(type, chain.from_iterable(layout))) != {int}:
        return False
    try:
        brokers = np.fromiter(chain.from_iterable(layout), np.int64).reshape(-1, length)
    except OverflowError:
        return False
    if not np.isin(brokers, list(usable)).all():
        return False
    brokers.sort(axis=1)
    return not (brokers[:, 1:] == brokers[:, :-1]).any()


def _problem(
    row: object, present: tuple[int, ...], spec: PlacementSpec, usable: Set[int], missing: int
) -> str | None:
    """Return what is wrong with one partition's replicas, of which ``missing`` are not possible."""
    if not _is_sequence(row) or set(map(type, row)) != {int}:
        return f"{row!r}, which is not a sequence of broker ids"
    if len(row) != spec.replication_factor:
        return f"{len(row)} replicas {list(row)}, but {spec.replication_factor} were requested"
    if missing:
        if tuple(row[-missing:]) != placeholders(missing):
            return f"{list(row)}, which does not end in {list(placeholders(missing))}"
        row = row[:-missing]
    brokers = set(row)
    if len(brokers) < len(row):
        return f"a broker twice: {list(row)}"
    if present and tuple(row[: len(present)]) != present:
        return f"{list(row)}, which does not keep its present replicas {list(present)} in front"
    if not brokers <= usable and (unusable := brokers.difference(usable, present)):
        return f"{list(row)}, where {sorted(unusable)} are not live brokers among those requested"
    return None


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
