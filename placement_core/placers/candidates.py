"""The brokers that may get replicas, and whether they are enough."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from placement_core.cluster import ClusterView
from placement_core.placement_spec import PlacementSpec
from placement_core.placers.errors import MissingRacksError, PlacementError, listed
from placement_core.racks import RackPath, parse_rack


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
