"""Whether an answer of a placer can be used, whoever wrote the placer."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, TypeGuard

from placement_core.placement_spec import PlacementSpec, ReplicaLists


def checked_layout(layout: object, spec: PlacementSpec, usable: Set[int]) -> ReplicaLists:
    """The layout as tuples. Raises ValueError saying what is wrong with it.

    ``usable`` are the brokers that may get new replicas. There must be a list for every
    partition, with as many different brokers as replicas are wanted, the present ones first.
    """
    if not _is_sequence(layout):
        raise ValueError(f"it answered {layout!r}, which is not a sequence of replica lists")
    if len(layout) != spec.partitions:
        raise ValueError(
            f"it placed {len(layout)} partitions, and {spec.partitions} were asked for"
        )
    return tuple(
        _checked_row(
            f"partition {spec.first_partition + index}", row, spec.row(index), spec, usable
        )
        for index, row in enumerate(layout)
    )


def _checked_row(
    where: str, row: object, present: tuple[int, ...], spec: PlacementSpec, usable: Set[int]
) -> tuple[int, ...]:
    if not _is_sequence(row) or any(type(broker) is not int for broker in row):
        raise ValueError(f"it gave {where} {row!r}, which is not a sequence of broker ids")
    found = tuple(row)
    if len(found) != spec.replication_factor:
        raise ValueError(
            f"it gave {where} {len(found)} replicas {list(found)}, "
            f"and {spec.replication_factor} were asked for"
        )
    if len(set(found)) < len(found):
        raise ValueError(f"it gave {where} a broker twice: {list(found)}")
    if found[: len(present)] != present:
        raise ValueError(
            f"it gave {where} {list(found)}, which does not keep its present replicas "
            f"{list(present)} in front"
        )
    strangers = sorted(set(found[len(present) :]) - usable)
    if strangers:
        raise ValueError(
            f"it gave {where} {list(found)}, where {strangers} are not live brokers "
            "among those asked for"
        )
    return found


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
