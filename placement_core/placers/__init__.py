"""Replica placers: which brokers hold the replicas of new partitions, and which one leads.

:class:`SimplePlacer` and :class:`RackAlternatingPlacer` follow Kafka's rules,
:class:`MultiLevelPlacer` is for racks with levels, :class:`LikeTopicPlacer` copies another topic,
and :class:`UnderReplicatedPlacer` wraps any of them for clusters with brokers down. :func:`place`
calls a placer and validates the result; :func:`load_placer` finds one by name.
"""

from placement_core.errors import MissingRacksError, PlacementError, PlacerError
from placement_core.placers.like_topic import LikeTopicPlacer
from placement_core.placers.multi_level import MultiLevelPlacer
from placement_core.placers.registry import (
    ENTRY_POINT_GROUP,
    PLACERS,
    load_placer,
    place,
    placer_name,
)
from placement_core.placers.round_robin import RackAlternatingPlacer, SimplePlacer, new_seed
from placement_core.placers.spec import PlacementSpec, ReplicaLists, ReplicaPlacer
from placement_core.placers.under_replicated import UnderReplicatedPlacer
from placement_core.plugins import parse_properties

__all__ = [
    "ENTRY_POINT_GROUP",
    "PLACERS",
    "LikeTopicPlacer",
    "MissingRacksError",
    "MultiLevelPlacer",
    "PlacementError",
    "PlacementSpec",
    "PlacerError",
    "RackAlternatingPlacer",
    "ReplicaLists",
    "ReplicaPlacer",
    "SimplePlacer",
    "UnderReplicatedPlacer",
    "load_placer",
    "new_seed",
    "parse_properties",
    "place",
    "placer_name",
]
