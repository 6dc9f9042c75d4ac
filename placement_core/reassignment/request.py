"""What is asked of a reassignment, checked and in arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError
from placement_core.matching import IntArray
from placement_core.racks import RackPath, parse_rack

NO_RACK: RackPath = ("",)


@dataclass(frozen=True, slots=True)
class Request:
    """Brokers are numbers in the order of ``brokers`` (their ids, ascending).

    held
        ``[partition, slot]``: present replicas on brokers that may keep them, in their order;
        -1 elsewhere.
    leader
        Per partition, its first replica; -1 where that broker may not stay.
    replicas
        Per partition, the replication factor wanted.
    base, base_leaders
        Per broker, replicas and preferred leaders of the partitions not in question.
    """

    brokers: tuple[int, ...]
    racks: tuple[RackPath, ...]
    partitions: tuple[TopicPartition, ...]
    held: IntArray
    leader: IntArray
    replicas: IntArray
    base: IntArray
    base_leaders: IntArray


def read_request(
    view: ClusterView,
    replication_factor: int | Mapping[str, int] | None,
    drain: Collection[int],
    topics: Collection[str] | None,
    ignore_racks: bool,
) -> Request:
    """Check what was asked. Raises InvalidOptionError; arguments as for ``plan_reassignment``."""
    racks = view.racks()
    if unknown := sorted(set(drain) - set(racks)):
        raise InvalidOptionError(
            f"cannot drain {_names(unknown)}: the cluster has {_names(sorted(racks))}"
        )
    staying = {broker: rack for broker, rack in sorted(racks.items()) if broker not in drain}
    if not staying:
        raise InvalidOptionError("no broker would stay: drain fewer brokers")
    paths = _paths(staying, ignore_racks)
    known = {partition.topic for partition in view.replicas}
    chosen = known if topics is None else set(topics)
    if missing := sorted(chosen - known):
        raise InvalidOptionError(f"the cluster has no topic {', '.join(missing)}: check the names")
    partitions = tuple(sorted(p for p in view.replicas if p.topic in chosen))
    number = {broker: n for n, broker in enumerate(staying)}
    lists = [view.replicas[partition] for partition in partitions]
    factors = _factors(partitions, lists, replication_factor, known, len(staying))
    held = np.full((len(lists), max(map(len, lists), default=1)), -1)
    for row, replicas in enumerate(lists):
        for slot, broker in enumerate(replicas):
            held[row, slot] = number.get(broker, -1)
    base, base_leaders = np.zeros(len(staying), np.int64), np.zeros(len(staying), np.int64)
    if len(partitions) < len(view.replicas):
        for partition, replicas in view.replicas.items():
            if partition.topic in chosen:
                continue
            for slot, broker in enumerate(replicas):
                if broker in number:
                    base[number[broker]] += 1
                    base_leaders[number[broker]] += slot == 0
    return Request(
        brokers=tuple(staying),
        racks=paths,
        partitions=partitions,
        held=held,
        leader=held[:, 0],
        replicas=factors,
        base=base,
        base_leaders=base_leaders,
    )


def _paths(racks: Mapping[int, str | None], ignore_racks: bool) -> tuple[RackPath, ...]:
    paths = [None if ignore_racks else parse_rack(rack) for rack in racks.values()]
    without = [broker for broker, path in zip(racks, paths, strict=True) if path is None]
    if without and len(without) < len(paths):
        raise InvalidOptionError(
            f"{_names(without)} without a rack, others with: give every broker a rack, or "
            "ignore racks"
        )
    return tuple(path or NO_RACK for path in paths)


def _factors(
    partitions: Sequence[TopicPartition],
    lists: Sequence[tuple[int, ...]],
    wanted: int | Mapping[str, int] | None,
    known: Collection[str],
    brokers: int,
) -> IntArray:
    if isinstance(wanted, Mapping) and (missing := sorted(set(wanted) - set(known))):
        raise InvalidOptionError(
            f"a replication factor for {', '.join(missing)}, which the cluster does not have: "
            "check the names"
        )
    factors = np.zeros(len(partitions), np.int64)
    for row, (partition, replicas) in enumerate(zip(partitions, lists, strict=True)):
        factor: object = wanted
        if isinstance(wanted, Mapping):
            factor = wanted.get(partition.topic)
        factor = len(replicas) if factor is None else factor
        where = f"{partition.topic}-{partition.partition}"
        if len(set(replicas)) < len(replicas):
            raise InvalidOptionError(f"{where} names a broker twice: {list(replicas)}")
        if not isinstance(factor, int) or isinstance(factor, bool) or factor < 1:
            raise InvalidOptionError(
                f"the replication factor of {where} is {factor!r}: give a whole number from 1"
            )
        if factor > brokers:
            raise InvalidOptionError(
                f"{where} cannot have {factor} replicas on {brokers} "
                f"broker{'s' if brokers > 1 else ''}: lower the factor, or drain fewer brokers"
            )
        factors[row] = factor
    return factors


def _names(brokers: Sequence[int]) -> str:
    """``broker 1`` or ``brokers 1, 2, 3``; of many, the first ten."""
    some = ", ".join(map(str, brokers[:10])) + (", ..." if len(brokers) > 10 else "")
    return f"broker{'' if len(brokers) == 1 else 's'} {some}"
