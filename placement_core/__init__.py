"""The pure core of rackward: racks, cluster values and the algorithms over them. No I/O."""

from placement_core.cluster import Broker, ClusterView, Move, TopicPartition, moves_between
from placement_core.errors import (
    InvalidGroupError,
    InvalidLayoutError,
    InvalidOptionError,
    RackwardError,
)
from placement_core.placers.spec import PlacementSpec, ReplicaLists
from placement_core.racks import (
    RackPath,
    common_levels,
    levels_crossed,
    nearest_replica,
    parse_rack,
    tie_break,
)

__all__ = [
    "Broker",
    "ClusterView",
    "InvalidGroupError",
    "InvalidLayoutError",
    "InvalidOptionError",
    "Move",
    "PlacementSpec",
    "RackPath",
    "RackwardError",
    "ReplicaLists",
    "TopicPartition",
    "common_levels",
    "levels_crossed",
    "moves_between",
    "nearest_replica",
    "parse_rack",
    "tie_break",
]
