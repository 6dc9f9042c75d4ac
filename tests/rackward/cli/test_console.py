"""Consoles, JSON and confirmation."""

from __future__ import annotations

import io
import sys

import pytest
import typer

from placement_core import InvalidOptionError
from rackward.cli.console import (
    confirm,
    escape_controls,
    require_confirmation,
    stdout,
    table,
)


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
    rows = table("group \x1b[31m")
    rows.add_column("name\nof the member")
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
        require_confirmation(False, False, plan)
    require_confirmation(True, False, plan)
    require_confirmation(False, True, plan)


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
