"""Snapshots of live clusters for :mod:`rack_traffic`: what is where, and who has read how far.

Every table, its columns and its folders are :mod:`rack_traffic.snapshot_tables`'. Needs
``pip install 'rackward[collect]'``, and no Spark. The two sinks are imported from modules of their
own, :mod:`rackward.collector.parquet_sink` (pyarrow) and :mod:`rackward.collector.topic_sink`.
"""

from rackward.collector.collector import Collector, Outcome, Schedule
from rackward.collector.config import (
    ClusterSource,
    Patterns,
    Selection,
    read_rack_map,
    read_sources,
)
from rackward.collector.errors import CollectorError, SinkError, SourceError
from rackward.collector.rows import Sink, Snapshot
from rackward.collector.snapshot_reader import take_snapshot
from rackward.host_racks import RackMap, parse_rack_map

__all__ = [
    "ClusterSource",
    "Collector",
    "CollectorError",
    "Outcome",
    "Patterns",
    "RackMap",
    "Schedule",
    "Selection",
    "Sink",
    "SinkError",
    "Snapshot",
    "SourceError",
    "parse_rack_map",
    "read_rack_map",
    "read_sources",
    "take_snapshot",
]
