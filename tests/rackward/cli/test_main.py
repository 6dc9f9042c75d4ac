"""The root command: help, version, errors in one line, signals, completion."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import rackward.cli.main
from placement_core import RackwardError
from tests.support.waiting import TEST_TIMEOUT

PLAIN = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}


def python(
    *arguments: str, out: Any = subprocess.PIPE, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run an interpreter with further environment variables."""
    return subprocess.run(
        [sys.executable, *arguments],
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        timeout=2 * TEST_TIMEOUT,
        check=False,
        env={**PLAIN, **variables},
    )


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert rackward.cli.main.run(["--version"]) == 0
    assert capsys.readouterr().out == "rackward 0.1.0\n"


# Packages of other extras than cli.
OTHER_PACKAGES = (
    *("pyspark", "pandas", "pyarrow", "jinja2", "yaml", "prometheus_client"),
    *("confluent_kafka", "aiokafka", "docker", "testcontainers"),
)


def commands(group: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a group and all groups and commands below it, each with its path."""
    yield path, group
    if hasattr(group, "list_commands"):
        context = typer.Context(group)
        for name in group.list_commands(context):
            yield from commands(group.get_command(context, name), *path, name)


def all_commands() -> list[tuple[tuple[str, ...], Any]]:
    return [*commands(typer.main.get_command(rackward.cli.main.app))]


def test_help_lists_whole_sentences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    groups = {path: each for path, each in all_commands() if hasattr(each, "list_commands")}
    assert {(), ("topics",), ("placement",)} <= groups.keys()
    for path, group in groups.items():
        assert rackward.cli.main.run([*path, "--help"]) == 0
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines())) <= 80
        # A line for each command; longer summaries continue on indented lines.
        listed = shown.split("Commands:")[1].split("\n\n")[0]
        rows = re.findall(r"^  ([a-z-]+)  +(.+(?:\n {6,}.+)*)", listed, re.MULTILINE)
        assert [name for name, _ in rows] == group.list_commands(typer.Context(group))
        assert all(text.endswith(".") and not text.endswith("...") for _, text in rows)


def test_the_json_of_commands_is_in_the_reference() -> None:
    """That of traffic is tables of another package."""
    without = {
        path[0]
        for path, command in all_commands()
        if any("--json" in option.opts for option in command.params)
        and not getattr(command.callback, "results", ())
    }
    assert without == {"traffic"}


def test_help_of_every_command_needs_only_the_extra_cli() -> None:
    pages = [path for path, _ in all_commands()]
    assert len(pages) > len(rackward.cli.main.COMMANDS)
    code = f"""
import sys
for name in {OTHER_PACKAGES!r}:
    sys.modules[name] = None
from rackward.cli.main import app
for page in {pages!r}:
    app([*page, "--help"], standalone_mode=False)
"""
    done = python("-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage: ") == len(pages)
    # No types of Python, no comparisons, no floats that are whole.
    assert not re.findall(r"<[a-z]+\[|<str>|<=x|x>=|default: \d+\.0[;\]]", done.stdout)
    assert "0.1 to 3600]" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--partitions", "5"], "--partitions"),
        (["demo", "--cluster", "moon"], "moon"),
        (["nonsense"], "nonsense"),
        # The folder is checked before a cluster is started.
        (["demo", "--output", "/no/such/folder/out.json"], "--output /no/such/folder/out.json"),
    ],
)
def test_usage_errors_are_a_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rackward.cli.main.run(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("rackward: ")
    assert message in err


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            RackwardError("broker 3 in rack \x1b[31m is on fire: put it out"),
            "broker 3 in rack \\x1b[31m is on fire: put it out",
        ),
        (OSError(28, "No space left on device", "plan.json"), "plan.json: No space left on device"),
        (MemoryError(), "out of memory"),
        (
            KeyError("a\nb"),
            "unexpected KeyError: 'a\\nb' (rackward --debug shows where)",
        ),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_an_error_is_one_line_with_a_traceback_for_debug(
    error: Exception,
    line: str,
    debug: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr("rackward.cli.rack.sources", fail)
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    assert rackward.cli.main.run([*(["--debug"] if debug else []), "rack"]) == 2
    *traceback, last = capsys.readouterr().err.splitlines()
    assert last == f"rackward: {line}"
    assert ("  Traceback (most recent call last):" in traceback) is debug
    assert bool(traceback) is debug


def test_a_full_disk_and_threads_that_fail_print_no_traceback(tmp_path: Path) -> None:
    code = (
        "import sys, threading, rackward.cli.main as cli\n"
        "def app(*_, **__):\n"
        "    thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()\n"
        "    print('\\u4e2d', '\\udcff')\n"
        "cli.app = app\n"
        "cli.main()\n"
    )
    for path, status in ((tmp_path / "out", 0), (Path("/dev/full"), 2)):
        with path.open("w") as out:
            done = python("-c", code, out=out, PYTHONIOENCODING="ascii")
        first, *rest = done.stderr.splitlines()
        assert (done.returncode, first.count("ZeroDivisionError")) == (status, 1)
        assert rest == (["rackward: No space left on device"] if status else [])
    assert (tmp_path / "out").read_text() == "\\u4e2d \\udcff\n"


def test_a_closed_pipe_is_no_negative_result() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        done = python("-m", "rackward.cli.main", "--version", out=pipe)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_sets_the_exit_status_after_the_clean_up(signum: int, status: int) -> None:
    code = (
        "import sys, time, rackward.cli.main as cli\n"
        "def app(*_, **__):\n"
        "    try:\n"
        "        print('ready', flush=True); time.sleep(600)\n"
        "    finally:\n"
        "        print('cleaning', flush=True); sys.stdin.readline()\n"
        "        print('cleaned up', flush=True)\n"
        "cli.app = app\n"
        "cli.main()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signum)
        assert process.stdout.readline() == "cleaning\n"
        # A second signal must not interrupt the clean-up.
        process.send_signal(signum)
        out, err = process.communicate("go on\n", timeout=TEST_TIMEOUT)
    assert process.returncode == status
    assert out == "cleaned up\n"
    assert "cleaning up" in err
    assert "Traceback" not in err


def test_ctrl_c_during_imports_ends_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    process = subprocess.Popen(
        [sys.executable, "-c", "from rackward.cli import run; run()"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**PLAIN, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TEST_TIMEOUT)
    assert (process.returncode, err) == (-signal.SIGINT, "")


MAIN = "import sys; sys.argv[0] = 'rackward'; import rackward.cli.main as c; c.main()"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_each_shell(shell: str) -> None:
    undetected = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = python("-c", MAIN, "--show-completion", shell, **undetected).stdout
    assert "_RACKWARD_COMPLETE=complete_" + shell in script
    if shutil.which(shell):
        # -n: parse it, do not run it.
        subprocess.run([shell, "-n"], input=script, text=True, timeout=60, check=True)


def completed(words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Complete the last of the words of a command line."""
    typed = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    return python("-c", MAIN, _RACKWARD_COMPLETE="complete_bash", **typed, **variables)


def test_completion_of_a_subcommand() -> None:
    assert completed("rackward topics cre").stdout.split() == ["create"]
    assert completed("rackward audit --sort m").stdout.split() == ["members"]


@pytest.mark.parametrize("words", ["rackward audit bil", "rackward placement check --topics a,b"])
@pytest.mark.parametrize("servers", ["127.0.0.1:1", "nonsense", ""])
def test_completion_without_a_cluster_is_silent(words: str, servers: str, tmp_path: Path) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text("bootstrap_server = ")
    file = {} if servers else {"RACKWARD_CONFIG_FILE": str(settings)}
    done = completed(words, RACKWARD_BOOTSTRAP_SERVER=servers, **file)
    assert (done.stdout.strip(), done.stderr) == ("", "")
