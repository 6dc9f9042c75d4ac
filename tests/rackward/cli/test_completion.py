"""Completion: the scripts, and what they are told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from rackward.cli.main import app


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str) -> None:
    answer = CliRunner().invoke(app, ["completion", shell])
    assert answer.exit_code == 0
    assert "_RACKWARD_COMPLETE=complete_" + shell in answer.stdout
    if shutil.which(shell):
        # -n: read it, do not run it.
        subprocess.run([shell, "-n"], input=answer.stdout, text=True, timeout=60, check=True)


def test_what_tab_is_told() -> None:
    words = {"COMP_WORDS": "rackward topics cre", "COMP_CWORD": "2"}
    answer = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'rackward'; import rackward.cli.main as c; c.main()",
        ],
        env={**os.environ, **words, "_RACKWARD_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.stdout.split() == ["create"]
