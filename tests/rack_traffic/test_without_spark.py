"""Without PySpark, errors name the missing extra, and help works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WITHOUT = "import sys; sys.modules['pyspark'] = None; import rackward.cli.main as it; it.main()"


def rackward(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments], check=False, capture_output=True, text=True
    )


def test_the_error_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "brokers").mkdir()
    done = rackward("traffic", "run", str(tmp_path), str(tmp_path / "out"))
    assert done.returncode == 2
    assert done.stderr == ("rackward: pyspark is not installed: pip install 'rackward[spark]'\n")


def test_help_needs_no_spark() -> None:
    for command in ("run", "what-if", "stream"):
        done = rackward("traffic", command, "--help")
        assert done.returncode == 0, done.stderr
        assert "--master" in done.stdout


def test_options_are_checked_before_spark_starts(tmp_path: Path) -> None:
    done = rackward("traffic", "run", str(tmp_path), "out")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "has no snapshots (brokers, partitions, members, commits)" in done.stderr
    (tmp_path / "brokers").mkdir()
    for options, message in (
        (("--since", "yesterday"), "--since 'yesterday' is not a time"),
        (("--prices", str(tmp_path / "none.csv")), "cannot read prices"),
        (("--conf", "spark.x"), "--conf 'spark.x': give NAME=VALUE"),
    ):
        done = rackward("traffic", "run", str(tmp_path), "out", *options)
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    for command in (("run", str(tmp_path), "out", "--flows", "none"), ("what-if", "none", "out")):
        done = rackward("traffic", *command)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "none does not exist: give the folder" in done.stderr
    done = rackward("traffic", "stream", "topic", str(tmp_path))
    assert done.returncode == 2
    assert "give --bootstrap-server" in done.stderr
