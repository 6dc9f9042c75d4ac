"""Replica placers: which brokers hold the replicas of new partitions, and which one leads."""

from placement_core.errors import MissingRacksError, PlacementError, PlacerError
from placement_core.placers.like_topic import LikeTopicPlacer
from placement_core.placers.multi_level import MultiLevelPlacer
from placement_core.placers.registry import ENTRY_POINTS, PLACERS, load_placer, place, placer_name
from placement_core.placers.round_robin import RackAlternatingPlacer, SimplePlacer
from placement_core.placers.spec import PlacementSpec, ReplicaLists, ReplicaPlacer
from placement_core.placers.under_replicated import UnderReplicatedPlacer
from placement_core.plugins import parse_properties

__all__ = [
    "ENTRY_POINTS",
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
    "parse_properties",
    "place",
    "placer_name",
]
