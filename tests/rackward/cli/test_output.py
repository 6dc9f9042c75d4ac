"""Consoles, JSON and confirmation."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import typer
from rich.table import Table

import rackward
from placement_core import InvalidOptionError
from rackward.cli.options import LogFormat, RunOptions
from rackward.cli.output import (
    confirm,
    escape_controls,
    log_to_stderr,
    number,
    print_json,
    print_json_line,
    require_confirmation,
    stdout,
    table,
)
from tests.support.consoles import PIPE, rendered


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("orders-größe", "orders-größe"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("a\x9bb\x7f", "a\\x9bb\\x7f"),
        ("gro\u202eup", "gro\\u202eup"),
    ],
)
def test_control_characters_are_escaped(text: str, escaped: str) -> None:
    assert escape_controls(text) == escaped


def test_consoles_escape_control_characters_in_lines_and_cells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = table("name\nof the member", title="group \x1b[31m")
    rows.add_row("client\x07-1\x1b]0;title")
    console = stdout()
    console.print(rows)
    console.print("first line\nsecond \x1b[1m line", style="bold")
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "group \\x1b[31m" in shown
    assert "client\\x07-1\\x1b]0;title" in shown
    assert "first line\nsecond \\x1b[1m line" in shown


def test_json_has_no_control_characters_and_is_read_as_it_was(
    capsys: pytest.CaptureFixture[str],
) -> None:
    value = "a\x1b[31m\x7f\x9b1m\n\u2028\u202eb"
    print_json("groups explain", {"group": value})
    print_json_line("placement apply", "done", {"group": value})
    shown = capsys.readouterr().out
    assert all(line.isprintable() for line in shown.split("\n"))
    first, last = shown.rstrip("\n").rsplit("\n", 1)
    assert json.loads(first)["group"] == json.loads(last)["group"] == value


FORGED = "x\n2026-01-01 00:00:00,000 CRITICAL forged\r\x1b[31m\u2028\u202e"


def test_a_logged_message_is_one_short_line(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("rackward.topics.pending_replicas")
    with log_to_stderr("rackward"):
        log.warning("group=%s", FORGED)
        log.warning("group=%s", "g" * 32_768)
        log.info("%s", FORGED * 1000)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    for line, level in zip(lines, ("WARNING", "WARNING", "INFO"), strict=True):
        assert line.isprintable()
        assert f" {level} " in line[:40]
        assert len(line) < 4 * 2000
    assert "group=x\\n2026-01-01 00:00:00,000 CRITICAL forged\\r\\x1b[31m\\u2028\\u202e" in lines[0]


def test_json_logs_are_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr("rackward", LogFormat.JSON):
        try:
            raise OSError(FORGED)
        except OSError:
            logging.getLogger("rackward.lead").warning("group=%s", FORGED, exc_info=True)
        logging.getLogger("rackward.lead").info("%s", FORGED * 1000)
    lines = capsys.readouterr().err.splitlines()
    assert all(line.isprintable() for line in lines)
    warning, info = map(json.loads, lines)
    assert (warning["level"], warning["logger"]) == ("WARNING", "rackward.lead")
    assert warning["message"] == f"group={FORGED}"
    assert "OSError: x" in warning["exception"]
    assert datetime.fromisoformat(warning["time"]).utcoffset() == timedelta()
    assert (len(info["message"]), "exception" in info) == (2000, False)


def test_no_command_logs_with_another_handler() -> None:
    """The processes of measured groups write to a file, on a cluster started for that."""
    folder = Path(rackward.__file__).parent
    handlers = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(r"logging\.\w*Handler\(|basicConfig", path.read_text()) is not None
    }
    assert handlers - {"cli/main.py", "bench/groups.py"} == {"cli/output.py"}


def test_the_text_of_an_error_forges_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr("rackward"):
        try:
            raise OSError(FORGED * 1000)
        except OSError:
            logging.getLogger("rackward.placement_service").warning("failed", exc_info=True)
    first, *others = capsys.readouterr().err.splitlines()
    assert first.endswith(" WARNING failed")
    assert others
    assert all(line.isprintable() and line.startswith("  ") for line in others)
    assert all(len(line) < 4 * 2000 for line in others)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (None, "confirmation needed but stdin is not a terminal: pass --yes or --dry-run"),
        ("plan.json", "confirmation needed but stdin is not a terminal: pass --yes or --dry-run"),
        ("-", "confirmation needed but the plan is read from stdin: pass --yes or --dry-run"),
    ],
)
def test_commands_need_a_terminal_to_ask_for_confirmation(
    plan: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(InvalidOptionError, match=message):
        require_confirmation(RunOptions(), plan)
    require_confirmation(RunOptions(yes=True), plan)
    require_confirmation(RunOptions(dry_run=True), plan)


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_declining_exits_with_status_1(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    with pytest.raises(typer.Exit) as exit_info:
        confirm("Create topic orders?", yes=False)
    assert exit_info.value.exit_code == 1
    assert capsys.readouterr().err.endswith("Nothing was changed.\n")


def test_confirming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    confirm("Create topic orders?", yes=False)
    confirm("Create topic orders?", yes=True)


LONG = "payments.settlement.reconciliation-events.v2.eu-west-1"


def rows_of_groups() -> Table:
    rows = table("group", "client,\nassignor", number("off\nrack"), "notes")
    rows.add_row(LONG, "Java, range", "1,200", "a\nb")
    rows.add_row("", "librdkafka, an-assignor-of-a-long-name", "7", "")
    rows.add_row("c", "no members", "", "")
    return rows


def test_a_row_is_a_line_in_pipes() -> None:
    assert rendered(lambda console: console.print(rows_of_groups()), PIPE).splitlines() == [
        f"group{' ' * 51}client, assignor                        off rack  notes",
        f"{LONG}  Java, range                                1,200  a; b",
        f"{LONG}  librdkafka, an-assignor-of-a-long-name         7  -",
        f"c{' ' * 55}no members                                     -  -",
    ]


def test_names_are_whole_on_narrow_terminals() -> None:
    assert rendered(lambda console: console.print(rows_of_groups()), 60).splitlines() == [
        "group",
        "client,                                           off",
        "assignor                                         rack  notes",
        "─" * 60,
        LONG,
        "Java, range                                     1,200  a",
        "                                                       b",
        "librdkafka, an-assignor-of-a-long-name              7",
        "c",
        "no members",
    ]
