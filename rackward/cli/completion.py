"""``rackward completion``: the script that makes a shell complete this command."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer._completion_shared import get_completion_script


class Shell(StrEnum):
    """The shells that are served."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


EPILOG = """
\b
bash:  rackward completion bash >> ~/.bashrc
zsh:   rackward completion zsh > ~/.zfunc/_rackward   (a folder of your fpath)
fish:  rackward completion fish > ~/.config/fish/completions/rackward.fish
"""

VARIABLE = "_RACKWARD_COMPLETE"
"""By which the script asks; the command line library makes it from the command's name."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=EPILOG)
def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell that it is for.")],
) -> None:
    """Print a script for your shell, so that Tab completes commands."""
    typer.echo(
        get_completion_script(prog_name="rackward", complete_var=VARIABLE, shell=shell.value)
    )
