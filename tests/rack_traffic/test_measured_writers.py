"""Racks of producers from flow records: hand-computed, and by brute force on random hours."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rack_traffic.batch import BatchOptions, run_traffic
from rack_traffic.errors import InputError
from rack_traffic.measured_writers import read_measured_writers
from rack_traffic.options import FlowOptions
from rack_traffic.pipeline import priced_hours
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import FLOWS_HOURLY, HOURLY, PARTITION_HOURS
from rack_traffic.snapshot_tables import arrow_schema
from rack_traffic.storage import read_table
from rack_traffic.writers import Writers, parse_writers
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
    for table, given in rows.items():
        folder = root / table / "date=2026-03-02"
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(given, arrow_schema(table)), folder / "rows.parquet")
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
    hourly = read_table(spark, job.path("hourly"), HOURLY)
    assert {
        tuple(row)
        for row in hourly.select(
            "topic", "from_rack", "to_rack", "source", "crossed_level", "bytes"
        ).collect()
    } == {
        ("orders", "a", "a", "measured", 0, 150),
        ("orders", "b", "a", "measured", 1, 450),
        ("audit", "a", "a", "measured", 0, 100),
        ("audit", "b", "a", "measured", 1, 300),
        ("orders", "a", "b", "measured", 1, 500),
        ("orders", "a", "b", "assumed", 1, 250),
        ("orders", "b", "b", "assumed", 0, 250),
    }
    produced = summary["traffic"]["kinds"]["produce"]
    assert [produced[name] for name in ("bytes", "measured", "local", "crossing")] == [
        *(2_000, 1_500, 500, 1_500)
    ]

    writers = read_measured_writers(str(tables), None)
    assert writers.shares == {
        "audit": {"a": 0.25, "b": 0.75},
        "orders": {"a": 650 / 1_100, "b": 450 / 1_100},
    }
    assert (writers.hours, writers.coverage) == (1, 0.75)
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


# ---- By brute force.


@pytest.mark.parametrize("texts", [[], ["a=60,b=30,c=10"], ["t1:a=1,d=2"]])
def test_parts_are_those_of_the_flows(spark: SparkSession, texts: list[str]) -> None:
    rng = Random(7)
    hours = [
        (
            *(rng.choice("xy"), rng.choice(["produce", "produce", "replicate"]), None),
            *(rng.choice(["t1", "t2"]), number % 7, BEGIN + number % 5 * HOUR),
            None,
            rng.choice(["a", "b", "c", None]),
            *(rng.randrange(10 ** rng.randrange(1, 13)), 0, rng.randrange(5)),
        )
        for number in range(300)
    ]
    flows = [
        (
            *(rng.choice("xy"), rng.choice(["produce", "produce", "consume"]), f"10.0.0.{number}"),
            *(None, 0, rng.choice(["a", "b", "c", "e", None]), rng.choice(["a", "b", "c", None])),
            *(BEGIN + rng.choice([0, 1, 2, 9]) * HOUR, "mapping", None),
            *(sent := 10 ** rng.randrange(12), rng.choice([0, sent // 50, sent])),
        )
        for number in range(60)
    ]
    writers = parse_writers(texts)
    priced = priced_hours(
        spark.createDataFrame(hours, PARTITION_HOURS),
        PriceTable(),
        writers,
        spark.createDataFrame(flows, FLOWS_HOURLY),
    )
    found: dict[tuple[Any, ...], int] = defaultdict(int)
    for row in priced.filter("kind = 'produce'").collect():
        key = (row["cluster"], row["topic"], row["to_rack"], row["hour"].timestamp())
        found[*key, row["from_rack"], row["source"]] += row["bytes"]
    expected = by_brute_force(hours, flows, writers)
    assert {each[-1] for each in expected} == {"measured", "assumed", "estimated"}
    for each in found.keys() | expected.keys():
        assert -1 <= found.get(each, 0) - expected.get(each, Fraction(0)) <= 1, each
    written = sum(row[8] for row in hours if row[1] == "produce")
    assert sum(found.values()) == written == round(sum(expected.values()))


def by_brute_force(
    hours: list[tuple[Any, ...]], flows: list[tuple[Any, ...]], writers: Writers
) -> dict[tuple[Any, ...], Fraction]:
    """Return the bytes by cluster, topic, rack, hour, rack of the producer, and source."""
    found: dict[tuple[Any, ...], Fraction] = defaultdict(Fraction)
    for cluster, kind, _, topic, _, hour, _, to_rack, written, _, _ in hours:
        if kind != "produce":
            continue
        key = (cluster, topic, to_rack, hour.timestamp())
        if to_rack is None:
            found[*key, None, "estimated"] += written
            continue
        present = {row[7] for row in hours if (row[0], row[5]) == (cluster, hour)} - {None}
        parts = {rack: Fraction(1, len(present)) for rack in present}
        if shares := writers.shares.get(topic) or writers.shares.get("*"):
            parts = {rack: Fraction(part) for rack, part in shares.items()}
        sent: dict[str | None, int] = defaultdict(int)
        if topic not in writers.shares:
            for row in flows:
                if (row[0], row[1], row[6], row[7]) == (cluster, "produce", to_rack, hour):
                    sent[row[5]] += row[10] - row[11]
        whole = sum(sent.values())
        unknown = Fraction(sent.pop(None, 0), whole) if whole else Fraction(1)
        for rack, size in sent.items():
            if size:
                found[*key, rack, "measured"] += written * Fraction(size, whole)
        for rack, part in parts.items():
            if unknown:
                found[*key, rack, "assumed"] += written * unknown * part
    return found
