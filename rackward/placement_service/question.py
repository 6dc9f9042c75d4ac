"""What the service is asked, as values of placement, and what a placer says to it."""

from __future__ import annotations

from dataclasses import dataclass

from placement_core import ClusterView, PlacementSpec, ReplicaLists
from placement_core.locators import RackLocator
from placement_core.placers import (
    ReplicaPlacer,
    SimplePlacer,
    UnderReplicatedPlacer,
    place,
)


@dataclass(frozen=True, slots=True)
class PlacementQuestion:
    """How a topic that nobody has named yet should lie.

    ``force_simple_placement``: by the simple placer, as if there were no racks, whatever is
    configured. ``broker_ids`` None: any live broker.
    """

    partitions: int
    replication_factor: int
    force_simple_placement: bool = False
    broker_ids: frozenset[int] | None = None


def answer_question(
    question: PlacementQuestion,
    view: ClusterView,
    placer: ReplicaPlacer,
    *,
    locator: RackLocator | None = None,
    fallback: SimplePlacer | None = None,
    ignore_racks: bool = False,
    min_insync_replicas: int | None = None,
) -> ReplicaLists:
    """What ``placer`` gives for the question, asked as :func:`placement_core.placers.place` does.

    ``fallback`` places where the placer answers None, and where simple placement is forced.
    ``ignore_racks`` places as if there were none, with the configured placer.
    ``min_insync_replicas``, where given, allows placeholders for brokers that are missing: see
    :class:`placement_core.placers.UnderReplicatedPlacer`. Pure but for the
    placer and the locator. Raises what ``place`` raises.
    """
    simple = fallback or SimplePlacer()
    forced = question.force_simple_placement
    spec = PlacementSpec(
        question.partitions,
        question.replication_factor,
        ignore_racks=ignore_racks or forced,
    )
    chosen = simple if forced else placer
    if min_insync_replicas is not None:
        chosen = UnderReplicatedPlacer(chosen, min_insync_replicas)
    return place(spec, view, chosen, question.broker_ids, locator=locator, fallback=simple)
