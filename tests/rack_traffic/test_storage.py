"""Reading snapshots: which files are opened, and files of other versions of the collector."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rack_traffic.schemas import SNAPSHOTS
from rack_traffic.session import SMALL_BYTES, is_small
from rack_traffic.storage import date_folders, read_snapshots
from tests.support.traffic_frames import frame

DAY = datetime(2026, 3, 2, tzinfo=UTC)


def write_brokers(root: Path, at: datetime, **columns: object) -> None:
    """Write a file with one row as a collector does; its columns are those given and the time."""
    folder = root / "brokers" / f"date={at:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    times = pa.array([at], pa.timestamp("us", tz="UTC"))
    table = pa.table({name: [value] for name, value in columns.items()} | {"taken_at": times})
    pq.write_table(table, folder / f"snapshot-{len(list(folder.iterdir()))}.parquet")


@pytest.mark.parametrize(
    ("since", "until"), [(DAY, None), (DAY, DAY.replace(hour=12)), (DAY.replace(hour=1), None)]
)
def test_files_of_other_dates_are_not_opened(
    spark: SparkSession, tmp_path: Path, since: datetime, until: datetime | None
) -> None:
    write_brokers(tmp_path, DAY.replace(hour=2), cluster="c", broker=pa.scalar(1, pa.int32()))
    damaged = tmp_path / "brokers" / "date=2026-03-01" / "snapshot.parquet"
    damaged.parent.mkdir()
    damaged.write_bytes(b"no Parquet")
    rows = read_snapshots(spark, str(tmp_path), "brokers", since, until)
    assert [row["broker"] for row in rows.collect()] == [1]


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_replaced_files_of_a_delta_table_are_not_read(
    spark: SparkSession, tmp_path: Path, scheme: str
) -> None:
    root = f"{scheme}{tmp_path}"
    rows = frame(spark, "brokers", [{"cluster": "c", "broker": 1, "taken_at": DAY}])
    for _ in range(2):
        rows.write.format("delta").mode("overwrite").save(f"{root}/brokers")
    assert read_snapshots(spark, root, "brokers").count() == 1
    assert not is_small("dbfs:/snapshots")


def test_a_column_that_a_file_lacks_is_null(spark: SparkSession, tmp_path: Path) -> None:
    one, two = pa.scalar(1, pa.int32()), pa.scalar(2, pa.int32())
    write_brokers(tmp_path, DAY, cluster="c", broker=one, newer="x")
    write_brokers(tmp_path, DAY, cluster="c", broker=two, rack="a")
    rows = read_snapshots(spark, str(tmp_path), "brokers")
    assert rows.schema.names == [*SNAPSHOTS["brokers"].names, "date"]
    assert {row["broker"]: row["rack"] for row in rows.collect()} == {1: None, 2: "a"}


def test_dates_are_listed_if_there_are_any(tmp_path: Path) -> None:
    assert date_folders(str(tmp_path / "none")) == []
    for name in ("date=2026-03-02", "date=2026-03-01", "other"):
        (tmp_path / name).mkdir()
    assert date_folders(str(tmp_path)) == ["date=2026-03-01", "date=2026-03-02"]


def test_a_folder_is_small_up_to_a_size(tmp_path: Path) -> None:
    folder = tmp_path / "commits" / "date=2026-03-01"
    folder.mkdir(parents=True)
    assert is_small(str(tmp_path))
    (folder / "one.parquet").write_bytes(b"x" * (SMALL_BYTES - 1))
    (tmp_path / "two.parquet").write_bytes(b"x")
    assert is_small(str(tmp_path))
    (tmp_path / "two.parquet").write_bytes(b"xx")
    assert not is_small(str(tmp_path))
    assert not is_small(f"file://{folder.parent}")
