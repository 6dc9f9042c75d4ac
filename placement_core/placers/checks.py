"""Whether an answer of a placer can be used, whoever wrote the placer."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, TypeGuard

from placement_core.placeholders import placeholders
from placement_core.placement_spec import PlacementSpec, ReplicaLists


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
