"""The ``rackward`` command: its root, and what an error or a signal makes of a run."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from types import FrameType
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from placement_core import RackwardError

# ---- Commands that are imported when they are asked for.
#
# Each needs other libraries, and all of them together take longer to import than most commands
# take to run.


def lazy_group(commands: Mapping[str, str]) -> type[TyperGroup]:
    """A group of ``commands``: name to where its Typer is, as ``"module:attribute"``.

    They are listed in the order that is given. Their Typers must not add options for completion.
    """

    class LazyGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            # What a mistyped name is compared with.
            self.commands: Any = dict.fromkeys(commands)

        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
            return list(commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
            place = commands.get(cmd_name)
            if place is None:
                return None
            module, _, attribute = place.partition(":")
            command = typer.main.get_command(getattr(import_module(module), attribute))
            command.name = cmd_name
            return command

    return LazyGroup


try:
    import typer
    from typer._completion_classes import completion_init
except ImportError:
    sys.exit("The rackward command needs its extra: pip install 'rackward[cli]'")


COMMANDS = {
    "demo": "rackward.demo.command:app",
    "topics": "rackward.cli.topics.create:app",
    "placement": "rackward.cli.placement:app",
    "leaders": "rackward.cli.leaders:app",
    "controller": "rackward.cli.controller:app",
    "groups": "rackward.cli.groups:app",
    "traffic": "rackward.cli.traffic:app",
    "rack": "rackward.cli.rack:app",
    "completion": "rackward.cli.completion:app",
}

app = typer.Typer(
    name="rackward",
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Kafka in racks: consumers that read from leaders in their own, and replicas laid out "
    "for them.",
    epilog="Begin with: rackward demo",
)


# What shells ask is answered by typer, which only learns to where it offers --install-completion,
# and that writes into people's files.
completion_init()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rackward {version('rackward')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


class Stopped(BaseException):
    """A signal asked us to stop. Not an Exception, and not KeyboardInterrupt, which the
    command line library would turn into an exit status of its own."""

    def __init__(self, signum: int) -> None:
        self.signum = signum


def _stop(signum: int, _frame: FrameType | None) -> None:
    # Once is enough: a second Ctrl-C must not break off the clean-up that the first began.
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    sys.stderr.write("\nStopping and cleaning up ...\n")
    raise Stopped(signum)


def _usage_told(error: typer.BadParameter) -> str:
    told = error.format_message()
    if "\n" in told:
        # No arguments at all: this is the help.
        return f"{told}\n"
    where = error.ctx.command_path if error.ctx is not None else "rackward"
    return f"rackward: {told.rstrip('.')} (see {where} --help)\n"


# The library's own, or click's: versions differ.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Entry point: 0 done, 1 the command's own "no", 2 an error in one line, 128 + a signal."""
    for each in _SIGNALS:
        signal.signal(each, _stop)
    # The client tells of every attempt that fails; what it comes to is said once, by us.
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    try:
        sys.exit(app(standalone_mode=False))
    except _UsageError as error:
        sys.stderr.write(_usage_told(error))
        sys.exit(2)
    except BrokenPipeError:
        # Whoever read our output has had enough. Python would complain once more at its end.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        sys.exit(1)
    except Stopped as stopped:
        sys.exit(128 + stopped.signum)
    except RackwardError as error:
        sys.stderr.write(f"rackward: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
