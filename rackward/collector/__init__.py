"""Snapshots of live clusters for :mod:`rack_traffic`: what is where, and who has read how far.

Every table, its columns and its folders are :mod:`rack_traffic.snapshot_tables`'. Needs
``pip install 'rackward[collect]'``, and no Spark. The two sinks are imported from modules of their
own, :mod:`rackward.collector.parquet_sink` (pyarrow) and :mod:`rackward.collector.topic_sink`.
"""

from rackward.collector.collecting import Collector
from rackward.collector.errors import CollectorError, SinkError, SourceError
from rackward.collector.rack_map import RackMap, parse_rack_map
from rackward.collector.schedule import Schedule
from rackward.collector.selection import Patterns, Selection
from rackward.collector.sink import Sink
from rackward.collector.snapshot import Snapshot
from rackward.collector.sources import ClusterSource, read_rack_map, read_sources
from rackward.collector.taking import take_snapshot
from rackward.collector.worker import Outcome

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
