"""Measured flows: the rules of docs/traffic-rules.md, and their SQL on random records."""

from __future__ import annotations

import ipaddress
import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from rack_traffic.options import FlowOptions
from rack_traffic.pipeline import FlowInput, write_measured
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import OUTPUT, SNAPSHOTS
from rack_traffic.tables import HOURLY, arrow_schema, columns_schema
from rackward.groups.host_racks import HostRacks
from tests.support.oracles import flows_sql
from tests.support.oracles.traffic_sql import differences

BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)
SEEDS = range(20)
SNAPSHOT_TABLES = ("brokers", "members", "listeners")

Values = dict[str, Any]


def minutes(number: float) -> datetime:
    return BEGIN + timedelta(minutes=number)


@dataclass
class World:
    """The input of one or several clusters."""

    brokers: list[Values] = field(default_factory=list)
    members: list[Values] = field(default_factory=list)
    listeners: list[Values] = field(default_factory=list)
    records: list[Values] = field(default_factory=list)
    mapped: dict[tuple[str, int | None], tuple[str, int]] = field(default_factory=dict)
    networks: dict[str, str] = field(default_factory=dict)
    estimated: list[Values] = field(default_factory=list)

    def broker(self, cluster: str, number: int, rack: str | None, minute: float = 0) -> None:
        at = minutes(minute)
        row = {"cluster": cluster, "broker": number, "rack": rack, "taken_at": at}
        self.brokers.append(row)

    def listener(
        self, cluster: str, broker: int, address: str | None, port: int, minute: float = 0
    ) -> None:
        row = {"cluster": cluster, "broker": broker, "address": address, "port": port}
        self.listeners.append(row | {"host": "h", "taken_at": minutes(minute)})

    def member(
        self, cluster: str, group: str, host: str | None, rack: str | None, minute: float
    ) -> None:
        """Add a member; without a host, the group is empty then."""
        row = {"cluster": cluster, "group": group, "state": "Stable", "host": host, "rack": rack}
        name = host and f"{host} {rack}"
        self.members.append(row | {"member_id": name, "taken_at": minutes(minute)})

    def estimate(
        self,
        cluster: str,
        kind: str,
        group: str | None,
        topic: str,
        racks: tuple[str | None, str | None],
        size: int,
        hour: int = 0,
    ) -> None:
        """Add a row of HOURLY, at 0.02 per GB."""
        level = None if None in racks else int(racks[0] != racks[1])
        price = None if level is None else level * 0.02
        values = (
            *(cluster, kind, group, topic, *racks, minutes(60 * hour)),
            *("assumed" if kind == "produce" and racks[0] else "estimated", level, size, 0, 1),
            *(price, None if price is None else size * price / 1e9),
        )
        self.estimated.append(dict(zip(HOURLY, values, strict=True)))

    def record(
        self,
        source: tuple[str, int | None],
        destination: tuple[str, int | None],
        size: int,
        minute: float = 0,
        seconds: float = 60,
        reporter: str | None = None,
    ) -> None:
        start = int(minutes(minute).timestamp() * 1e6)
        row = dict(zip(("source_address", "source_port"), source, strict=True))
        row |= dict(zip(("destination_address", "destination_port"), destination, strict=True))
        row |= {"start": start, "end": start + int(seconds * 1e6)}
        self.records.append(row | {"bytes": size, "reporter": reporter})


ESTIMATED = (("consume", "g"), ("consume", "h"), ("produce", None), ("replicate", None))
"""Kinds and groups of the estimate; another group is in flow records only."""


def random_cluster(world: World, seed: int) -> None:
    """Add a cluster with every fault, in its own networks 10.SEED.x.y."""
    rng = random.Random(seed)
    name = f"c{seed}"
    net = f"10.{seed}"
    homes = {number: f"{net}.0.{number + 1}" for number in range(3)}
    for minute in range(0, 180, 20):
        for number in range(3):
            moved = seed % 3 == 1 and minute >= 100 and number == 2
            if rng.random() < 0.8:
                world.broker(
                    name,
                    number,
                    None if rng.random() < 0.1 else "abcd"[number + moved],
                    minute + rng.random(),
                )
            # Two brokers exchange their addresses.
            home = homes[1 - number] if seed % 2 and minute >= 60 and number < 2 else homes[number]
            for port in (9091, 9092):
                if rng.random() < 0.8:
                    world.listener(name, number, home, port, minute)
    world.listener(name, 0, None, 9092)
    world.mapped |= {(f"{net}.9.1", 9092): (name, 0), (f"{net}.9.2", None): (name, 1)}
    world.mapped[f"{net}.9.3", 9092] = (name, 1)
    world.networks |= {f"{net}.1.0/24": "a", f"{net}.1.4/30": "b", f"{net}.2.8/32": "c"}
    hosts = [f"{net}.1.{number}" for number in range(1, 8)]
    for group in ("g", "h", "i"):
        places = {host: rng.choice(["a", "b", None]) for host in rng.sample(hosts, 2)}
        for minute in range(-20, 200, 10):
            if rng.random() < 0.2:
                continue
            if rng.random() < 0.2:
                # A member ends, and another starts anywhere: perhaps at the address of one that
                # has just ended.
                places.pop(rng.choice([*places]), None)
                places[rng.choice(hosts)] = rng.choice(["a", "b", None])
            if rng.random() < 0.1:
                world.member(name, group, None, None, minute)
                continue
            for host, rack in places.items():
                world.member(name, group, host, rack, minute + (0 if group == "g" else 0.01))
    others = [f"{net}.2.{number}" for number in range(7, 10)]
    ends: list[tuple[str, int | None]] = [
        *((home, port) for home in homes.values() for port in (9091, 9092)),
        *((f"{net}.9.{number}", 9092) for number in (1, 2, 3)),
    ]
    for _ in range(60):
        broker = rng.choice(ends)
        address = rng.choice([*hosts, *hosts, *others, *homes.values(), f"{net}.9.1", f"{net}.9.2"])
        client = (address, rng.choice([40_000, 40_001, 40_002, 9091, None]))
        begin = rng.uniform(-40, 220)
        for _ in range(rng.randrange(1, 5)):
            _flow(world, rng, client, broker, begin)
            begin += rng.choice([0.0, 1.0, 10.0, 0.5])
    for _ in range(20):
        world.record((rng.choice(others), 1), (rng.choice(hosts), 2), 100)
    # Records of every broker, in some clusters without ten minutes of one.
    for minute in range(30, 130, 10):
        for number, home in homes.items():
            if seed % 3 or (minute, number) != (80, 1):
                world.record((home, 9092), (others[0], 40_009), 1, minute, seconds=600)
    for hour in range(-1, 4):
        for topic in ("s", "t", "u"):
            for racks in itertools.product([*"abc", None], repeat=2):
                for kind, reader in ESTIMATED:
                    if rng.random() < 0.5:
                        size = rng.choice([0, 1, 7, rng.randrange(10**10)])
                        world.estimate(name, kind, reader, topic, racks, size, hour)


def _flow(
    world: World,
    rng: random.Random,
    client: tuple[str, int | None],
    broker: tuple[str, int | None],
    minute: float,
) -> None:
    """Add the records of both directions, of one, two or no reporters; some twice, some missing."""
    down, up = rng.choice([(10**10, 10**6), (10**5, 10**9), (7, 7), (1_000, 0), (0, 3)])
    seconds = rng.choice([0, 1, 60, 60, 600, 600, 7_200, 86_400 if rng.random() < 0.1 else 60])
    for source, destination, size in ((broker, client, down), (client, broker, up)):
        known: list[list[str | None]] = [[None], ["1"], ["1", "2"], ["2", "1", None]]
        for reporter in rng.choice(known):
            lost = rng.choice([0, 0, 1, size // 3])
            shift = rng.choice([0.0, 0.0, 0.3])
            for _ in range(rng.choice([0, 1, 1, 1, 1, 2])):
                world.record(
                    source, destination, size - min(lost, size), minute + shift, seconds, reporter
                )


def computed(spark: SparkSession, world: World, root: Path) -> dict[str, list[Row]]:
    """Write the tables below ``root`` and return those of the pipeline."""
    tables = {
        name: pa.Table.from_pylist(getattr(world, name), arrow_schema(name))
        for name in SNAPSHOT_TABLES
    }
    tables["flows"] = pa.Table.from_pylist(world.records)
    tables["estimated"] = pa.Table.from_pylist(world.estimated, columns_schema(HOURLY))
    for name, table in tables.items():
        (root / name).mkdir(parents=True)
        pq.write_table(table, root / name / "rows.parquet")
    snapshots = {
        name: spark.read.schema(SNAPSHOTS[name]).parquet(str(root / name))
        for name in SNAPSHOT_TABLES
    }
    # The times of these records are microseconds already.
    records = spark.read.parquet(str(root / "flows"))
    estimated = spark.read.schema(OUTPUT["hourly"]).parquet(str(root / "estimated"))
    racks = HostRacks.parse(world.networks, "test")
    flows = FlowOptions("", None, world.mapped, racks.rack)
    given = FlowInput(records, **snapshots, options=flows)
    found: dict[str, list[Row]] = {}

    def replace(rows: DataFrame, table: str) -> DataFrame:
        cached = rows.persist()
        found[table] = cached.collect()
        return cached

    write_measured(given, estimated, PriceTable(), replace)
    return found


CASES = "cases"


def add_cases(world: World) -> None:
    """Add a cluster with a flow of each sort, whose rows are in EXPECTED."""
    for number, rack in enumerate("abc"):
        world.broker(CASES, number, rack)
        world.listener(CASES, number, f"172.16.0.{number}", 9092)
    world.mapped["172.16.9.1", 9092] = (CASES, 2)
    world.networks |= {f"172.16.{number}.0/24": rack for number, rack in enumerate("abc", 1)}
    for minute in range(0, 60, 10):
        world.member(CASES, "orders", "172.16.1.1", "a", minute)
        world.member(CASES, "wrong", "172.16.2.2", "c", minute)
        if minute < 30:
            world.member(CASES, "before", "172.16.3.3", None, minute)
        else:
            world.member(CASES, "after", "172.16.3.3", None, minute)
    world.member(CASES, "before", None, None, 30)
    a, b, c = (f"172.16.0.{number}" for number in range(3))
    # Both interfaces report a read, one of them twice and one with a loss; it acknowledges.
    for reporter, size in (("x", 1_000), ("x", 1_000), ("y", 990)):
        world.record((b, 9092), ("172.16.1.1", 50_000), size, 5, reporter=reporter)
    world.record(("172.16.1.1", 50_000), (b, 9092), 40, 5)
    # The same member writes over another connection.
    world.record(("172.16.1.1", 50_001), (a, 9092), 300, 5)
    world.record((a, 9092), ("172.16.2.2", 50_000), 200, 5)
    # An address that a member of another group has after half an hour.
    world.record((c, 9092), ("172.16.3.3", 50_000), 70, 20)
    world.record((c, 9092), ("172.16.3.3", 50_000), 80, 40)
    # In no group; a quarter of the time is in the next hour, of which nothing is known of groups.
    world.record((a, 9092), ("172.16.3.4", 50_000), 1_001, 45, seconds=1_200)
    world.record(("10.99.0.1", 50_000), (a, 9092), 600, 5)
    # A follower; through a load balancer, whose own way to the broker does not count.
    world.record((a, 9092), (b, 50_000), 5_000, 5)
    world.record(("172.16.9.1", 9092), ("172.16.1.9", 50_000), 400, 5)
    world.record((c, 9092), ("172.16.9.1", 50_000), 400, 5)


EXPECTED = [
    ("consume", "172.16.1.1", "orders", 1, "b", "a", 0, "member", "a", 1_000, 40),
    ("produce", "172.16.1.1", "orders", 1, "a", "a", 0, "member", "a", 300, 0),
    ("consume", "172.16.2.2", "wrong", 1, "a", "c", 0, "member", "b", 200, 0),
    ("consume", "172.16.3.3", "before", 1, "c", "c", 0, "mapping", "c", 70, 0),
    ("consume", "172.16.3.3", "after", 1, "c", "c", 0, "mapping", "c", 80, 0),
    ("consume", "172.16.3.4", None, None, "a", "c", 0, "mapping", "c", 751, 0),
    ("consume", "172.16.3.4", None, None, "a", "c", 1, "mapping", "c", 250, 0),
    ("produce", "10.99.0.1", None, 0, None, "a", 0, None, None, 600, 0),
    ("replicate", "172.16.0.1", None, None, "a", "b", 0, "broker", None, 5_000, 0),
    ("consume", "172.16.1.9", None, 0, "c", "a", 0, "mapping", "a", 400, 0),
]


Both = tuple[dict[str, list[Row]], dict[str, list[tuple[object, ...]]]]
"""The tables of the pipeline, and those of the DuckDB reference."""


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Both:
    world, root = World(), tmp_path_factory.mktemp("flows")
    add_cases(world)
    for seed in SEEDS:
        random_cluster(world, seed)
    mapped = [
        {"address": address, "port": port, "cluster": cluster, "broker": broker}
        for (address, port), (cluster, broker) in world.mapped.items()
    ]
    networks = []
    for text, rack in world.networks.items():
        network = ipaddress.ip_network(text)
        low, high = int(network[0]), int(network[-1])
        networks.append({"low": low, "high": high, "size": high - low, "rack": rack})
    for name, given in (("mapped", mapped), ("networks", networks)):
        (root / name).mkdir()
        pq.write_table(pa.Table.from_pylist(given), root / name / "rows.parquet")
    return computed(spark, world, root), flows_sql.measured_tables(str(root))


def test_a_flow_of_each_sort(rows: Both) -> None:
    found = [
        (*row[1:7], int(row["hour"].timestamp() - BEGIN.timestamp()) // 3600, *row[8:])
        for row in rows[0]["flows_hourly"]
        if row["cluster"] == CASES
    ]
    assert sorted(found, key=str) == sorted(EXPECTED, key=str)


def test_rows_equal_those_of_the_duckdb_reference(rows: Both) -> None:
    for name in rows[1]:
        assert differences(rows[0][name], rows[1][name]) == "", name
    for seed in SEEDS:
        found = {row["kind"] for row in rows[0]["flows_hourly"] if row["cluster"] == f"c{seed}"}
        assert found == {"consume", "produce", "replicate"}
    # All and some of the hours of some clusters are measured, and producers assumed there too.
    sources = Counter((row["kind"], row["source"]) for row in rows[0]["hourly"])
    assert min(sources[kind, "measured"] for kind in ("consume", "produce", "replicate")) > 5
    assert {row["cluster"] for row in rows[0]["replaced_hourly"]} > {f"c{seed}" for seed in (1, 2)}


def test_parts_of_measured_rows_add_up(rows: Both) -> None:
    measured = {(row["cluster"], row["kind"], row["hour"]) for row in rows[0]["replaced_hourly"]}
    sums = Counter[tuple[object, ...]]()
    for sign, name in ((1, "flows_hourly"), (-1, "hourly")):
        for row in rows[0][name]:
            key = row["cluster"], row["kind"], row["hour"]
            if key in measured:
                sums[*key, row["to_rack"]] += sign * row["bytes"]
    assert measured
    assert not any(sums.values())
