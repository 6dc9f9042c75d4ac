"""Racks from the output of commands and from files."""

from __future__ import annotations

import shlex
import socket
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from assignors.rack_discovery import SourceError, discover
from assignors.rack_discovery.local import CommandSource, FileSource
from placement_core import InvalidOptionError
from tests.support.rack_sources import search_with_long_timeouts
from tests.support.waiting import TEST_TIMEOUT


def python(code: str, *arguments: str) -> CommandSource:
    return CommandSource((sys.executable, "-c", code, *arguments), timeout=TEST_TIMEOUT)


def test_the_first_line_of_the_output_is_the_rack() -> None:
    assert (
        python("print(' use1-az4 '); print('and more')").find_rack(TEST_TIMEOUT).strip()
        == "use1-az4"
    )
    assert python("print('\\n\\nuse1-az4\\r')").find_rack(TEST_TIMEOUT).strip() == "use1-az4"


def test_a_command_runs_without_a_shell() -> None:
    line = shlex.join([sys.executable, "-c", "import sys; print(sys.argv[1])", "$HOME;`ls`|*"])
    assert discover(f"command:{line}").find_rack(TEST_TIMEOUT) == "$HOME;`ls`|*"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("pass", "returned nothing"),
        ("print(' \\n\\n ')", "returned nothing"),
        ("print('<html>')", "looks like an HTML page"),
        ("print('{\"error\": 1}')", "looks like an HTML page"),
        ("print('x' * 300)", "returned 300 characters"),
        ("print('a\\x1b[31mb')", "unprintable"),
        ("import os; os.write(1, b'\\xff\\xfe')", "printed text that is not UTF-8"),
        ("while True: print('x' * 9999)", "printed more than 65536 bytes and was stopped"),
        ("import os\nwhile True: os.write(2, b'x' * 9999)", "printed more than 65536 bytes"),
        ("raise SystemExit('no\\nsuch zone')", "ended with status 1: such zone"),
        ("import os; os.write(2, b'\\x1b[31m'); raise SystemExit(3)", r"status 3: \x1b[31m"),
    ],
)
def test_commands_that_fail(code: str, message: str) -> None:
    (failure,) = search_with_long_timeouts([python(code, "secret")]).failures
    assert message in failure.reason
    assert "secret" not in failure.reason + failure.source
    assert failure.source == f"command {sys.executable}"


def test_a_missing_program() -> None:
    with pytest.raises(SourceError, match=r"^cannot be run: No such file or directory$"):
        CommandSource(("no-such-program",)).find_rack(1)


def test_a_slow_command_is_killed_with_its_children() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        # The child keeps a connection open for as long as it runs.
        port = server.getsockname()[1]
        child = (
            f"import socket, time; it = socket.create_connection(('127.0.0.1', {port}));"
            " time.sleep(600)"
        )
        code = (
            f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]);"
            " time.sleep(600)"
        )
        connection = None
        for seconds in (0.7, 7.0, TEST_TIMEOUT):  # A busy machine may start the child late.
            message = rf"took longer than {seconds:g} s and was stopped: have it write"
            with pytest.raises(SourceError, match=message):
                python(code).find_rack(seconds)
            with suppress(BlockingIOError):
                connection, _ = server.accept()
                break
        assert connection is not None
        with connection:
            connection.settimeout(TEST_TIMEOUT)
            assert connection.recv(1) == b""


@pytest.mark.parametrize("name", ["command:", "command: ", "command:a 'b", "command"])
def test_invalid_commands_are_refused(name: str) -> None:
    with pytest.raises(InvalidOptionError):
        discover(name)
    with pytest.raises(InvalidOptionError, match="has no endpoint"):
        discover("command:x", endpoint="http://x")


# Files.

LABELS = """app="billing"
pod-template-hash="5d4f"
topology.kubernetes.io/region="us-east-1"
topology.kubernetes.io/zone="use1-az4"
other-zone="b\\"\\u00e9"
"""


def read(path: str) -> str:
    return FileSource.parse(path).find_rack(1.0)


@pytest.mark.parametrize(
    "content", ["use1-az4", "use1-az4\n", "\n  use1-az4 \r\n\n", "\ufeffuse1-az4"]
)
def test_a_file_with_the_rack_alone(tmp_path: Path, content: str) -> None:
    file = tmp_path / "zone"
    file.write_text(content, encoding="utf-8")
    assert read(str(file)) == "use1-az4"


@pytest.mark.parametrize(
    ("key", "value"),
    [("topology.kubernetes.io/zone", "use1-az4"), ("app", "billing"), ("other-zone", 'b"é')],
)
def test_a_file_with_labels(tmp_path: Path, key: str, value: str) -> None:
    file = tmp_path / "labels"
    file.write_text(LABELS)
    assert read(f"{file}#{key}") == value


def test_a_path_with_a_number_sign(tmp_path: Path) -> None:
    file = tmp_path / "a#b"
    file.write_text("use1-az4")
    assert read(f"{file}#") == "use1-az4"
    file.write_text(LABELS)
    assert read(f"{file}#app") == "billing"


@pytest.mark.parametrize(
    ("content", "key", "message"),
    [
        (b"", "", "is empty"),
        (b" \n\n", "", "is empty"),
        (LABELS.encode(), "", "5 lines or labels instead of the rack alone"),
        (b'app="billing"', "", "give one as FILE#KEY"),
        (b"first\nsecond", "", "2 lines"),
        (b"\xff\xfe", "", "is not UTF-8"),
        (b"\x00" * (11 << 20), "", "larger than 1 MB"),
        (LABELS.encode(), "zone", 'has no line KEY="VALUE"'),
        (b"", "zone", "has no line KEY"),
        (b"zone=a", "zone", "no value in double quotes"),
        (b'zone="a', "zone", "no value in double quotes"),
        (b"zone=" + b"[" * 100_000, "zone", "no value in double quotes"),
        (b"zone", "zone", "no value in double quotes"),
    ],
)
def test_files_with_other_content(tmp_path: Path, content: bytes, key: str, message: str) -> None:
    file = tmp_path / "rack"
    file.write_bytes(content)
    with pytest.raises(SourceError, match=message) as caught:
        read(f"{file}#{key}" if key else str(file))
    # The path may be that of a file of secrets, by mistake.
    assert "billing" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"No such file or directory.: mount the file"):
        read(str(tmp_path / "absent"))
    with pytest.raises(SourceError, match="Is a directory"):
        read(str(tmp_path))
    with pytest.raises(SourceError, match="not a valid path"):
        read("a\0b")


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "endless"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(SourceError, match="larger than 1 MB"):
        read(str(file))


def test_names_of_file_sources() -> None:
    assert FileSource.parse("/etc/podinfo/zone").name == "file /etc/podinfo/zone"
    assert FileSource.parse("/l#topology.kubernetes.io/zone").name == (
        "file /l#topology.kubernetes.io/zone"
    )
    assert FileSource.parse("/a\nb" + "x" * 500).name.isprintable()
