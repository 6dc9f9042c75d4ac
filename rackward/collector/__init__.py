"""Snapshots of live clusters for :mod:`rack_traffic`: partitions, groups and committed offsets.

:mod:`rack_traffic.tables` defines the tables. Needs ``pip install 'rackward[collect]'``,
and not Spark.
"""

from rackward.collector.collector import ClusterResult, Collector
from rackward.collector.config import (
    ClusterSource,
    CollectorError,
    Patterns,
    Selection,
    SinkError,
    SourceError,
    read_sources,
)
from rackward.collector.sinks import ParquetSink, Sink, TopicSink
from rackward.collector.snapshot import Snapshot, take_snapshot
from rackward.groups.host_racks import HostRacks

__all__ = [
    "ClusterResult",
    "ClusterSource",
    "Collector",
    "CollectorError",
    "HostRacks",
    "ParquetSink",
    "Patterns",
    "Selection",
    "Sink",
    "SinkError",
    "Snapshot",
    "SourceError",
    "TopicSink",
    "read_sources",
    "take_snapshot",
]
