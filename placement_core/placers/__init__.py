"""Replica placers: which brokers hold the replicas of new partitions, and which one leads."""

from placement_core.placement_spec import PlacementSpec, ReplicaLists
from placement_core.placers.errors import MissingRacksError, PlacementError, PlacerError
from placement_core.placers.like_topic import LikeTopicPlacer
from placement_core.placers.multi_level import MultiLevelPlacer
from placement_core.placers.placing import ENTRY_POINTS, PLACERS, load_placer, place, placer_name
from placement_core.placers.protocol import ReplicaPlacer
from placement_core.placers.rack_alternating import RackAlternatingPlacer
from placement_core.placers.simple import SimplePlacer
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
