"""The command ``rackward traffic report``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

import rackward.cli.main
from rack_traffic.report.export import SCHEMAS
from tests.support.traffic_report import Sample, platform


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return platform(6, 30, clusters=("main",)).write(tmp_path_factory.mktemp("tables"))


class Run(NamedTuple):
    """The exit status of a command and what it printed."""

    status: int
    out: str
    err: str


@pytest.fixture
def report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Run]:
    """Return a function that runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def run(*arguments: object) -> Run:
        monkeypatch.setattr("sys.argv", ["rackward", "traffic", "report", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            rackward.cli.main.main()
        code = ended.value.code
        return Run(code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


def test_without_options_the_page_has_the_default_name(
    tables: Path, tmp_path: Path, report: Callable[..., Run]
) -> None:
    done = report(tables, "--title", "Ours & theirs", "--currency", "EUR")
    assert [each.name for each in tmp_path.iterdir()] == ["rack-traffic.html"]
    page = (tmp_path / "rack-traffic.html").read_text()
    assert "<title>Ours &amp; theirs</title>" in page
    assert "EUR " in page
    assert (done.status, done.out, done.err.split(" (")[0]) == (0, "", "Wrote rack-traffic.html")


def test_json_and_parquet_have_the_same_content(
    tables: Path, tmp_path: Path, report: Callable[..., Run]
) -> None:
    data = json.loads(report(tables, "--json", "--parquet", "out").out)
    assert (data["schema_version"], data["command"]) == (1, "traffic report")
    assert data["headline"].startswith("68.")
    assert "the first 3 of 6 changes would together save $" in data["headline"]
    assert sum(each["saving_per_month"] for each in data["changes"]) == pytest.approx(
        data["saving_per_month"], abs=1e-5
    )
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert {each.stem for each in (tmp_path / "out").iterdir()} == set(SCHEMAS)
    for name in SCHEMAS:
        rows = pq.read_table(tmp_path / "out" / f"{name}.parquet").to_pylist()
        assert len(rows) == len(data[name] or ())
    groups = pq.read_table(tmp_path / "out" / "groups.parquet").to_pylist()
    for row, shape in zip(groups, data["groups"], strict=True):
        assert row["group"] == shape["group"]
        assert row["saving_per_month"] == shape["change"]["saving_per_month"]
        assert row["text"] == shape["change"]["text"]


def test_the_period_is_in_utc_without_a_time_zone(tables: Path, report: Callable[..., Run]) -> None:
    period = ("--since", "2026-11-14T03:00+01:00", "--until", "2026-11-14T04:00")
    data = json.loads(report(tables, "--json", *period).out)
    assert data["period"] == {"since": "2026-11-14T02:00:00Z", "until": "2026-11-14T04:00:00Z"}


def test_the_page_is_opened_in_a_browser(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Callable[..., Run]
) -> None:
    opened = Mock(return_value=True)
    monkeypatch.setattr("webbrowser.open", opened)
    page = tmp_path / "a page.html"
    assert report(tables, "--open", "--output", page).status == 0
    opened.assert_called_once_with(page.as_uri())
    assert 20_000 < page.stat().st_size < 400_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to report on"),
        (["absent"], "there is no hourly table in absent"),
        (["TABLES", "--since", "yesterday"], "--since 'yesterday' is not a time"),
        (["TABLES", "--since", "2026-11-15", "--until", "2026-11-14"], "before it begins"),
        (["TABLES", "--currency", "doubloons"], "--currency 'doubloons'"),
        (["TABLES", "--currency", " "], "--currency ' '"),
        (["TABLES", "--output", "absent/page.html"], "the folder absent does not exist"),
        (["TABLES", "--parquet", "/dev/null/x"], "cannot write tables to /dev/null/x"),
        (["TABLES", "--output", "/dev"], "cannot write /dev"),
        (["TABLES", "--ranking", "absent"], "cannot read the ranking table in absent"),
    ],
)
def test_an_error_is_one_line_and_status_2(
    tables: Path, tmp_path: Path, report: Callable[..., Run], arguments: list[str], message: str
) -> None:
    done = report(*(tables if each == "TABLES" else each for each in arguments))
    assert message in done.err
    assert done.err.startswith("rackward: ")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert list(tmp_path.iterdir()) == []


def test_empty_tables_give_a_page(tmp_path: Path, report: Callable[..., Run]) -> None:
    folder = Sample().write(tmp_path / "empty")
    data = json.loads(report(folder, "-o", "page.html", "--json").out)
    assert "No traffic was measured in this period" in (tmp_path / "page.html").read_text()
    assert (data["groups"], data["rejected_rows"], data["period"]["since"]) == ([], [], None)
