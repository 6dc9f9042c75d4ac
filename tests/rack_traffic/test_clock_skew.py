"""Several collectors of one cluster, whose clocks differ: no byte counts twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from rack_traffic.options import EstimationOptions
from rack_traffic.pipeline import partition_hours
from tests.support.oracles import traffic_sql
from tests.support.traffic_frames import stored

BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)
HOUR = 3600
HOURS = 1
PARTITIONS = 3
HISTORY = 2000
"""Seconds before the first hour."""


@dataclass(frozen=True)
class Collector:
    """Takes a snapshot ``after`` seconds of each multiple of ``every``; its clock is ``ahead``."""

    name: str
    after: int = 0
    ahead: int = 0
    every: int = 60
    silent: range = range(0)
    """Seconds after BEGIN in which it takes none."""


FAST = Collector("fast")
CELLS: dict[str, tuple[Collector, ...]] = {
    "one": (FAST,),
    "2 s and 5 s": (FAST, Collector("other", 2, -5)),
    "30 s and 35 s": (FAST, Collector("other", 30, -35)),
    "30 s and 30 s": (FAST, Collector("other", 30, -30)),
    "ahead": (FAST, Collector("other", 10, 45)),
    "other interval": (Collector("dense", every=20), Collector("other", 10, -35)),
    "three": (FAST, Collector("other", 20, -30), Collector("third", 40, -70)),
    "relieved": (
        Collector("first", silent=range(1500, 9000)),
        Collector("second", 30, -35, silent=range(-HISTORY, 1500)),
    ),
}


def simulate(name: str, seed: int) -> tuple[dict[str, list[dict[str, Any]]], Counter[str]]:
    """Return the rows of a cluster's snapshots and the true bytes per kind or group.

    Each second has its own number of records and size of a record. The group ``head`` is at the
    end of the log, ``lagging`` is ten minutes behind, and ``set back`` goes back by ten minutes of
    records, which it reads again at three times the rate.
    """
    rng = np.random.default_rng(seed)
    seconds = HISTORY + HOURS * HOUR + 300
    rates = rng.uniform(20, 60, (PARTITIONS, 1)) * (1 + 0.3 * np.sin(np.arange(seconds) / 900))
    records = rng.poisson(rates)
    end = np.cumsum(records, axis=1)
    sizes = np.cumsum(records * 500 * (1 + 0.2 * np.sin(np.arange(seconds) / 1300)), axis=1)
    positions = {
        "head": _delayed(end, 1),
        "lagging": _delayed(end, 600),
        "set back": _set_back(end, HISTORY + HOUR // 3 + 17),
    }
    rows: dict[str, list[dict[str, Any]]] = {
        table: [] for table in ("brokers", "partitions", "members", "commits")
    }
    for collector in CELLS[name]:
        for second in range(1200 + collector.after, seconds, collector.every):
            if second - HISTORY in collector.silent:
                continue
            at = BEGIN + timedelta(seconds=second - HISTORY + collector.ahead)
            _observe(rows, name, collector.name, at, second, end, sizes, positions)
    true: Counter[str] = Counter()
    hours = slice(HISTORY, HISTORY + HOURS * HOUR)
    for group, position in positions.items():
        read = np.maximum(np.diff(position, axis=1, prepend=position[:, :1]), 0)
        for partition in range(PARTITIONS):
            upper = np.interp(position[partition], end[partition], sizes[partition])
            lower = np.interp(
                position[partition] - read[partition], end[partition], sizes[partition]
            )
            true[group] += int((upper - lower)[hours].sum())
    true["produce"] = int((sizes[:, hours.stop] - sizes[:, hours.start]).sum())
    return rows, true


def _delayed(end: np.ndarray[Any, Any], seconds: int) -> np.ndarray[Any, Any]:
    return np.concatenate([np.repeat(end[:, :1], seconds, axis=1), end[:, :-seconds]], axis=1)


def _set_back(end: np.ndarray[Any, Any], second: int) -> np.ndarray[Any, Any]:
    position = _delayed(end, 1).copy()
    current = end[:, second - 600].copy()
    for each in range(second, end.shape[1]):
        current = np.minimum(current + 3 * (end[:, each] - end[:, each - 1]) + 1, end[:, each - 1])
        position[:, each] = current
    return position


def _observe(
    rows: dict[str, list[dict[str, Any]]],
    cluster: str,
    collector: str,
    at: datetime,
    second: int,
    end: np.ndarray[Any, Any],
    sizes: np.ndarray[Any, Any],
    positions: dict[str, np.ndarray[Any, Any]],
) -> None:
    common = {"cluster": cluster, "taken_at": at, "collector": collector}
    rows["brokers"].append(common | {"broker": 0, "rack": "a", "host": "h"})
    for partition in range(PARTITIONS):
        of_partition = common | {"topic": "t", "partition": partition}
        rows["partitions"].append(
            of_partition
            | {
                "topic_id": "x",
                "leader": 0,
                "replicas": [0],
                "isr": [0],
                "start_offset": 0,
                "end_offset": int(end[partition, second]),
                "size_bytes": int(sizes[partition, second]),
            }
        )
        rows["commits"] += [
            of_partition | {"group": group, "committed_offset": int(position[partition, second])}
            for group, position in positions.items()
        ]
    rows["members"] += [
        common
        | {
            "group": group,
            "state": "Stable",
            "member_id": group,
            "rack": "b",
            "topics": ["t"],
            "assignment": [{"topic": "t", "partitions": list(range(PARTITIONS))}],
        }
        for group in positions
    ]


Totals = dict[str, Counter[str]]


@pytest.fixture(scope="module")
def totals(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Totals, Totals]:
    """Return the true bytes and the computed ones, per cell and then per kind or group.

    Another program computes the same rows.
    """
    true: Totals = {}
    computed: Totals = {name: Counter() for name in CELLS}
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in CELLS:
        seen, true[name] = simulate(name, seed=7)
        for table, given in seen.items():
            rows.setdefault(table, []).extend(given)
    folder = tmp_path_factory.mktemp("snapshots")
    hours = partition_hours(stored(spark, rows, folder), EstimationOptions()).collect()
    connection = traffic_sql.connect(str(folder))
    expected = connection.execute(traffic_sql.partition_hours(connection)).fetchall()
    assert traffic_sql.differences(hours, expected) == ""
    for row in hours:
        if 0 <= (row.hour.timestamp() - BEGIN.timestamp()) // HOUR < HOURS:
            computed[row.cluster][row.group or row.kind] += row.bytes
    return true, computed


@pytest.mark.parametrize("name", CELLS)
def test_bytes_are_those_that_were_read(totals: tuple[Totals, Totals], name: str) -> None:
    true, computed = totals[0][name], totals[1][name]
    errors = {each: computed[each] / true[each] - 1 for each in sorted(true)}
    assert {each: round(error, 3) for each, error in errors.items() if abs(error) > 0.03} == {}
