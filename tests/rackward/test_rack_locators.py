"""Rack locators that run a command or read a file."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

import pytest

from placement_core import InvalidOptionError
from placement_core.errors import LocatorError
from placement_core.locators import apply_locator
from rackward.rack_locators import CommandLocator, FileLocator, load_locator
from tests.support.placement import cluster
from tests.support.waiting import TEST_TIMEOUT

VIEW = cluster([None, None])


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *arguments)


def command_locator(code: str, *arguments: str) -> CommandLocator:
    """Return a locator with a long timeout."""
    return CommandLocator(python(code, *arguments), TEST_TIMEOUT)


def test_the_output_of_the_command_is_parsed() -> None:
    locator = command_locator("import sys; print(sys.argv[1])", '{"0": "a", "1": "b"}')
    assert apply_locator(locator, VIEW).racks() == {0: "a", 1: "b"}


def test_the_command_has_no_input_and_runs_for_each_call(tmp_path: Path) -> None:
    code = "import sys, pathlib; p = pathlib.Path(sys.argv[1]); "
    code += "p.write_text(p.read_text() + 'x'); print('0=' + p.read_text() + sys.stdin.read())"
    counted = tmp_path / "count"
    counted.write_text("")
    locator = command_locator(code, str(counted))
    assert [locator.racks(VIEW)[0] for _ in range(2)] == ["x", "xx"]


def test_from_properties() -> None:
    words = shlex.join(python("print('0=a b'); print('1=c')"))
    given = {"command": words, "timeout": f"{TEST_TIMEOUT:g}"}
    locator = load_locator("command", given)
    assert isinstance(locator, CommandLocator)
    assert locator.timeout == TEST_TIMEOUT
    assert locator.racks(VIEW) == {0: "a b", 1: "c"}


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "command is empty"),
        ({"command": ""}, "command is empty"),
        ({"command": "a 'b"}, "the property command cannot be read"),
        ({"command": "a", "timeout": "0"}, "timeout cannot be read: give seconds, more than 0"),
        ({"command": "a", "timeout": "inf"}, "timeout cannot be read: give seconds"),
        ({"command": "a", "timeout": "nan"}, "timeout cannot be read: give seconds"),
        ({"command": "a", "shell": "true"}, "command has no property shell"),
    ],
)
def test_invalid_properties_of_commands(properties: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        load_locator("command", properties)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise SystemExit(3)", "ended with status 3$"),
        ("raise SystemExit('first\\nno such zone')", "ended with status 1: no such zone$"),
        ("print('nonsense')", "is not valid: line 1, 'nonsense'"),
        ("import os; os.write(1, b'0=\\xff')", "is not valid: .*utf-8"),
        ("pass", "rack locator .*CommandLocator: the result is empty"),
        ("print('0=a' * (2 << 20))", "printed more than 4194304 bytes"),
    ],
)
def test_failing_commands(code: str, message: str) -> None:
    with pytest.raises(LocatorError, match=message) as error:
        apply_locator(command_locator(code, "secret"), VIEW)
    assert "secret" not in str(error.value)


SLOW = {
    "prints nothing": "import time; time.sleep(600)",
    "closes its output": "import os, time; os.close(1); os.close(2); time.sleep(600)",
    "leaves a child with its output": (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', "
        "'import time; time.sleep(600)']); print('0=a')"
    ),
}


@pytest.mark.parametrize("case", SLOW)
def test_commands_are_stopped_after_the_timeout(case: str) -> None:
    start = time.monotonic()
    with pytest.raises(LocatorError, match="took longer than 1 s and was stopped: make it faster"):
        apply_locator(CommandLocator(python(SLOW[case]), timeout=1), VIEW)
    assert time.monotonic() - start < TEST_TIMEOUT


# The file locator.

FILE_VIEW = cluster([None, None])
AB = {0: "a", 1: "b"}


@pytest.mark.parametrize("text", ["\ufeff0=a\n1=b\n", '{"0": "a", "1": "b"}', "0: a\n1: b\n"])
def test_a_file_has_lines_or_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "racks"
    path.write_text(text, encoding="utf-8")
    assert apply_locator(load_locator("file", {"path": str(path)}), FILE_VIEW).racks() == AB


def test_the_file_is_read_for_each_call(tmp_path: Path) -> None:
    path = tmp_path / "racks"
    locator = FileLocator(path)
    for racks in ("ab", "cd"):
        path.write_text("\n".join(f"{broker}={rack}" for broker, rack in enumerate(racks)))
        assert apply_locator(locator, FILE_VIEW).racks() == dict(enumerate(racks))


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "racks.json"
    locator = FileLocator(path)
    with pytest.raises(LocatorError, match=r"racks\.json cannot be read: No such file"):
        apply_locator(locator, FILE_VIEW)
    path.write_bytes(b"\xff")
    with pytest.raises(LocatorError, match="cannot be read: it is not UTF-8"):
        apply_locator(locator, FILE_VIEW)
    path.write_text("[]")
    with pytest.raises(LocatorError, match=r"racks\.json: line 1, '\[\]', is not of the form"):
        apply_locator(locator, FILE_VIEW)
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(LocatorError, match="larger than 16 MB"):
        apply_locator(locator, FILE_VIEW)
    with pytest.raises(LocatorError, match="cannot be read: Is a directory"):
        apply_locator(FileLocator(tmp_path), FILE_VIEW)


def test_invalid_properties_of_files() -> None:
    with pytest.raises(InvalidOptionError, match="file needs the property path"):
        load_locator("file")
    with pytest.raises(InvalidOptionError, match="file has no property format"):
        load_locator("file", {"path": "x", "format": "xml"})
