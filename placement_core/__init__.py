"""The pure core of rackward: racks, cluster values and the algorithms over them. No I/O."""

from typing import TYPE_CHECKING

from placement_core.cluster import Broker, ClusterView, Move, TopicPartition, moves_between
from placement_core.errors import (
    InvalidGroupError,
    InvalidOptionError,
    RackwardError,
)
from placement_core.lazy_exports import lazy_exports
from placement_core.racks import (
    LEADER_READING_PROTOCOLS,
    RACK_AWARE_SELECTOR,
    RackPath,
    common_levels,
    is_off_rack,
    levels_crossed,
    nearest_replica,
    parse_rack,
    source_rack,
    tie_break,
)

if TYPE_CHECKING:
    from placement_core.placers.spec import PlacementSpec, ReplicaLists
else:
    __getattr__ = lazy_exports(
        __name__, {"placement_core.placers.spec": ["PlacementSpec", "ReplicaLists"]}
    )

__all__ = [
    "LEADER_READING_PROTOCOLS",
    "RACK_AWARE_SELECTOR",
    "Broker",
    "ClusterView",
    "InvalidGroupError",
    "InvalidOptionError",
    "Move",
    "PlacementSpec",
    "RackPath",
    "RackwardError",
    "ReplicaLists",
    "TopicPartition",
    "common_levels",
    "is_off_rack",
    "levels_crossed",
    "moves_between",
    "nearest_replica",
    "parse_rack",
    "source_rack",
    "tie_break",
]
