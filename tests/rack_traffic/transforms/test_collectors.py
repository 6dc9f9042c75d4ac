"""Which collector's rows count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from rack_traffic.transforms.collectors import one_collector, several_collectors
from tests.support.traffic_frames import assert_frames_equal

BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)
ROWS = "cluster string, topic string, taken_at timestamp, collector string"


def test_one_collector(spark: SparkSession) -> None:
    def of(topic: str, collector: str | None, *minutes: int) -> list[tuple[object, ...]]:
        return [("c", topic, BEGIN + timedelta(minutes=each), collector) for each in minutes]

    counting = [
        # Three of six rows are enough; two of five are not.
        *of("t", "a", 0, 4, 8),
        *of("t", "b", 10, 12, 14, 16, 18),
        # Each collector has topics of its own.
        *of("u", "b", 3),
        *of("v", None, 4),
    ]
    others = [*of("t", "b", 0, 1, 3, 5, 7, 9), *of("t", "a", 11, 19)]
    given = spark.createDataFrame([*counting, *others], ROWS)
    expected = spark.createDataFrame(counting, ROWS)
    assert_frames_equal(one_collector(given, ("cluster", "topic")), expected)


def test_several_collectors(spark: SparkSession) -> None:
    def several(*collectors: tuple[str, str | None]) -> bool:
        rows = [(cluster, "t", BEGIN, collector) for cluster, collector in collectors]
        return several_collectors(spark.createDataFrame(rows, ROWS))

    assert several(("c", "a"), ("c", "b"))
    # Of other clusters, or before and after an update of the collector.
    assert not several(("c", "a"), ("d", "b"), ("c", None))
