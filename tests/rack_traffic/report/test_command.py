"""``rackward traffic report`` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import rackward.cli.main
from rack_traffic.report.export import SCHEMAS
from tests.support.traffic_report import Sample, platform


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The exit status of the command with ``arguments``."""
    monkeypatch.setattr(
        "sys.argv", ["rackward", "traffic", "report", *(str(each) for each in arguments)]
    )
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        rackward.cli.main.main()
    code = ended.value.code
    return code if isinstance(code, int) else 0


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return platform(6, 30, clusters=("main",)).write(tmp_path_factory.mktemp("tables"))


def test_a_page_alone_goes_to_the_usual_name(
    tables: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, tables, "--title", "Ours & theirs", "--currency", "EUR") == 0
    assert [each.name for each in tmp_path.iterdir()] == ["rack-traffic.html"]
    page = (tmp_path / "rack-traffic.html").read_text()
    assert "<title>Ours &amp; theirs</title>" in page
    assert "EUR " in page
    told = capsys.readouterr()
    assert (told.out, told.err.split(" (")[0]) == ("", "Wrote rack-traffic.html")


def test_json_and_parquet_tell_the_same_and_write_no_page(
    tables: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, tables, "--json", "--parquet", "out") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["schema_version"], told["command"]) == (1, "traffic report")
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert {each.stem for each in (tmp_path / "out").iterdir()} == set(SCHEMAS)
    for name in SCHEMAS:
        rows = pq.read_table(tmp_path / "out" / f"{name}.parquet").to_pylist()
        assert len(rows) == len(told[name])
    groups = pq.read_table(tmp_path / "out" / "groups.parquet").to_pylist()
    for row, shape in zip(groups, told["groups"], strict=True):
        assert row["group"] == shape["group"]
        assert row["saving_per_month"] == shape["change"]["saving_per_month"]
        assert row["text"] == shape["change"]["text"]


def test_the_period_is_in_utc_unless_it_says_otherwise(
    tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    period = ("--since", "2026-11-14T03:00+01:00", "--until", "2026-11-14T04:00")
    assert run(monkeypatch, tables, "--json", *period) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["period"] == {"since": "2026-11-14T02:00:00Z", "until": "2026-11-14T03:00:00Z"}


def test_the_page_is_opened_where_it_was_written(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def opening(uri: str) -> bool:
        opened.append(uri)
        return True

    monkeypatch.setattr("webbrowser.open", opening)
    page = tmp_path / "page of ours.html"
    assert run(monkeypatch, tables, "--open", "--output", page) == 0
    assert opened == [page.as_uri()]
    assert page.stat().st_size > 10**6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to report on"),
        (["absent"], "there is no hourly table in absent"),
        (["TABLES", "--since", "yesterday"], "--since 'yesterday' is no time"),
        (["TABLES", "--since", "2026-11-15", "--until", "2026-11-14"], "before it begins"),
        (["TABLES", "--currency", "doubloons"], "--currency 'doubloons'"),
        (["TABLES", "--currency", " "], "--currency ' '"),
        (["TABLES", "--output", "absent/page.html"], "there is no folder absent"),
        (["TABLES", "--parquet", "/dev/null/x"], "cannot write tables to /dev/null/x"),
        (["TABLES", "--output", "/dev"], "cannot write /dev"),
        (["TABLES", "--ranking", "absent"], "cannot read the ranking table in absent"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_status_2(
    tables: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(tables) if each == "TABLES" else each for each in arguments]
    assert run(monkeypatch, *given) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.startswith("rackward: ")
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert list(tmp_path.iterdir()) == []


def test_empty_tables_make_a_page_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Sample().write(tmp_path / "empty")
    assert run(monkeypatch, folder, "-o", tmp_path / "page.html", "--json") == 0
    assert "No traffic was measured in this period" in (tmp_path / "page.html").read_text()
    told = json.loads(capsys.readouterr().out)
    assert (told["groups"], told["set_aside"], told["period"]["since"]) == ([], [], None)


def test_the_help_documents_the_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--help") == 0
    told = capsys.readouterr().out
    for word in ('"cost_per_month_now"', "rack-traffic.html", "--until", "Exit status"):
        assert word in told
