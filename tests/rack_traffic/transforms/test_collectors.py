"""Which observations of several collectors are older than their clocks say."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from rack_traffic.transforms.collectors import is_outdated, neighbours

Observed = list[tuple[str | None, int]]
"""Collector and offset, in the order of the collectors' clocks."""

CASES: dict[str, tuple[Observed, list[int]]] = {
    "one collector, reset": ([("a", 10), ("a", 5), ("a", 20)], []),
    "of unknown collectors, reset": ([(None, 10), (None, 5), (None, 20)], []),
    "two collectors in order": ([("a", 10), ("b", 15), ("a", 20), ("b", 25)], []),
    "b is ahead": ([("a", 10), ("b", 25), ("a", 20), ("b", 35), ("a", 30)], [20]),
    "b is ahead, and continues": (
        [("b", 25), ("a", 20), ("b", 35), ("a", 30), ("b", 45)],
        [20, 30],
    ),
    "b is ahead of several": (
        [("b", 40), ("a", 10), ("a", 20), ("a", 30), ("b", 70)],
        [10, 20, 30],
    ),
    "b has recorded no more": ([("a", 10), ("b", 25), ("a", 20), ("a", 30)], []),
    "three collectors": ([("c", 90), ("a", 60), ("b", 75), ("c", 150)], [60, 75]),
    "both see a reset": ([("a", 10), ("b", 15), ("a", 2), ("b", 7), ("a", 12), ("b", 17)], []),
    "a sees a reset, and b the same offset again": (
        [("a", 10), ("b", 15), ("a", 5), ("b", 15), ("a", 20)],
        [],
    ),
    "a collector is replaced during a reset": ([("a", 10), ("a", 20), ("b", 5), ("b", 15)], []),
    "equal offsets": ([("a", 10), ("b", 10), ("a", 10), ("b", 10)], []),
}


@pytest.fixture(scope="module")
def outdated(spark: SparkSession) -> dict[str, list[int]]:
    rows = [
        (name, place, collector, offset)
        for name, (observed, _) in CASES.items()
        for place, (collector, offset) in enumerate(observed)
    ]
    given = spark.createDataFrame(rows, "case string, at int, collector string, offset bigint")
    by_time = Window.partitionBy("case").orderBy("at")
    hashed = given.withColumn("collector_hash", F.xxhash64("collector"))
    found = hashed.select("case", "offset", "collector_hash", *neighbours(by_time, "offset"))
    found = found.filter(is_outdated("offset"))
    result: dict[str, list[int]] = {name: [] for name in CASES}
    for row in found.collect():
        result[row["case"]].append(row["offset"])
    return result


@pytest.mark.parametrize("case", CASES)
def test_outdated_observations(outdated: dict[str, list[int]], case: str) -> None:
    assert sorted(outdated[case]) == CASES[case][1]
