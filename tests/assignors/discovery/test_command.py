"""Racks out of what commands print."""

from __future__ import annotations

import shlex
import socket
import sys
from contextlib import suppress

import pytest

from assignors.discovery import SourceError, discover
from assignors.discovery.command import CommandSource
from integration.waiting import PATIENCE
from placement_core import InvalidOptionError
from tests.assignors.discovery.patience import search_patiently


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


def test_it_is_killed_with_its_children() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        # Its connection lasts as long as it lives.
        port = server.getsockname()[1]
        child = (
            f"import socket, time; it = socket.create_connection(('127.0.0.1', {port}));"
            " time.sleep(600)"
        )
        code = (
            f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]);"
            " time.sleep(600)"
        )
        born = None
        for seconds in (0.7, 7.0, PATIENCE):  # A busy machine may not have begun it so soon.
            told = rf"took longer than {seconds:g} s and was stopped: let it write"
            with pytest.raises(SourceError, match=told):
                python(code).ask(seconds)
            with suppress(BlockingIOError):
                born, _ = server.accept()
                break
        assert born is not None
        with born:
            born.settimeout(PATIENCE)
            assert born.recv(1) == b""


@pytest.mark.parametrize("name", ["command:", "command: ", "command:a 'b", "command"])
def test_commands_that_cannot_be_meant(name: str) -> None:
    with pytest.raises(InvalidOptionError):
        discover(name)
    with pytest.raises(InvalidOptionError, match="has no endpoint"):
        discover("command:x", endpoint="http://x")
