"""The bytes of intervals between commits."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from rack_traffic.options import EstimationOptions
from rack_traffic.transforms.consumption import consumption
from rack_traffic.transforms.partition_states import BOUNDARIES, DENSITIES
from tests.support.traffic_frames import assert_frames_equal

SECOND = 1_000_000
LOG = (
    "topic_hash:bigint, leader_rack:string, in_sync_racks:array<string>, start_offset:bigint, "
    "end_offset:bigint"
)
OWNER = "owned:boolean, rack:string, sends_rack:boolean"
RANGES = ", ".join(
    [
        "newest_density:double, oldest_density:double",
        *(f"{name}:bigint" for name in BOUNDARIES),
        *(f"{name}:double" for name in DENSITIES),
        "compacted_below:bigint",
    ]
)
INTERVALS = (
    "series_hash bigint, cluster string, topic string, partition int, group string, "
    "from_at bigint, to_at bigint, from_offset bigint, to_offset bigint, "
    f"from_state struct<{LOG}>, to_state struct<{LOG}, {RANGES}>, "
    f"from_owner struct<{OWNER}>, to_owner struct<{OWNER}>"
)
CONSUMPTION = (
    "topic string, to_at bigint, from_rack string, from_rack_after string, to_rack string, "
    "to_rack_after string, bytes double, estimated boolean, unsized_offsets bigint"
)
OWNED = (True, "x", True)
NOT_OWNED = (False, None, None)


def interval(
    topic: str,
    seconds: tuple[int, int],
    offsets: tuple[int, int],
    *,
    topic_hash: int = 1,
    start_offset: int = 0,
    sized: bool = True,
    compacted_below: int | None = None,
    owners: tuple[Any, Any] = (OWNED, None),
) -> tuple[object, ...]:
    """Return an interval over a log that ends at offset 100 at both times.

    Bytes per offset are 1 below offset 50, 4 from there to 100, and 10 from 100 on.
    """
    densities = (10.0, 1.0, *[50] * 5, *[4.0] * 5)
    ranges = densities if sized else (None,) * len(densities)
    return (
        *(7, "c", topic, 0, "g", seconds[0] * SECOND, seconds[1] * SECOND, *offsets),
        (1, "a", None, 0, 100),
        (topic_hash, "b", None, start_offset, 100, *ranges, compacted_below),
        *owners,
    )


def test_consumption(spark: SparkSession) -> None:
    rows = [
        interval("lags", (0, 60), (40, 110)),
        interval("compacted", (0, 60), (40, 110), compacted_below=50),
        interval("not compacted", (0, 60), (50, 110), compacted_below=50),
        interval("reset", (0, 60), (100, 106)),
        interval("reset", (60, 120), (106, 100)),
        interval("reset", (120, 180), (100, 112)),
        interval("recreated", (0, 60), (100, 110), topic_hash=2),
        interval("skipped", (0, 60), (10, 110), start_offset=60),
        interval("not owned", (0, 60), (100, 110), owners=(NOT_OWNED, NOT_OWNED)),
        interval("new owner", (0, 60), (100, 110), owners=(OWNED, (True, "y", None))),
        interval("too fast", (0, 60), (100, 100_000)),
        interval("unsized", (0, 60), (100, 110), sized=False),
        interval("long gap", (0, 7200), (100, 110)),
    ]
    racks = ("a", "b", "x", "x")
    expected = [
        # 10 offsets of 1 byte, 50 of 4 bytes, and 10 of 10 bytes.
        ("lags", 60, *racks, 310.0, False, 0),
        ("compacted", 60, *racks, 310.0, True, 0),
        ("not compacted", 60, *racks, 300.0, False, 0),
        ("reset", 60, *racks, 60.0, False, 0),
        # The mean of 1 and 2 bytes per second.
        ("reset", 120, *racks, 90.0, True, 0),
        ("reset", 180, *racks, 120.0, False, 0),
        ("recreated", 60, *racks, 0.0, True, 0),
        ("skipped", 60, *racks, 0.0, True, 0),
        ("new owner", 60, "a", "b", "x", "y", 100.0, False, 0),
        ("too fast", 60, *racks, 0.0, True, 0),
        ("unsized", 60, *racks, 0.0, False, 10),
        ("long gap", 7200, *racks, 0.0, False, 10),
    ]
    options = EstimationOptions(max_gap_hours=1.0, max_bytes_per_second=1000.0)
    result = consumption(spark.createDataFrame(rows, INTERVALS), options).select(
        *(column.strip().split()[0] for column in CONSUMPTION.split(","))
    )
    in_microseconds = [(topic, to_at * SECOND, *values) for topic, to_at, *values in expected]
    assert_frames_equal(result, spark.createDataFrame(in_microseconds, CONSUMPTION))
