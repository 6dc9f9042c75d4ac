"""Racks out of what commands print."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

import pytest

from assignors.discovery import SourceError, discover
from assignors.discovery.command import CommandSource
from placement_core import InvalidOptionError
from tests.assignors.discovery.patience import PATIENCE, search_patiently


def python(code: str, *arguments: str) -> CommandSource:
    return CommandSource((sys.executable, "-c", code, *arguments), timeout=PATIENCE)


def test_the_first_line() -> None:
    assert python("print(' use1-az4 '); print('and more')").ask(PATIENCE).strip() == "use1-az4"
    assert python("print('\\n\\nuse1-az4\\r')").ask(PATIENCE).strip() == "use1-az4"


def test_no_shell_reads_it() -> None:
    line = shlex.join([sys.executable, "-c", "import sys; print(sys.argv[1])", "$HOME;`ls`|*"])
    assert discover(f"command:{line}").ask(PATIENCE) == "$HOME;`ls`|*"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("pass", "answered nothing"),
        ("print(' \\n\\n ')", "answered nothing"),
        ("print('<html>')", "looks like a page"),
        ("print('{\"error\": 1}')", "looks like a page"),
        ("print('x' * 300)", "answered 300 characters"),
        ("print('a\\x1b[31mb')", "cannot be printed"),
        ("import os; os.write(1, b'\\xff\\xfe')", "printed what is not UTF-8"),
        ("while True: print('x' * 9999)", "printed more than 65536 bytes and was stopped"),
        ("import os\nwhile True: os.write(2, b'x' * 9999)", "printed more than 65536 bytes"),
        ("raise SystemExit('no\\nsuch zone')", "ended with status 1: such zone"),
        ("import os; os.write(2, b'\\x1b[31m'); raise SystemExit(3)", r"status 3: \x1b[31m"),
    ],
)
def test_commands_that_fail(code: str, told: str) -> None:
    (failure,) = search_patiently([python(code, "secret")]).failures
    assert told in failure.why
    assert "secret" not in failure.why + failure.source
    assert failure.source == f"command {sys.executable}"


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(SourceError, match=r"^cannot be run: No such file or directory$"):
        CommandSource(("no-such-program",)).ask(1)


def test_it_is_killed_with_its_children(tmp_path: Path) -> None:
    late = tmp_path / "late"
    child = f"import time, pathlib; time.sleep(2); pathlib.Path({str(late)!r}).touch()"
    code = (
        f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]);"
        " time.sleep(60)"
    )
    with pytest.raises(SourceError, match=r"took longer than 0\.7 s and was stopped: let it write"):
        python(code).ask(0.7)
    time.sleep(2.5)
    assert not late.exists()


@pytest.mark.parametrize("name", ["command:", "command: ", "command:a 'b", "command"])
def test_commands_that_cannot_be_meant(name: str) -> None:
    with pytest.raises(InvalidOptionError):
        discover(name)
    with pytest.raises(InvalidOptionError, match="has no endpoint"):
        discover("command:x", endpoint="http://x")
