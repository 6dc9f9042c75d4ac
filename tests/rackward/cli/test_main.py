"""The command line: help, version, errors in one line, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import rackward.cli.main
from placement_core import RackwardError
from tests.support.waiting import PATIENCE

PLAIN = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}


def rackward_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rackward.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
        env=PLAIN,
    )


def test_version() -> None:
    answer = rackward_command("--version")
    assert (answer.returncode, answer.stdout) == (0, "rackward 0.1.0\n")


def test_help_teaches() -> None:
    answer = rackward_command("demo", "--help")
    assert answer.returncode == 0
    for word in ("--bootstrap-server", "--seed", '"crossing_bytes": int', "Exit status: 0; 1"):
        assert word in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["demo", "--partitions", "5"], "--partitions"),
        (["demo", "--cluster", "moon"], "moon"),
        (["demo", "--bootstrap-server", "x:1", "--cluster", "docker"], "exclude each other"),
        (["nonsense"], "nonsense"),
    ],
)
def test_bad_usage_is_exit_status_2(arguments: list[str], said: str) -> None:
    answer = rackward_command(*arguments)
    assert answer.returncode == 2
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_json_file_that_cannot_be_written_is_said_before_anything_starts(
    tmp_path: Path,
) -> None:
    answer = rackward_command("demo", "--json", str(tmp_path / "absent" / "out.json"))
    assert answer.returncode == 2
    assert answer.stderr.startswith("rackward: --json ")
    assert answer.stderr.count("\n") == 1
    # Whatever is started is told of there, and first of all the cluster.
    assert answer.stdout == ""


def test_a_rackward_error_becomes_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise RackwardError("broker 3 is on fire: put it out")

    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(rackward.cli.main, "app", fail)
    try:
        with pytest.raises(SystemExit) as exit_info:
            rackward.cli.main.main()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert exit_info.value.code == 2
    assert capsys.readouterr().err == "rackward: broker 3 is on fire: put it out\n"


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_with_its_own_status(signum: int, status: int) -> None:
    code = (
        "import sys, time, rackward.cli.main as cli\n"
        "def app(**_):\n"
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
        # A second one must not break off the clean-up.
        process.send_signal(signum)
        out, err = process.communicate("go on\n", timeout=PATIENCE)
    assert process.returncode == status
    assert out == "cleaned up\n"
    assert "cleaning up" in err
    assert "Traceback" not in err
