"""Shell completion: the scripts and their completions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

import pytest

MAIN = "import sys; sys.argv[0] = 'rackward'; import rackward.cli.main as c; c.main()"


def rackward(*arguments: str, **variables: str) -> str:
    environment: Mapping[str, str] = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-c", MAIN, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    ).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_each_shell(shell: str) -> None:
    script = rackward("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_RACKWARD_COMPLETE=complete_" + shell in script
    if shutil.which(shell):
        # -n: parse it, do not run it.
        subprocess.run([shell, "-n"], input=script, text=True, timeout=60, check=True)


def test_completion_of_a_subcommand() -> None:
    completions = rackward(
        _RACKWARD_COMPLETE="complete_bash", COMP_WORDS="rackward topics cre", COMP_CWORD="2"
    )
    assert completions.split() == ["create"]
