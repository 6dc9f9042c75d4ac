"""Placers by name, and :func:`place`: call a placer and validate what it returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from placement_core.cluster import ClusterView
from placement_core.errors import PlacerError, RackwardError
from placement_core.locators import RackLocator, apply_locator
from placement_core.placers.like_topic import LikeTopicPlacer
from placement_core.placers.multi_level import MultiLevelPlacer
from placement_core.placers.round_robin import RackAlternatingPlacer, SimplePlacer
from placement_core.placers.spec import (
    PlacementSpec,
    ReplicaLists,
    ReplicaPlacer,
    candidates,
    eligible_brokers,
    validate_layout,
)
from placement_core.placers.under_replicated import UnderReplicatedPlacer
from placement_core.plugins import load_plugin, plugin_name

PLACERS: Mapping[str, type[ReplicaPlacer]] = {
    "simple": SimplePlacer,
    "rack-alternating": RackAlternatingPlacer,
    "multi-level": MultiLevelPlacer,
    "like-topic": LikeTopicPlacer,
}
"""The placers that come with rackward, by the names that tools use."""

ENTRY_POINT_GROUP = "rackward.placers"
"""The entry point group in which packages register placers."""


def load_placer(name: str, properties: Mapping[str, str] | None = None) -> ReplicaPlacer:
    """Return the placer with this name: a key of PLACERS, an entry point, or ``module:Class``.

    It is constructed by :func:`placement_core.plugins.load_plugin`. Raises InvalidOptionError.
    """
    placer: ReplicaPlacer = load_plugin(
        "placer", name, properties or {}, PLACERS, ENTRY_POINT_GROUP, "place"
    )
    return placer


def placer_name(placer: ReplicaPlacer) -> str:
    """Return the name of a placer for messages: a key of PLACERS, or ``module:Class``."""
    return plugin_name(
        placer.placer if isinstance(placer, UnderReplicatedPlacer) else placer, PLACERS
    )


def place(
    spec: PlacementSpec,
    view: ClusterView,
    placer: ReplicaPlacer | None = None,
    broker_ids: Collection[int] | None = None,
    *,
    locator: RackLocator | None = None,
    fallback: SimplePlacer | None = None,
) -> ReplicaLists:
    """Call ``placer`` (default: rack-alternating) and return its validated replica lists.

    If ``locator`` is given, it is called for the brokers' racks; otherwise ``view`` has them. With
    ``spec.ignore_racks`` it is not called, and placers see brokers without racks. If the placer
    returns None, ``fallback`` places (default: simple, with a new seed). With an
    UnderReplicatedPlacer, lists end in a placeholder for each missing broker.

    Raises PlacementError if no placer could place the partitions, PlacerError, with the placer's
    name, if it raises an error or violates the rules of ReplicaPlacer, and the errors of
    :func:`placement_core.locators.apply_locator`.
    """
    if spec.ignore_racks:
        view = view.without_racks()
    elif locator is not None:
        view = apply_locator(locator, view)
    chosen = placer or RackAlternatingPlacer()
    usable = eligible_brokers(view, broker_ids)
    if not isinstance(chosen, UnderReplicatedPlacer):
        candidates(replace(spec, ignore_racks=True), view, broker_ids)
    layout = _call(chosen, spec, view, broker_ids, usable)
    if layout is None:
        last: ReplicaPlacer = fallback or SimplePlacer()
        if isinstance(chosen, UnderReplicatedPlacer):
            last = replace(chosen, placer=last)
        layout = _call(last, spec, view, broker_ids, usable)
    assert layout is not None
    return layout


def _call(
    placer: ReplicaPlacer,
    spec: PlacementSpec,
    view: ClusterView,
    broker_ids: Collection[int] | None,
    usable: frozenset[int],
) -> ReplicaLists | None:
    try:
        layout = placer.place(spec, view, broker_ids)
    except Exception as error:
        # A plug-in may raise anything. All of it is reported in one line with its name.
        message = str(error) if isinstance(error, RackwardError) else _kind_and_text(error)
        raise PlacerError(placer_name(placer), message) from error
    if layout is None:
        return None
    missing = 0
    if isinstance(placer, UnderReplicatedPlacer) and not any(spec.present):
        missing = max(0, spec.replication_factor - len(usable))
    try:
        return validate_layout(layout, spec, usable, missing)
    except ValueError as error:
        raise PlacerError(placer_name(placer), f"{error}; choose another placer") from error


def _kind_and_text(error: Exception) -> str:
    text = str(error).splitlines()
    return f"it failed with {type(error).__name__}{': ' + text[0] if text else ''}"
