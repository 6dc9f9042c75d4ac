"""Readers of compacted logs: exact near the end, and marked as estimates behind the cleaner."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from rack_traffic.options import EstimationOptions
from rack_traffic.pipeline import partition_hours
from tests.support.oracles import traffic_sql
from tests.support.traffic_frames import stored

BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)
HISTORY, MINUTES, SEGMENT = 120, 120, 10
LAGS = (2, 8, 20, 40, 70)
"""Minutes that each group lags."""

Cell = tuple[str, str]
"""Cluster and group."""


def simulate() -> tuple[dict[str, list[dict[str, Any]]], dict[Cell, float]]:
    """Return snapshots of logs, one a minute, and the bytes of each group after ``HISTORY``.

    A log's cleaner runs every 15 or 40 minutes: it leaves a share of the bytes of the segments that
    were closed since, and nine tenths of those that it cleaned before.
    """
    rng = np.random.default_rng(3)
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in traffic_sql.TABLES}
    true: dict[Cell, float] = {}
    for left, every in product((0.2, 0.5, 0.8), (15, 40)):
        cluster = f"{left:.0%} of {every} minutes"
        records = rng.integers(80, 120, HISTORY + MINUTES)
        sizes = records * 100 * (1 + 0.2 * np.sin(np.arange(HISTORY + MINUTES) / 25))
        offsets = np.concatenate([[0], np.cumsum(records)])
        first = {"cluster": cluster, "taken_at": BEGIN - timedelta(minutes=HISTORY)}
        rows["brokers"].append(first | {"broker": 0, "rack": "a"})
        cleaned = 0
        for minute in range(HISTORY + MINUTES):
            if minute % every == every - 1:
                closed = minute // SEGMENT * SEGMENT
                sizes[:cleaned] *= 0.9
                sizes[cleaned:closed] *= left
                cleaned = max(cleaned, closed)
            at = BEGIN + timedelta(minutes=minute - HISTORY)
            of_log = {"cluster": cluster, "topic": "t", "partition": 0, "taken_at": at}
            log = {"topic_id": "x", "leader": 0, "replicas": [0], "start_offset": 0}
            ends = {
                "end_offset": int(offsets[minute + 1]),
                "size_bytes": int(sizes[: minute + 1].sum()),
            }
            rows["partitions"].append(of_log | log | ends)
            for lag in LAGS:
                if minute < lag:
                    continue
                offset = int(offsets[minute - lag + 1])
                rows["commits"].append(of_log | {"group": f"{lag}", "committed_offset": offset})
                if minute > HISTORY:
                    cell = (cluster, f"{lag}")
                    true[cell] = true.get(cell, 0.0) + float(sizes[minute - lag])
    return rows, true


@pytest.fixture(scope="module")
def cells(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[Cell, tuple[float, float]]:
    """Return the relative error of each group's bytes, and the share that is estimated."""
    rows, true = simulate()
    folder = tmp_path_factory.mktemp("snapshots")
    hours = partition_hours(stored(spark, rows, folder), EstimationOptions()).collect()
    connection = traffic_sql.connect(str(folder))
    expected = connection.execute(traffic_sql.partition_hours(connection)).fetchall()
    assert traffic_sql.differences(hours, expected) == ""
    return errors(true, [tuple(row) for row in hours])


def errors(
    true: dict[Cell, float], hours: Iterable[tuple[Any, ...]]
) -> dict[Cell, tuple[float, float]]:
    computed, estimated = dict.fromkeys(true, 0), dict.fromkeys(true, 0)
    for cluster, kind, group, _, _, hour, _, _, size, guessed, *_ in hours:
        seconds = hour.timestamp() if isinstance(hour, datetime) else hour
        if kind == "consume" and seconds >= BEGIN.timestamp():
            computed[cluster, group] += size
            estimated[cluster, group] += guessed
    return {
        cell: (computed[cell] / size - 1, estimated[cell] / computed[cell])
        for cell, size in true.items()
    }


def test_the_newest_records_are_exact(cells: dict[Cell, tuple[float, float]]) -> None:
    newest = {cell: each for cell, each in cells.items() if cell[1] == "2"}
    assert len(newest) == 6
    assert {cell: each for cell, each in newest.items() if abs(each[0]) > 0.02 or each[1]} == {}


def test_what_may_be_wrong_is_marked(cells: dict[Cell, tuple[float, float]]) -> None:
    assert 0.3 < max(abs(error) for error, _ in cells.values()) < 0.5
    wrong = {cell: each for cell, each in cells.items() if abs(each[0]) > 0.03}
    assert len(wrong) > 10
    assert {cell for cell, (_, estimated) in wrong.items() if estimated < 0.04} == set()
