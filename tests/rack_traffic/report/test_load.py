"""What is read, what is refused in one line, and what a killed stream left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rack_traffic import schemas
from rack_traffic.report import aggregate as what_if_totals
from rack_traffic.report import load as tables
from rack_traffic.report.aggregate import RunningSums
from rack_traffic.report.load import InputTable, ReportInputError, sources_in

ONE = {"x": pa.int64()}


def test_the_columns_are_those_of_the_pipelines_tables() -> None:
    """Without Spark running: its types are plain values."""
    kinds = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64()}
    for columns, schema in (
        (tables.HOURLY, schemas.HOURLY),
        (tables.WHAT_IF, schemas.WHAT_IF),
        (tables.RANKING, schemas.RANKING),
        (tables.SET_ASIDE, schemas.SET_ASIDE),
    ):
        theirs = {each.name: each.dataType.simpleString() for each in schema}
        for name, kind in columns.items():
            if theirs[name] == "timestamp":
                assert pa.types.is_timestamp(kind)
            elif theirs[name] == "int":
                assert kind in (pa.int32(), pa.int64())
            else:
                assert kinds[theirs[name]] == kind, name
    assert what_if_totals.SCENARIO_ORDER == schemas.SCENARIOS


def numbers(where: Path) -> list[int]:
    found = InputTable("numbers", str(where), ONE).batches()
    return sorted(value for rows in found for value in rows["x"].to_pylist())


def write(folder: Path, name: str, *values: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": list(values)}), folder / name)
    return folder


def log(folder: Path, name: str, *files: str, action: str = "add") -> None:
    lines = [
        json.dumps({"path": f"file:///elsewhere/{file}", "size": 1, "action": action})
        for file in files
    ]
    (folder / "_spark_metadata").mkdir(exist_ok=True)
    (folder / "_spark_metadata" / name).write_text("\n".join(["v1", *lines]))


def test_files_that_a_stream_never_committed_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, "part-0.parquet", 1)
    write(tmp_path / "date=2026-11-14", "part 1.parquet", 2)
    write(tmp_path, "part-2-killed.parquet", 1)
    assert numbers(tmp_path) == [1, 1, 2]
    log(tmp_path, "0", "part-0.parquet")
    log(tmp_path, "1", "date=2026-11-14/part%201.parquet")
    assert numbers(tmp_path) == [1, 2]


def test_a_compacted_log_stands_for_all_before_it(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, f"part-{number}.parquet", number)
    log(tmp_path, "0", "part-3.parquet")
    log(tmp_path, "9.compact", "part-0.parquet", "part-1.parquet")
    log(tmp_path, "10", "part-2.parquet")
    log(tmp_path, "11", "part-1.parquet", action="delete")
    assert numbers(tmp_path) == [0, 2]


def test_a_stream_that_committed_nothing_yet_is_empty(tmp_path: Path) -> None:
    write(tmp_path, "part-0.parquet", 1)
    (tmp_path / "_spark_metadata").mkdir()
    assert numbers(tmp_path) == []


def test_an_empty_folder_is_an_empty_table(tmp_path: Path) -> None:
    assert numbers(tmp_path) == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: folder / "absent", "there is nothing there"),
        (lambda folder: write(folder, "a.parquet", 1), "has no column y"),
        (lambda folder: [(folder / "a.parquet").write_bytes(b"no"), folder][1], "cannot read"),
        (
            lambda folder: [(folder / "_spark_metadata").mkdir(),
                            (folder / "_spark_metadata" / "0").write_text("nonsense"), folder][-1],
            "unknown version",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_line(tmp_path: Path, make: object, said: str) -> None:
    where = make(tmp_path)  # type: ignore[operator]
    with pytest.raises(ReportInputError, match=said) as caught:
        list(InputTable("numbers", str(where), {"x": pa.int64(), "y": pa.int64()}).batches())
    assert "\n" not in str(caught.value)


def test_a_column_of_another_kind_is_one_line(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": ["many"]}), tmp_path / "a.parquet")
    with pytest.raises(ReportInputError, match="cannot read the numbers table"):
        numbers(tmp_path)


def test_no_password_of_a_uri_is_told() -> None:
    with pytest.raises(ReportInputError) as caught:
        InputTable("hourly", "nosuch://user:hunter2@host/path", ONE)
    assert "hunter2" not in str(caught.value)
    assert "nosuch://***@host/path" in str(caught.value)


def test_tables_given_by_name_win_over_the_folders(tmp_path: Path) -> None:
    (tmp_path / "hourly").mkdir()
    (tmp_path / "ranking").mkdir()
    found = sources_in(f"{tmp_path}/", {"ranking": "elsewhere", "what_if": None})
    assert (found.hourly, found.ranking, found.what_if) == (
        f"{tmp_path}/hourly",
        "elsewhere",
        None,
    )
    with pytest.raises(ReportInputError, match=r"no hourly table in .*absent"):
        sources_in(str(tmp_path / "absent"), {})
    with pytest.raises(ReportInputError, match="nothing to report on"):
        sources_in(None, {})


def test_sums_stay_right_when_they_are_put_together_on_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rack_traffic.report.aggregate._ROWS_TO_COMPACT", 3)
    sums = RunningSums(("key",), ("value",))
    for number in range(40):
        sums.add(pa.table({"key": [str(number % 7), None], "value": pa.array([number, None])}))
    told = {row["key"]: row["value"] for row in sums.result()}
    assert told.pop(None) is None
    assert told == {str(key): sum(range(key, 40, 7)) for key in range(7)}
    assert RunningSums(("key",), ("value",)).result() == []
