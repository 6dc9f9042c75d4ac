"""What a placer is asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

from placement_core.cluster import ClusterView, placeholders
from placement_core.errors import InvalidOptionError, MissingRacksError, PlacementError, listed
from placement_core.racks import RackPath, parse_rack

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


# ---- What every placer is: one method, from values to values.


@runtime_checkable
class ReplicaPlacer(Protocol):
    """Decides which brokers hold the replicas of partitions, and which replica leads."""

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists | None:
        """The replica lists of the partitions of ``spec``, in order of their numbers.

        ``view`` holds the live brokers and the replica lists of the cluster's topics. New
        replicas go to ``broker_ids`` only, or to any live broker where that is None. None as
        an answer defers to the simple placer. Raises a RackwardError where it cannot be done.
        """
        ...


# ---- The brokers that may get replicas, and whether they are enough.


@dataclass(frozen=True, slots=True)
class Candidates:
    """``ids``: the brokers that may get new replicas, in ascending order.

    ``racks`` is empty where racks do not matter (none is known, or they are ignored), and
    otherwise has the rack of every candidate, and of all other live brokers that say theirs.
    """

    ids: tuple[int, ...]
    racks: Mapping[int, RackPath]


def candidates(
    spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None
) -> Candidates:
    """The candidates of a request.

    Raises PlacementError where ``broker_ids`` names a broker that is not live or where the
    brokers are too few, and MissingRacksError where some of the candidates lack a rack.
    """
    chosen = among_live(view, broker_ids)
    _check_enough(spec, chosen)
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


def among_live(view: ClusterView, broker_ids: Collection[int] | None) -> frozenset[int]:
    """The live brokers that were asked for, however many.

    Raises PlacementError where ``broker_ids`` names a broker that is not live.
    """
    live = frozenset(broker.id for broker in view.brokers)
    chosen = live if broker_ids is None else frozenset(broker_ids)
    if unknown := chosen - live:
        raise PlacementError(
            f"{listed(unknown)} asked for, but the live brokers are "
            f"{', '.join(map(str, sorted(live))) or 'none'}: name live ones"
        )
    return chosen


def _check_enough(spec: PlacementSpec, chosen: frozenset[int]) -> None:
    """Every partition finds as many brokers as it lacks replicas, none of them twice."""
    wanted = spec.replication_factor
    if len(chosen) < wanted and len(spec.present) < spec.partitions:
        raise PlacementError(
            f"replication factor {wanted} on {len(chosen)} brokers: ask for "
            f"{len(chosen)} replicas at most, or for more brokers"
        )
    for partition, row in enumerate(spec.present, spec.first_partition):
        if len(chosen.union(row)) < wanted:
            raise PlacementError(
                f"replication factor {wanted} for partition {partition}, which has replicas on "
                f"{list(row)}: the {listed(chosen)} to choose from are too few"
            )


# ---- Whether an answer of a placer can be used, whoever wrote the placer.


def checked_layout(
    layout: object, spec: PlacementSpec, usable: Set[int], *, under_replicated: bool = False
) -> ReplicaLists:
    """The layout as tuples. Raises ValueError saying what is wrong with it.

    ``usable`` are the brokers that may get new replicas. There must be a list for every
    partition, with as many different brokers as replicas are wanted, the present ones first.
    ``under_replicated``: with a placeholder at its end for each broker that is missing, and for
    no other.
    """
    if not _is_sequence(layout):
        raise ValueError(f"it answered {layout!r}, which is not a sequence of replica lists")
    if len(layout) != spec.partitions:
        raise ValueError(
            f"it placed {len(layout)} partitions, and {spec.partitions} were asked for"
        )
    checked = []
    for index, row in enumerate(layout):
        missing = 0
        if under_replicated:
            present = spec.row(index)
            missing = max(0, spec.replication_factor - len(usable | set(present)))
        if problem := _problem(row, spec.row(index), spec, usable, missing):
            raise ValueError(f"it gave partition {spec.first_partition + index} {problem}")
        checked.append(tuple(row))
    return tuple(checked)


def _problem(
    row: object, present: tuple[int, ...], spec: PlacementSpec, usable: Set[int], missing: int
) -> str | None:
    """What is wrong with the replicas of one partition, of which so many are ``missing``."""
    if not _is_sequence(row) or set(map(type, row)) != {int}:
        return f"{row!r}, which is not a sequence of broker ids"
    if len(row) != spec.replication_factor:
        return f"{len(row)} replicas {list(row)}, and {spec.replication_factor} were asked for"
    if missing:
        if tuple(row[-missing:]) != placeholders(missing):
            return f"{list(row)}, which does not end in {list(placeholders(missing))}"
        row = row[:-missing]
    brokers = set(row)
    if len(brokers) < len(row):
        return f"a broker twice: {list(row)}"
    if present and tuple(row[: len(present)]) != present:
        kept = list(present)
        return f"{list(row)}, which does not keep its present replicas {kept} in front"
    if not brokers <= usable and (strangers := brokers.difference(usable, present)):
        return f"{list(row)}, where {sorted(strangers)} are not live brokers among those asked for"
    return None


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
