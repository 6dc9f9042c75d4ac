"""The front door: ask a placer, and use its answer only if it can be used."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from placement_core.cluster import ClusterView
from placement_core.errors import PlacerError, RackwardError
from placement_core.locators import RackLocator, locate
from placement_core.placers.like_topic import LikeTopicPlacer
from placement_core.placers.multi_level import MultiLevelPlacer
from placement_core.placers.round_robin import RackAlternatingPlacer, SimplePlacer
from placement_core.placers.spec import (
    PlacementSpec,
    ReplicaLists,
    ReplicaPlacer,
    among_live,
    candidates,
    checked_layout,
)
from placement_core.placers.under_replicated import UnderReplicatedPlacer
from placement_core.plugins import load_plugin

PLACERS: Mapping[str, type[ReplicaPlacer]] = {
    "simple": SimplePlacer,
    "rack-alternating": RackAlternatingPlacer,
    "multi-level": MultiLevelPlacer,
    "like-topic": LikeTopicPlacer,
}
"""The placers that come with rackward, by the names that tools know them under."""

ENTRY_POINTS = "rackward.placers"
"""The entry point group in which packages register placers of their own."""


def load_placer(name: str, properties: Mapping[str, str] | None = None) -> ReplicaPlacer:
    """The placer of that name: one of PLACERS, an entry point, or ``module:Class``.

    Raises InvalidOptionError; :func:`placement_core.plugins.load_plugin` says how it is made.
    """
    found: ReplicaPlacer = load_plugin(
        "placer", name, properties or {}, PLACERS, ENTRY_POINTS, "place"
    )
    return found


def place(
    spec: PlacementSpec,
    view: ClusterView,
    placer: ReplicaPlacer | None = None,
    broker_ids: Collection[int] | None = None,
    *,
    locator: RackLocator | None = None,
    fallback: SimplePlacer | None = None,
) -> ReplicaLists:
    """The replica lists that ``placer`` (default: rack-alternating) gives, checked.

    ``locator``, where given, is asked for the brokers' racks now; else ``view`` has them.
    With ``spec.ignore_racks`` nobody is asked, and placers see brokers without racks.
    Where the placer answers None, ``fallback`` places (default: simple, with a new seed).
    With an UnderReplicatedPlacer the lists end in a placeholder for each missing broker.

    Raises PlacementError where no placer could do it, PlacerError, which names the placer,
    where it raises or where its answer breaks the rules of ReplicaPlacer, and whatever
    :func:`placement_core.locators.locate` raises.
    """
    if spec.ignore_racks:
        view = view.without_racks()
    elif locator is not None:
        view = locate(locator, view)
    chosen = placer or RackAlternatingPlacer()
    usable = among_live(view, broker_ids)
    if not isinstance(chosen, UnderReplicatedPlacer):
        candidates(replace(spec, ignore_racks=True), view, broker_ids)
    layout = _asked(chosen, spec, view, broker_ids, usable)
    if layout is None:
        last: ReplicaPlacer = fallback or SimplePlacer()
        if isinstance(chosen, UnderReplicatedPlacer):
            last = chosen.over(last)
        layout = _asked(last, spec, view, broker_ids, usable)
    assert layout is not None
    return layout


def placer_name(placer: ReplicaPlacer) -> str:
    """What errors call a placer: its name on tools, or ``module:Class``."""
    kind = type(placer.placer if isinstance(placer, UnderReplicatedPlacer) else placer)
    for name, known in PLACERS.items():
        if kind is known:
            return name
    return f"{kind.__module__}:{kind.__qualname__}"


def _asked(
    placer: ReplicaPlacer,
    spec: PlacementSpec,
    view: ClusterView,
    broker_ids: Collection[int] | None,
    usable: frozenset[int],
) -> ReplicaLists | None:
    try:
        layout = placer.place(spec, view, broker_ids)
    except Exception as error:
        # Placers may be anybody's: whatever they raise ends as one line that names them.
        told = str(error) if isinstance(error, RackwardError) else _kind_and_text(error)
        raise PlacerError(placer_name(placer), told) from error
    if layout is None:
        return None
    try:
        return checked_layout(
            layout, spec, usable, under_replicated=isinstance(placer, UnderReplicatedPlacer)
        )
    except ValueError as error:
        raise PlacerError(placer_name(placer), f"{error}; choose another placer") from error


def _kind_and_text(error: Exception) -> str:
    text = str(error).splitlines()
    return f"it failed with {type(error).__name__}{': ' + text[0] if text else ''}"
