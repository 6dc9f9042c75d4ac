"""Input and output of each rule of docs/traffic-rules.md: of the pipeline and a DuckDB reference.

Every case is a cluster with a partition of topic ``t`` and groups that read it. Unless a case says
otherwise, it has a log that grows by 100 offsets of 10 bytes in ten minutes, led by broker 0 in
rack ``a``, and a group at its end whose member is in rack ``x``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from rack_traffic.options import EstimationOptions
from rack_traffic.pipeline import partition_hours
from tests.support.oracles import traffic_sql
from tests.support.traffic_frames import stored

BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)
RACKS = ("a", "b", "c")

Values = dict[str, Any]


@dataclass
class Case:
    """Rows of tables (a missing one has the default), and what they give.

    ``hours`` maps (kind or group, hour from 0) to the rows there; other kinds, groups and hours
    may have any. A row is (from rack, to rack, bytes, estimated bytes, unsized offsets); the
    last ones may be left out if they are 0.
    """

    hours: dict[tuple[str, int], list[tuple[Any, ...]]]
    logs: list[Values] = field(default_factory=lambda: steps(4))
    commits: list[Values] = field(
        default_factory=lambda: [commit(10 * n, 100 * n) for n in range(4)]
    )
    members: list[Values] = field(default_factory=lambda: [owner(0)])
    brokers: list[Values] = field(
        default_factory=lambda: [broker(0, number, rack) for number, rack in enumerate(RACKS)]
    )


def at(minute: float) -> datetime:
    return BEGIN + timedelta(minutes=minute)


def broker(minute: float, number: int, rack: str | None) -> Values:
    return {"broker": number, "rack": rack, "taken_at": at(minute)}


def log(minute: float, end: int, size: int | None, **more: Any) -> Values:
    return {
        "topic": "t",
        "partition": 0,
        "topic_id": "first",
        "leader": 0,
        "replicas": [0],
        "start_offset": 0,
        "end_offset": end,
        "size_bytes": size,
        "taken_at": at(minute),
    } | more


def steps(count: int, *densities: int, **more: Any) -> list[Values]:
    """Return a log that grows every ten minutes, by 100 offsets of so many bytes (10)."""
    rows, size = [], 0
    for n in range(count):
        rows.append(log(10 * n, 100 * n, size, **more))
        size += 100 * (densities[n] if n < len(densities) else 10)
    return rows


def changed(rows: list[Values], number: int, **more: Any) -> list[Values]:
    """Return ``rows`` with other values in row ``number`` and the later ones."""
    return [row | more if n >= number else row for n, row in enumerate(rows)]


def commit(minute: float, offset: int, group: str = "g", collector: str | None = None) -> Values:
    return {
        "group": group,
        "topic": "t",
        "partition": 0,
        "committed_offset": offset,
        "taken_at": at(minute),
        "collector": collector,
    }


def owner(
    minute: float,
    rack: str | None = "x",
    group: str = "g",
    state: str = "Stable",
    owns: bool = True,
    **more: Any,
) -> Values:
    assignment = [{"topic": "t", "partitions": [0]}] if owns else []
    return {
        "group": group,
        "state": state,
        "member_id": f"member in {rack}" if owns else None,
        "rack": rack if owns else None,
        "assignment": assignment,
        "taken_at": at(minute),
    } | more


# Twenty log segments of 10 bytes per offset; from the eighteenth on the log is 5,000 bytes smaller.
COMPACTED = [
    row | {"size_bytes": row["size_bytes"] - (5000 if n >= 18 else 0)}
    for n, row in enumerate(steps(21))
]

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SELECTING = [
    broker(0, number, rack) | {"replica_selector": SELECTOR} for number, rack in enumerate(RACKS)
]
JOINED_WITH_RACK: Values = {"rack_source": "subscription"}
UNSIZED_HOURS = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23}

CASES: dict[str, Case] = {
    "1 racks of brokers: a change is half-way between its snapshots": Case(
        # Rack a until 10:15, so at the third snapshot it is b.
        {("g", 0): [("a", "x", 1500), ("b", "x", 1500)]},
        brokers=[broker(0, 0, "a"), broker(15, 0, None), broker(30, 0, "b")],
    ),
    "1 racks of brokers: the first holds before it was seen": Case(
        {("g", 0): [("a", "x", 3000)]}, brokers=[broker(30, 0, "a")]
    ),
    "2 leaders: none is the one before": Case(
        {("g", 0): [("a", "x", 2500), ("b", "x", 500)]},
        logs=[
            each | {"leader": leader}
            for each, leader in zip(steps(4), (0, None, None, 1), strict=True)
        ],
    ),
    "3 owners: a rebalance changes nothing, and none after one is none": Case(
        {("g", 0): [("a", "x", 500), ("a", "y", 1500)], ("unknown", 0): [("a", None, 1000)]},
        logs=steps(5),
        commits=[commit(10 * n, 100 * n) for n in range(5)]
        + [commit(0, 0, "unknown"), commit(10, 100, "unknown")],
        members=[
            owner(0),
            owner(5, state="PreparingRebalance", owns=False),
            owner(10, "y"),
            owner(20, state="Empty", owns=False),
        ],
    ),
    "3 owners: one that stays may give a partition up": Case(
        {("g", 0): [("a", "x", 1000), ("a", "y", 2000)]},
        members=[
            owner(0, member_id="m"),
            owner(10, member_id="m", assignment=[]),
            owner(20, "y", member_id="m"),
        ],
    ),
    "4 one row at a time: the highest": Case(
        {("g", 0): [("a", "x", 3000)], ("produce", 0): [(None, "a", 3000)]},
        logs=[*steps(4), log(10, 90, 900), log(20, 190, 1900)],
        commits=[commit(10 * n, 100 * n) for n in range(4)] + [commit(20, 200)],
    ),
    "5 several collectors: one of them counts": Case(
        {("g", 0): [("a", "x", 3000)], ("produce", 0): [(None, "a", 3000)]},
        logs=[each | {"collector": "p"} for each in steps(4)]
        + [log(5, 150, 1500, collector="q"), log(15, 250, 2500, collector="q")],
        commits=[commit(10 * n, 100 * n, "g", "p") for n in range(4)]
        + [commit(5, 150, "g", "q"), commit(15, 250, "g", "q")],
    ),
    "5 several collectors: a few missing snapshots are no reason for another one": Case(
        {("g", 0): [("a", "x", 3000)]},
        commits=[
            *(commit(minute, 10 * minute, "g", "p") for minute in (0, 5, 10, 20, 30)),
            *(commit(minute, 10 * minute + 90, "g", "q") for minute in (1, 4, 7, 11, 14, 21)),
        ],
    ),
    "5 several collectors: each has groups of its own": Case(
        {("g", 0): [("a", "x", 3000)], ("other", 0): [("a", None, 3000)]},
        logs=[each | {"collector": "p"} for each in steps(4)],
        commits=[commit(10 * n, 100 * n, "g", "p") for n in range(4)]
        + [commit(10 * n, 100 * n, "other", "q") for n in range(4)],
    ),
    "6 growth: of the time between two snapshots": Case(
        {("g", 0): [("a", "x", 2000 + 3000 + 2000)]}, logs=steps(4, 20, 30, 20)
    ),
    "6 growth: not if another broker leads, or retention removed the beginning": Case(
        {("g", 0): [("a", "x", 1500), ("b", "x", 1500)]},
        # A follower's log may be smaller; the start of the log is moved at the last snapshot.
        logs=changed(
            changed(steps(4), 2, leader=1, size_bytes=1500), 3, start_offset=50, size_bytes=1700
        ),
    ),
    "6 growth: less than half of the growths around is compaction": Case(
        {("g", 0): [("a", "x", 5000)]},
        logs=[
            log(10 * n, 100 * n, size) for n, size in enumerate((0, 1000, 2000, 2400, 3400, 4400))
        ],
        commits=[commit(10 * n, 100 * n) for n in range(6)],
    ),
    "7 bytes per offset: of a later growth, if there is none before": Case(
        {("g", 0): [("a", "x", 3000)]},
        logs=changed(changed(steps(4), 1, start_offset=10), 2, start_offset=20),
    ),
    "7 bytes per offset: of the whole log, if it never grew alone": Case(
        # Size and offsets of each snapshot: 400 of 50, 900 of 100, 1500 of 150.
        {("g", 0): [("a", "x", 50 * 8 + 50 * 8 + 900 + 1000)]},
        logs=[
            log(0, 0, 0),
            log(10, 100, 400, start_offset=50),
            log(20, 200, 900, start_offset=100),
            log(30, 300, 1500, start_offset=150),
        ],
    ),
    "8 to 10 ranges: what lags has the bytes per offset of then": Case(
        # At 11:20 the ranges begin at 700, 400 and 0: 20, 20 and 10 bytes per offset.
        {("g", 1): [("a", "x", 50 * 10 + 50 * 20)]},
        logs=steps(9, 10, 10, 10, 10, 20, 20, 20, 20),
        commits=[commit(70, 350), commit(80, 450)],
    ),
    "8 to 10 ranges: what is older than the last has the mean of the rest": Case(
        # At 49:50 the last range begins at 4300: 20,000 bytes of 2,000 offsets, 46,000 of 2,300.
        {("g", 49): [("a", "x", 1535)]},
        logs=steps(300, *[10] * 20, *[20] * 280),
        commits=[commit(2980, 1000), commit(2990, 1100)],
    ),
    "9, 10, 12 compactions: what is older than the last one has its mean size": Case(
        # At 13:20 the ranges begin at 1900, 1600, and the end of the snapshot before that of the
        # compaction: 1700, which is not below 1600. There are 11,000 bytes below 1600.
        {("g", 3): [("a", "x", 688, 688)]},
        logs=COMPACTED,
        commits=[commit(190, 500), commit(200, 600)],
    ),
    "10 ranges: the two newest are never compacted": Case(
        {("g", 3): [("a", "x", 1000)]},
        logs=COMPACTED,
        commits=[commit(190, 1700), commit(200, 1800)],
    ),
    "11, 12 a reset: the rate before and after": Case(
        # 10 and 20 offsets a minute.
        {("g", 0): [("a", "x", 1000 + 1500 + 2000, 1500)]},
        commits=[commit(0, 200), commit(10, 300), commit(20, 100), commit(30, 300)],
    ),
    "11, 12 a topic is created again": Case(
        {("g", 0): [("a", "x", 3000, 1000)]},
        logs=[*steps(2), *(log(m, e, 10 * e, topic_id="second") for m, e in ((20, 50), (30, 150)))],
        commits=[commit(0, 0), commit(10, 100), commit(20, 50), commit(30, 150)],
    ),
    "11, 12 retention passes a reader": Case(
        {("g", 0): [("a", "x", 500 + 500, 500)]},
        logs=changed(steps(4), 3, start_offset=150),
        commits=[commit(10, 0), commit(20, 50), commit(30, 200)],
    ),
    "11 more than a gigabyte a second is not read": Case(
        {("g", 0): [("a", "x", 1000 + 10, 10)]},
        logs=[*steps(3), log(20.1, 10**9, 10**10)],
        commits=[commit(10, 100), commit(20, 200), commit(20.1, 10**9)],
    ),
    "13 no size": Case(
        {("g", 0): [("a", "x", 0, 0, 300)], ("produce", 0): [(None, "a", 0, 0, 300)]},
        logs=[each | {"size_bytes": None} for each in steps(4)],
    ),
    "13 too long": Case(
        {
            ("g", 0): [("a", "x", 1000, 0, 2)],
            ("g", 1): [("a", "x", 0, 0, 2)],
            ("produce", 1): [(None, "a", 0, 0, 4)],
        },
        logs=[log(0, 0, 0), log(10, 100, 1000), log(1510, 200, 2000)],
        commits=[commit(0, 0), commit(10, 100), commit(1510, 150)],
    ),
    "13 a gap of the maximum is measured": Case(
        {
            (kind, hour): [(rack, to, 1000)]
            for hour in range(24)
            for kind, rack, to in (("g", "a", "x"), ("produce", None, "a"))
        },
        logs=[log(0, 0, 0), log(1440, 2400, 24000)],
        commits=[commit(0, 0), commit(1440, 2400)],
    ),
    "14 racks of reads: an end without an owner has the other's": Case(
        {("g", 0): [("a", "x", 1000)]},
        commits=[commit(0, 0), commit(10, 100), commit(20, 200), commit(30, 300)],
        members=[owner(0), owner(5, state="Empty", owns=False)],
    ),
    "14 racks of reads: first half and second half": Case(
        {("g", 0): [("a", "x", 1500), ("a", None, 1500)]}, members=[owner(0), owner(20, None)]
    ),
    "15 hours: by time, rounded": Case(
        # 1,001 bytes in 20 minutes, five of them in the first hour.
        {("g", 0): [("a", "x", 250)], ("g", 1): [("a", "x", 751)]},
        logs=[log(55, 0, 0), log(75, 1001, 1001)],
        commits=[commit(55, 0), commit(75, 1001)],
    ),
    "15 hours: few offsets of unknown size in a long gap": Case(
        # The twelve offsets, in 25 hours.
        {("g", hour): [("a", "x", 0, 0, 1)] if hour in UNSIZED_HOURS else [] for hour in range(25)},
        logs=[log(0, 0, 0), log(25 * 60, 12, 120)],
        commits=[commit(0, 0), commit(25 * 60, 12)],
    ),
    "16 produced and replicated": Case(
        {
            ("produce", 0): [(None, "a", 3000)],
            ("replicate", 0): [("a", "b", 3000), ("a", "c", 3000)],
        },
        logs=steps(4, replicas=[1, 0, 2]),
    ),
    "17 a new leader": Case(
        {
            ("produce", 0): [(None, "a", 1500), (None, "b", 1500)],
            ("replicate", 0): [("a", "b", 1500), ("b", "a", 1500)],
        },
        logs=changed(steps(4, replicas=[0, 1]), 2, leader=1),
    ),
    "18 selection: an in-sync replica in the owner's rack": Case(
        # The follower in rack c is not in sync.
        {
            ("g", 0): [("b", "b", 3000)],
            ("in c", 0): [("a", "c", 3000)],
            ("in a", 0): [("a", "a", 3000)],
        },
        logs=steps(4, replicas=[0, 1, 2], isr=[0, 1]),
        commits=[commit(10 * n, 100 * n, g) for n in range(4) for g in ("g", "in c", "in a")],
        members=[
            owner(0, "b", **JOINED_WITH_RACK),
            owner(0, "c", "in c", **JOINED_WITH_RACK),
            owner(0, "a", "in a", **JOINED_WITH_RACK),
        ],
        brokers=SELECTING,
    ),
    "18 selection: at each end, by the leader's class and the replicas in sync": Case(
        # Broker 0 gets the class at 10:05, half-way. The follower is not in sync at the third
        # snapshot, and broker 2, which leads at the last one, has another class.
        {("g", 0): [("a", "b", 500 + 1000), ("b", "b", 1000), ("c", "b", 500)]},
        logs=[
            row | {"isr": isr, "leader": leader}
            for row, isr, leader in zip(
                steps(4, replicas=[0, 1, 2]),
                ([0, 1], [0, 1], [0], [0, 1]),
                (0, 0, 0, 2),
                strict=True,
            )
        ],
        members=[owner(0, "b", **JOINED_WITH_RACK)],
        brokers=[
            broker(0, 0, "a") | {"replica_selector": ""},
            broker(5, 0, "a"),
            broker(10, 0, "a") | {"replica_selector": SELECTOR},
            broker(0, 1, "b") | {"replica_selector": SELECTOR},
            broker(0, 2, "c") | {"replica_selector": "com.example.Selector"},
        ],
    ),
    "18 selection: an owner moves to another rack": Case(
        {("g", 0): [("b", "b", 1500), ("c", "c", 1500)]},
        logs=steps(4, replicas=[0, 1, 2], isr=[0, 1, 2]),
        members=[owner(0, "b", **JOINED_WITH_RACK), owner(20, "c", **JOINED_WITH_RACK)],
        brokers=SELECTING,
    ),
    "19 clients: rackward's read leaders, and of others without a rack it is unknown": Case(
        {
            ("rackward", 0): [("a", "b", 3000)],
            ("kafka-go", 0): [("a", "b", 3000)],
            ("mapped", 0): [(None, "b", 3000)],
            ("elsewhere", 0): [("a", "x", 3000)],
            ("g", 0): [("b", "b", 1500), (None, "b", 1500)],
        },
        logs=steps(4, replicas=[0, 1], isr=[0, 1]),
        commits=[
            commit(10 * n, 100 * n, group)
            for n in range(4)
            for group in ("rackward", "kafka-go", "mapped", "elsewhere", "g")
        ],
        members=[
            owner(0, "b", "kafka-go", protocol="rack-affinity", **JOINED_WITH_RACK),
            owner(0, "b", "rackward", protocol="leader-rack-aware-range", **JOINED_WITH_RACK),
            owner(0, "b", "mapped", protocol="range", rack_source="mapping"),
            owner(0, "x", "elsewhere", rack_source="mapping"),
            # The member is restarted without client.rack.
            owner(0, "b", **JOINED_WITH_RACK),
            owner(20, "b", rack_source="mapping"),
        ],
        brokers=SELECTING,
    ),
}


def rows_of_all() -> dict[str, list[Values]]:
    """Return the tables of all cases; the cluster is the case's name."""
    return {
        table: [
            {"cluster": name, **row} for name, case in CASES.items() for row in _of(case, table)
        ]
        for table in traffic_sql.TABLES
    }


def _of(case: Case, table: str) -> list[Values]:
    rows: list[Values] = getattr(case, "logs" if table == "partitions" else table)
    return rows


Cells = dict[tuple[str, str, int], list[tuple[Any, ...]]]


def cells(rows: Iterable[tuple[Any, ...]]) -> Cells:
    """Return (cluster, kind or group, hour) to the rows there, in the form of ``Case.hours``."""
    found: Cells = {}
    for cluster, kind, group, _, _, hour, from_rack, to_rack, size, estimated, unsized in rows:
        seconds = hour.timestamp() if isinstance(hour, datetime) else hour
        key = (cluster, group or kind, int(seconds - BEGIN.timestamp()) // 3600)
        found.setdefault(key, []).append((from_rack, to_rack, size, estimated, unsized))
    return {key: sorted(values, key=str) for key, values in found.items()}


@pytest.fixture(scope="module")
def computed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Row], list[tuple[Any, ...]]]:
    """Return the rows of the pipeline, and those of the DuckDB reference."""
    folder = tmp_path_factory.mktemp("snapshots")
    rows = partition_hours(stored(spark, rows_of_all(), folder), EstimationOptions()).collect()
    connection = traffic_sql.connect(str(folder))
    query = traffic_sql.partition_hours(connection)
    return rows, connection.execute(query).fetchall()


@pytest.mark.parametrize("name", CASES)
def test_rule_gives_the_documented_rows(
    computed: tuple[list[Row], list[tuple[Any, ...]]], name: str
) -> None:
    found = cells(computed[0])
    for (kind, hour), rows in CASES[name].hours.items():
        expected = [(*row, *[0] * (5 - len(row))) for row in rows]
        assert found.get((name, kind, hour), []) == sorted(expected, key=str), (kind, hour)


def test_rows_equal_those_of_the_duckdb_reference(
    computed: tuple[list[Row], list[tuple[Any, ...]]],
) -> None:
    assert traffic_sql.differences(*computed) == ""
