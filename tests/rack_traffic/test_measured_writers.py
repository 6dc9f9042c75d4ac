"""Racks of producers from flow records, hand-computed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rack_traffic.batch import BatchOptions, run_traffic
from rack_traffic.errors import InputError
from rack_traffic.options import FlowOptions
from rack_traffic.schemas import HOURLY, REJECTED_ROWS
from rack_traffic.storage import read_table
from rack_traffic.writers import read_measured_writers
from tests.support.traffic_frames import write_snapshots
from tests.support.traffic_report import Sample, hourly_row

BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)

# ---- By hand: two topics on two brokers.

NETWORKS = {"10.1.0.1": "a", "10.2.0.1": "b"}
FLOWS = [
    # Broker 0, in a, gets a quarter from a and three quarters from b.
    ("10.1.0.1", "10.0.0.1", 1_100, 100),
    ("10.2.0.1", "10.0.0.1", 3_300, 300),
    # Broker 1, in b, gets half from a and half from an unknown rack.
    ("10.1.0.1", "10.0.0.2", 500, 0),
    ("10.9.0.1", "10.0.0.2", 500, 0),
    # A consumer that waits.
    ("10.2.0.1", "10.0.0.2", 7, 7),
]


def write_hour(root: Path) -> None:
    """Write two snapshots, between which the logs of orders and audit grow, and flow records."""
    cluster = {"cluster": "east"}
    rows: dict[str, list[dict[str, Any]]] = {"members": [], "commits": []}
    rows["brokers"] = [
        cluster | {"broker": number, "rack": rack, "taken_at": BEGIN}
        for number, rack in enumerate("ab")
    ]
    rows["listeners"] = [
        cluster
        | {"broker": number, "host": "h", "address": f"10.0.0.{number + 1}", "port": 9092}
        | {"taken_at": BEGIN}
        for number in range(2)
    ]
    logs = (("orders", 0, 0, 6), ("orders", 1, 1, 10), ("audit", 0, 0, 4))
    rows["partitions"] = [
        cluster
        | {"topic": topic, "topic_id": topic, "partition": partition, "leader": leader}
        | {"replicas": [leader], "isr": [leader], "start_offset": 0, "end_offset": end}
        | {"size_bytes": 100 * end, "taken_at": at, "leader_epoch": 1, "collector": "c"}
        for topic, partition, leader, grown in logs
        for at, end in ((BEGIN, 10), (BEGIN + HOUR, 10 + grown))
    ]
    write_snapshots(root, rows)
    begin = int(BEGIN.timestamp())
    lines = ["start,end,source_address,source_port,destination_address,destination_port,bytes"]
    for client, broker, sent, received in FLOWS:
        window = f"{begin},{begin + 3600}"
        lines.append(f"{window},{client},50000,{broker},9092,{sent}")
        lines.append(f"{window},{broker},9092,{client},50000,{received}")
    (root / "flows.csv").write_text("\n".join(lines))


def test_figures_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of hourly, totals, and the writers of a layout."""
    source, tables = tmp_path / "snapshots", tmp_path / "tables"
    write_hour(source)
    flows = FlowOptions(str(source / "flows.csv"), None, {}, NETWORKS.get)
    job = BatchOptions(str(source), str(tables), flows=flows)
    summary = run_traffic(spark, job, lambda: BEGIN)
    # An empty table would replace the rejected rows of an earlier run.
    assert read_table(spark, job.path("rejected_rows"), REJECTED_ROWS).count() == 0
    hourly = read_table(spark, job.path("hourly"), HOURLY)
    rows = hourly.filter("kind = 'produce'")
    assert {
        tuple(row)
        for row in rows.select(
            "topic", "from_rack", "to_rack", "source", "crossed_level", "bytes"
        ).collect()
    } == {
        # In a, 600 of orders are written and 400 of audit.
        ("orders", "a", "a", "measured", 0, 660),
        ("orders", "b", "a", "measured", 1, 1_980),
        ("audit", "a", "a", "measured", 0, 440),
        ("audit", "b", "a", "measured", 1, 1_320),
        ("orders", "a", "b", "measured", 1, 500),
        ("orders", "a", "b", "assumed", 1, 250),
        ("orders", "b", "b", "assumed", 0, 250),
    }
    produced = summary["traffic"]["kinds"]["produce"]
    assert [produced[name] for name in ("bytes", "measured", "local", "crossing")] == [
        *(5_400, 4_900, 1_350, 4_050)
    ]

    writers = read_measured_writers(str(tables), None)
    assert writers.shares == {
        "audit": {"a": 0.25, "b": 0.75},
        "orders": {"a": 1_160 / 3_140, "b": 1_980 / 3_140},
    }
    assert (writers.hours, writers.coverage) == (1, 4_900 / 5_400)
    with pytest.raises(InputError, match="no measured racks of producers of cluster west"):
        read_measured_writers(str(tables), "west")


def test_of_several_clusters_one_must_be_named(tmp_path: Path) -> None:
    produced: dict[str, Any] = {"kind": "produce", "group": None, "source": "measured"}
    sample = Sample()
    sample.rows["hourly"] = [
        hourly_row(BEGIN, 60, "a", "a", **produced),
        hourly_row(BEGIN + HOUR, 20, "b", "a", **produced),
        hourly_row(BEGIN, 20, "b", "a", **produced | {"source": "assumed"}),
        hourly_row(BEGIN, 1_000, "c", "a", **produced | {"cluster": "web"}),
        hourly_row(BEGIN, 5, "c", "a", **produced | {"topic": "audit", "source": "assumed"}),
        hourly_row(BEGIN, 7_000, "c", "a"),
    ]
    folder = str(sample.write(tmp_path, ["hourly"]))
    found = read_measured_writers(folder, "main")
    assert found.shares == {"orders": {"a": 0.75, "b": 0.25}}
    assert (found.hours, found.coverage) == (2, 0.8)
    with pytest.raises(InputError, match=r"several clusters \(main, web\): name one"):
        read_measured_writers(folder, None)
    with pytest.raises(InputError, match="cannot read the hourly table"):
        read_measured_writers(str(tmp_path / "none"), None)
