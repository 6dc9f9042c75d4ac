"""Reading the pipeline's tables: what is accepted, and errors of one line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rack_traffic import schemas
from rack_traffic.errors import InputError
from rack_traffic.output_tables import OUTPUT_TABLES
from rack_traffic.report.aggregate import RunningSums
from rack_traffic.report.load import COLUMNS, InputTable, find_tables

ONE = {"x": pa.int64()}


def test_the_columns_are_those_of_the_pipelines_tables() -> None:
    for name, columns in COLUMNS.items():
        assert set(columns) <= set(OUTPUT_TABLES[name])
    for name, schema in (
        ("hourly", schemas.HOURLY),
        ("what_if", schemas.WHAT_IF),
        ("ranking", schemas.RANKING),
        ("rejected_rows", schemas.REJECTED_ROWS),
    ):
        assert list(OUTPUT_TABLES[name]) == schema.names


def numbers(path: Path) -> list[int]:
    batches = InputTable("numbers", str(path), ONE).batches()
    return sorted(value for rows in batches for value in rows["x"].to_pylist())


def write(folder: Path, name: str, *values: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": list(values)}), folder / name)
    return folder


def test_an_empty_folder_is_an_empty_table(tmp_path: Path) -> None:
    assert numbers(tmp_path) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "absent", "it does not exist"),
        (lambda folder: write(folder, "a.parquet", 1), "has no column y"),
        (lambda folder: [(folder / "a.parquet").write_bytes(b"no"), folder][1], "cannot read"),
    ],
)  # fmt: skip
def test_an_unreadable_table_is_one_line(tmp_path: Path, make: object, message: str) -> None:
    path = make(tmp_path)  # type: ignore[operator]
    with pytest.raises(InputError, match=message) as caught:
        list(InputTable("numbers", str(path), {"x": pa.int64(), "y": pa.int64()}).batches())
    assert "\n" not in str(caught.value)


def test_a_column_of_another_type_is_one_line(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": ["many"]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="cannot read the numbers table"):
        numbers(tmp_path)


def test_no_error_contains_the_password_of_a_url() -> None:
    with pytest.raises(InputError) as caught:
        InputTable("hourly", "nosuch://user:hunter2@host/path", ONE)
    assert "hunter2" not in str(caught.value)
    assert "nosuch://***@host/path" in str(caught.value)


def test_tables_given_by_name_override_the_folder(tmp_path: Path) -> None:
    (tmp_path / "hourly").mkdir()
    (tmp_path / "ranking").mkdir()
    tables = find_tables(f"{tmp_path}/", {"ranking": "elsewhere", "what_if": None})
    assert (tables.hourly, tables.ranking, tables.what_if) == (
        f"{tmp_path}/hourly",
        "elsewhere",
        None,
    )
    with pytest.raises(InputError, match=r"no hourly table in .*absent"):
        find_tables(str(tmp_path / "absent"), {})
    with pytest.raises(InputError, match="nothing to report on"):
        find_tables(None, {})


def test_compaction_does_not_change_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rack_traffic.report.aggregate._ROWS_TO_COMPACT", 3)
    sums = RunningSums(("key",), ("value",))
    for number in range(40):
        sums.add(pa.table({"key": [str(number % 7), None], "value": pa.array([number, None])}))
    result = {row["key"]: row["value"] for row in sums.result()}
    assert result.pop(None) is None
    assert result == {str(key): sum(range(key, 40, 7)) for key in range(7)}
    assert RunningSums(("key",), ("value",)).result() == []
