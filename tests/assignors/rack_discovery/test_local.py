"""Racks out of what commands print."""

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
from tests.support.waiting import PATIENCE, search_patiently


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


# ---- Racks out of files, as Kubernetes mounts them and as people mistake them.

LABELS = """app="billing"
pod-template-hash="5d4f"
topology.kubernetes.io/region="us-east-1"
topology.kubernetes.io/zone="use1-az4"
zone-of-others="b\\"\\u00e9"
"""


def ask(text: str) -> str:
    return FileSource.named(text).ask(1.0)


@pytest.mark.parametrize(
    "content", ["use1-az4", "use1-az4\n", "\n  use1-az4 \r\n\n", "\ufeffuse1-az4"]
)
def test_the_rack_alone(tmp_path: Path, content: str) -> None:
    file = tmp_path / "zone"
    file.write_text(content, encoding="utf-8")
    assert ask(str(file)) == "use1-az4"


@pytest.mark.parametrize(
    ("key", "value"),
    [("topology.kubernetes.io/zone", "use1-az4"), ("app", "billing"), ("zone-of-others", 'b"é')],
)
def test_a_label(tmp_path: Path, key: str, value: str) -> None:
    file = tmp_path / "labels"
    file.write_text(LABELS)
    assert ask(f"{file}#{key}") == value


def test_a_path_with_a_number_sign(tmp_path: Path) -> None:
    file = tmp_path / "a#b"
    file.write_text("use1-az4")
    assert ask(f"{file}#") == "use1-az4"
    file.write_text(LABELS)
    assert ask(f"{file}#app") == "billing"


@pytest.mark.parametrize(
    ("content", "key", "told"),
    [
        (b"", "", "is empty"),
        (b" \n\n", "", "is empty"),
        (LABELS.encode(), "", "5 lines or labels where the rack alone is needed"),
        (b'app="billing"', "", "name one as FILE#KEY"),
        (b"first\nsecond", "", "2 lines"),
        (b"\xff\xfe", "", "is not UTF-8"),
        (b"\x00" * (11 << 20), "", "more than 1 MB"),
        (LABELS.encode(), "zone", 'has no line KEY="VALUE"'),
        (b"", "zone", "has no line KEY"),
        (b"zone=a", "zone", "no value in double quotes"),
        (b'zone="a', "zone", "no value in double quotes"),
        (b"zone=" + b"[" * 100_000, "zone", "no value in double quotes"),
        (b"zone", "zone", "no value in double quotes"),
    ],
)
def test_files_that_will_not_do(tmp_path: Path, content: bytes, key: str, told: str) -> None:
    file = tmp_path / "odd"
    file.write_bytes(content)
    with pytest.raises(SourceError, match=told) as error:
        ask(f"{file}#{key}" if key else str(file))
    # It may be a file of secrets that was named by mistake.
    assert "billing" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"No such file or directory.: mount it"):
        ask(str(tmp_path / "absent"))
    with pytest.raises(SourceError, match="Is a directory"):
        ask(str(tmp_path))
    with pytest.raises(SourceError, match="it is no path"):
        ask("a\0b")


def test_a_file_is_bounded_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "endless"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(SourceError, match="more than 1 MB"):
        ask(str(file))


def test_names() -> None:
    assert FileSource.named("/etc/podinfo/zone").name == "file /etc/podinfo/zone"
    assert FileSource.named("/l#topology.kubernetes.io/zone").name == (
        "file /l#topology.kubernetes.io/zone"
    )
    assert FileSource.named("/a\nb" + "x" * 500).name.isprintable()
