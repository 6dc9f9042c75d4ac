"""Snapshots in Parquet files, and as messages."""

from __future__ import annotations

import json
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

from rack_traffic.tables import SNAPSHOT_TABLES, arrow_schema
from rackward.collector import ParquetSink, SinkError
from rackward.collector.sinks import to_messages, to_values
from tests.support.traffic_frames import AT, snapshot


@pytest.fixture(autouse=True)
def a_file_per_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rackward.collector.sinks.SNAPSHOTS_PER_FILE", 1)


def read(root: Path, table: str) -> pa.Table:
    return dataset.dataset(root / table, partitioning="hive", format="parquet").to_table()


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out")
    original = snapshot()
    sink.write(original)
    for table, rows in original.tables.items():
        result = read(tmp_path / "out", table).drop_columns(["date"])
        assert result.schema.equals(arrow_schema(table)), table
        assert [tuple(row.values()) for row in result.to_pylist()] == list(rows)


def test_empty_tables_are_written_once(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    full = snapshot()
    empty = replace(full, tables={**full.tables, "members": [], "commits": []})
    for _ in range(2):
        sink.write(empty)
    assert len(list(tmp_path.glob("members/*/*.parquet"))) == 1
    result = read(tmp_path, "commits")
    assert result.num_rows == 0
    assert result.drop_columns(["date"]).schema.equals(arrow_schema("commits"))


def test_rows_are_partitioned_by_date(tmp_path: Path) -> None:
    midnight = datetime(2026, 11, 21, 23, 59, 59, tzinfo=UTC)
    ParquetSink(tmp_path).write(snapshot(at=midnight, commits_at=midnight + timedelta(seconds=2)))
    assert [folder.name for folder in (tmp_path / "brokers").iterdir()] == ["date=2026-11-21"]
    assert [folder.name for folder in (tmp_path / "commits").iterdir()] == ["date=2026-11-22"]


def test_unusual_names_of_clusters(tmp_path: Path) -> None:
    names = ["../../etc", "a b", "east", "_hidden", ".hidden", "a/b", "a_b", "x" * 300]
    sink = ParquetSink(tmp_path / "out")
    for name in names:
        sink.write(snapshot(name))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 4 * len(names)
    assert all(file.is_relative_to(tmp_path / "out") for file in files)
    assert sorted(read(tmp_path / "out", "brokers")["cluster"].to_pylist()) == sorted(names)
    for name in names:
        assert sink.last(name) == AT.timestamp()
    assert sink.last("eas") is None


def test_the_time_of_the_last_snapshot_is_read_from_the_files(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    assert sink.last("east") is None
    for hours in (30, 0, 2):
        sink.write(snapshot(at=AT + timedelta(hours=hours)))
    assert ParquetSink(tmp_path).last("east") == (AT + timedelta(hours=30)).timestamp()


def test_several_snapshots_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rackward.collector.sinks.SNAPSHOTS_PER_FILE", 3)
    sink = ParquetSink(tmp_path)
    written = []
    for n in range(5):
        sink.write(snapshot(at=AT + timedelta(minutes=n)))
        written.append(read(tmp_path, "brokers").num_rows)
    assert written == [1, 1, 1, 4, 4]
    assert len(list(tmp_path.glob("brokers/*/*.parquet"))) == 2
    sink.flush()
    assert read(tmp_path, "brokers").num_rows == 5
    sink.close()
    with pytest.raises(SinkError, match="closed"):
        sink.write(snapshot())
    assert len(list(tmp_path.glob("brokers/*/*.parquet"))) == 3


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


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = ParquetSink(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SinkError, match="No space left on device"):
        sink.write(snapshot())
    monkeypatch.undo()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    sink.write(snapshot())
    assert read(tmp_path, "brokers").num_rows == 1


def test_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="file"):
        ParquetSink(tmp_path / "file" / "out")


WRITER = """
import sys
from datetime import timedelta
from pathlib import Path
from rackward.collector import ParquetSink, sinks
from tests.support.traffic_frames import AT, snapshot
sinks.SNAPSHOTS_PER_FILE = 1
sink = ParquetSink(Path(sys.argv[1]))
for n in range(10_000):
    sink.write(snapshot(at=AT + timedelta(seconds=n), partitions=5_000))
    print(n, flush=True)
"""


def test_a_killed_writer_leaves_only_complete_files(tmp_path: Path) -> None:
    for attempt in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline().strip() == "0"
            # Kill at different points of the second snapshot or later.
            threading.Event().wait(0.02 * attempt)
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
    unfinished = list(tmp_path.rglob(".unfinished-*"))
    # Recent files may be those of another collector.
    ParquetSink(tmp_path)
    assert [path for path in unfinished if path.exists()] == unfinished
    for path in unfinished:
        os.utime(path, (0, 0))
    ParquetSink(tmp_path)
    assert not list(tmp_path.rglob(".unfinished-*"))


# ---- Messages.


def test_messages_of_a_snapshot() -> None:
    messages = list(to_messages(snapshot()))
    assert [key for key, _ in messages] == [
        b"east/brokers",
        b"east/partitions",
        b"east/members",
        b"east/commits",
    ]
    for key, value in messages:
        message = json.loads(value)
        assert message["table"] == key.decode().partition("/")[2]
        for row in message["rows"]:
            assert list(row) == list(SNAPSHOT_TABLES[message["table"]])
    members = json.loads(messages[2][1])["rows"]
    assert members[0]["assignment"] == [{"topic": "orders", "partitions": [0, 1]}]
    assert members[0]["taken_at"] == "2026-11-21T12:00:00.123Z"
    assert members[1]["member_id"] is None


def test_messages_are_limited_in_size() -> None:
    rows = snapshot(partitions=500).tables["commits"]
    values = list(to_values("commits", rows, max_bytes=2000))
    assert len(values) > 10
    assert max(map(len, values)) <= 2000
    numbers = [row["partition"] for value in values for row in json.loads(value)["rows"]]
    assert numbers == list(range(500))
    # A row that is larger than the limit has a message of its own.
    assert len(list(to_values("commits", rows[:3], max_bytes=10))) == 3
    assert list(to_values("commits", [])) == []
