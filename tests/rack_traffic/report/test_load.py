"""Reading the pipeline's tables: what is accepted, and errors of one line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

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


def write(path: Path, *values: object) -> Path:
    write_deltalake(path, pa.table({"x": list(values)}))
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path / "absent", "there is no Delta table"),
        (lambda path: write(path, 1), "has no column y"),
    ],
)  # fmt: skip
def test_an_unreadable_table_is_one_line(tmp_path: Path, make: object, message: str) -> None:
    path = make(tmp_path)  # type: ignore[operator]
    with pytest.raises(InputError, match=message) as caught:
        InputTable("numbers", str(path), {"x": pa.int64(), "y": pa.int64()})
    assert "\n" not in str(caught.value)


def test_a_column_of_another_type_is_one_line(tmp_path: Path) -> None:
    table = InputTable("numbers", str(write(tmp_path, "many")), ONE)
    with pytest.raises(InputError, match="cannot read the numbers table"):
        list(table.batches())


def test_replaced_files_of_a_table_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, 1, 2)
    write_deltalake(tmp_path, pa.table({"x": [3]}), mode="overwrite")
    for path in (str(tmp_path), f"file://{tmp_path}"):
        assert [rows["x"].to_pylist() for rows in InputTable("n", path, ONE).batches()] == [[3]]


def test_no_error_contains_the_password_of_a_url() -> None:
    with pytest.raises(InputError) as caught:
        InputTable("hourly", "nosuch://user:hunter2@host/path", ONE)
    assert "hunter2" not in str(caught.value)
    assert "nosuch://***@host/path" in str(caught.value)


def test_tables_given_by_name_override_the_folder(tmp_path: Path) -> None:
    for name in ("hourly", "ranking"):
        write(tmp_path / name, 1)
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
