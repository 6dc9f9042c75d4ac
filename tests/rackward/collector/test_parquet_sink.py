from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

from rack_traffic.snapshot_tables import SNAPSHOT_TABLES, arrow_schema
from rackward.collector import SinkError
from rackward.collector.parquet_sink import ParquetSink
from tests.support.snapshots import AT, snapshot


def read(root: Path, table: str) -> pa.Table:
    return dataset.dataset(root / table, partitioning="hive", format="parquet").to_table()


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out")
    given = snapshot()
    assert sink.write(given)
    for table, rows in given.tables.items():
        found = read(tmp_path / "out", table).drop_columns(["date"])
        assert found.schema.equals(arrow_schema(table)), table
        assert [tuple(row.values()) for row in found.to_pylist()] == list(rows)


def test_a_cluster_without_groups_has_all_tables_nevertheless(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    full = snapshot()
    quiet = replace(full, tables={**full.tables, "members": [], "commits": []})
    for _ in range(2):
        sink.write(quiet)
    assert len(list(tmp_path.glob("members/*/*.parquet"))) == 1
    found = read(tmp_path, "commits")
    assert found.num_rows == 0
    assert found.drop_columns(["date"]).schema.equals(arrow_schema("commits"))
    assert not (tmp_path / "client_reports").exists()


def test_folders_are_named_after_the_date_of_each_row(tmp_path: Path) -> None:
    midnight = datetime(2026, 11, 21, 23, 59, 59, tzinfo=UTC)
    ParquetSink(tmp_path).write(snapshot(at=midnight, commits_at=midnight + timedelta(seconds=2)))
    assert [folder.name for folder in (tmp_path / "brokers").iterdir()] == ["date=2026-11-21"]
    assert [folder.name for folder in (tmp_path / "commits").iterdir()] == ["date=2026-11-22"]


def test_names_of_clusters_do_no_harm(tmp_path: Path) -> None:
    odd = ["../../etc", "a b", "east", "_hidden", ".hidden", "a/b", "a_b", "x" * 300]
    sink = ParquetSink(tmp_path / "out")
    for name in odd:
        sink.write(snapshot(name))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 4 * len(odd)
    assert all(file.is_relative_to(tmp_path / "out") for file in files)
    assert sorted(read(tmp_path / "out", "brokers")["cluster"].to_pylist()) == sorted(odd)
    for name in odd:
        assert sink.last(name) == AT.timestamp()
    assert sink.last("eas") is None


def test_the_latest_snapshot_is_found_again(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    assert sink.last("east") is None
    for hours in (30, 0, 2):
        sink.write(snapshot(at=AT + timedelta(hours=hours)))
    assert ParquetSink(tmp_path).last("east") == (AT + timedelta(hours=30)).timestamp()


def test_several_snapshots_share_a_file(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path, per_file=3)
    kept = [sink.write(snapshot(at=AT + timedelta(minutes=n))) for n in range(4)]
    assert kept == [False, False, True, False]
    assert read(tmp_path, "brokers").num_rows == 3
    assert len(list(tmp_path.glob("brokers/*/*.parquet"))) == 1
    sink.flush()
    assert read(tmp_path, "brokers").num_rows == 4
    sink.close()
    with pytest.raises(SinkError, match="closed"):
        sink.write(snapshot())
    assert len(list(tmp_path.glob("brokers/*/*.parquet"))) == 2


def test_many_writers_share_a_folder(tmp_path: Path) -> None:
    def write(number: int) -> None:
        sink = ParquetSink(tmp_path)
        for n in range(5):
            sink.write(snapshot(f"c{number % 2}", AT + timedelta(seconds=n)))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(tmp_path, "brokers").num_rows == 30
    assert read(tmp_path, "commits").num_rows == 90


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = ParquetSink(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SinkError, match="No space left on device"):
        sink.write(snapshot())
    monkeypatch.undo()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert sink.write(snapshot())


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="file"):
        ParquetSink(tmp_path / "file" / "out")


WRITER = """
import sys
from datetime import timedelta
from pathlib import Path
from rackward.collector.parquet_sink import ParquetSink
from tests.support.snapshots import AT, snapshot
sink = ParquetSink(Path(sys.argv[1]))
for n in range(10_000):
    sink.write(snapshot(at=AT + timedelta(seconds=n), partitions=5_000))
    print(n, flush=True)
"""


def test_a_killed_writer_leaves_whole_files_only(tmp_path: Path) -> None:
    for turn in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline().strip() == "0"
            # Somewhere in the second snapshot or after: each kill elsewhere.
            threading.Event().wait(0.02 * turn)
        finally:
            writer.send_signal(signal.SIGKILL)
            writer.wait(60)
            if writer.stdout is not None:
                writer.stdout.close()
    for table in ("brokers", "partitions", "members", "commits"):
        files = list(tmp_path.glob(f"{table}/*/snapshot-*.parquet"))
        assert len(files) >= 2
        for file in files:
            rows = parquet.read_table(file).num_rows
            assert rows == {"brokers": 1, "members": 2}.get(table, 5_000)
    left = list(tmp_path.rglob(".unfinished-*"))
    # Young leftovers may be another collector's work; old ones nobody's.
    ParquetSink(tmp_path)
    assert [path for path in left if path.exists()] == left
    for path in left:
        os.utime(path, (0, 0))
    ParquetSink(tmp_path)
    assert not list(tmp_path.rglob(".unfinished-*"))


def test_every_table_has_columns_for_arrow() -> None:
    for table, columns in SNAPSHOT_TABLES.items():
        assert arrow_schema(table).names == list(columns)
