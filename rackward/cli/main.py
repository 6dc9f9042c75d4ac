"""The ``rackward`` command: its subcommands, and how errors and signals end it."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from types import FrameType
from typing import Annotated, Any, cast

try:
    import typer
    from typer.core import TyperGroup
except ImportError:
    sys.exit("The rackward command needs its extra: pip install 'rackward[cli]'")

from placement_core import RackwardError
from rackward.cli.output import escape_controls
from rackward.cli.settings import option_defaults, read_settings

# All modules together take longer to import than most commands take to run.
COMMANDS = {
    "audit": "Show what consumer groups read across racks, what it costs, and what to do next.",
    "top": "Show live what consumer groups read across racks, their lag and cost.",
    "demo": "Measure cross-rack traffic of groups with and without rackward.",
    "bench": "Measure cross-rack traffic of many assignors and clients, and report it.",
    "topics": "Create topics, add partitions and describe topics, by rack.",
    "placement": "Check the placement of replicas, and reassign them.",
    "leaders": "Move partition leaders to the racks of their consumers.",
    "lead": "Assign the partitions of any client's consumer groups by rack.",
    "controller": "Add missing replicas, and serve placement requests.",
    "groups": "List consumer groups, explain why they read from other racks, and rebalance them.",
    "traffic": "Collect and report cross-rack traffic, its cost and savings.",
    "rack": "Print the rack that a consumer on this host would use.",
}
"""Command to its summary. The module ``rackward.cli.NAME``, which is imported when the command is
used, has its Typer as ``app``; it must be created with ``add_completion=False``."""


class LazyGroup(TyperGroup):
    """The group of COMMANDS."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # Suggestions for mistyped names are made from the keys.
        self.commands: Any = dict.fromkeys(COMMANDS)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        if self.commands[cmd_name] is None:
            app = import_module(f"rackward.cli.{cmd_name}").app
            self.commands[cmd_name] = typer.main.get_command(app)
            self.commands[cmd_name].name = cmd_name
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the summaries, without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])


EPILOG = """
\b
Examples:
  rackward demo                                     without a cluster
  rackward audit --bootstrap-server kafka:9092      on yours; changes nothing
  rackward --context prod audit                     with the settings of prod
  rackward COMMAND --help

The cluster of all commands, and other options that they share, can be set once: by environment
variables such as RACKWARD_BOOTSTRAP_SERVER, which --help of each command names, or in the file
~/.config/rackward/config.toml, as bootstrap_server = "kafka:9092". For several clusters it has
contexts: [contexts.prod] and the same settings below it. NO_COLOR turns colours off.

Exit status of all commands: 0 success; 1 a negative result, which the help of the command defines;
2 error (reason on stderr); 128 + N ended by signal N, such as 130 for Ctrl-C.
"""


app = typer.Typer(
    name="rackward",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Rack-aware Kafka: consumer assignment, replica placement and cross-rack traffic reports.",
    epilog=EPILOG,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rackward {version('rackward')}")
        raise typer.Exit


class _Debug:
    """Whether errors are shown with their traceback."""

    enabled = False


@app.callback()
def _root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of the error that ends the command.")
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            envvar="RACKWARD_CONTEXT",
            help="The settings of this context of the file of settings.",
        ),
    ] = None,
) -> None:
    _Debug.enabled = debug
    values = read_settings(os.environ, name)
    command: Any = cast("LazyGroup", context.command).get_command(
        context, context.invoked_subcommand or ""
    )
    if values and command is not None:
        context.default_map = {command.name: option_defaults(command, values)}


class Stopped(BaseException):
    """The process received a signal.

    Not an Exception, which code would catch, and not KeyboardInterrupt, for which typer has an
    exit status of its own.
    """

    def __init__(self, signum: int) -> None:
        self.signum = signum


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _stop(signum: int, _frame: FrameType | None) -> None:
    # A second Ctrl-C must not interrupt the clean-up.
    for handled in _SIGNALS:
        signal.signal(handled, signal.SIG_IGN)
    sys.stderr.write("\nStopping and cleaning up ...\n")
    raise Stopped(signum)


# click.UsageError, or that of the click that is part of newer versions of typer.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])


def _usage_error_text(error: typer.BadParameter) -> str:
    message = error.format_message()
    if "\n" in message:
        # The help: the command was called without arguments.
        return f"{message}\n"
    command = error.ctx.command_path if error.ctx is not None else "rackward"
    return f"rackward: {escape_controls(message.rstrip('.'))} (see {command} --help)\n"


def error_text(error: BaseException) -> str:
    """Return one line that describes any error."""
    if isinstance(error, RackwardError):
        text = str(error)
    elif isinstance(error, OSError) and error.strerror:
        subject = "" if error.filename is None else f"{error.filename}: "
        text = f"{subject}{error.strerror}"
    elif isinstance(error, MemoryError):
        text = "out of memory"
    else:
        reason = " ".join(str(error).split())
        text = f"unexpected {type(error).__name__}: {reason} (rackward --debug shows where)"
    return escape_controls(text)


def _report(error: BaseException) -> None:
    if _Debug.enabled:
        lines = "".join(traceback.format_exception(error)).rstrip().split("\n")
        sys.stderr.write("".join(f"  {escape_controls(line)}\n" for line in lines))
    sys.stderr.write(f"rackward: {error_text(error)}\n")


def _report_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None and not isinstance(arguments.exc_value, SystemExit):
        _report(arguments.exc_value)


def main() -> None:
    """Run the command and exit with the status of `run`, or 128 + the number of a signal."""
    for signum in _SIGNALS:
        signal.signal(signum, _stop)
    threading.excepthook = _report_thread
    # Names may have characters that the encoding of stdout has not.
    cast("io.TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")
    # A log line that cannot be written is dropped, without a traceback in its place.
    logging.raiseExceptions = False
    # kafka-python logs each failed attempt; the final error is reported below.
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    try:
        sys.exit(run())
    except Stopped as stopped:
        sys.exit(128 + stopped.signum)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command; None: that of the command line.

    Return the exit status: 0 success; 1 a negative result of the command; 2 error, with one line
    on stderr (after its traceback, with --debug).
    """
    try:
        status = app(arguments, standalone_mode=False)
        sys.stdout.flush()
    except _UsageError as error:
        sys.stderr.write(_usage_error_text(error))
        return 2
    except (BrokenPipeError, SystemExit):
        # The reader closed stdout, for which click calls sys.exit(1), as for a negative result. The
        # status is that of a command that SIGPIPE ends.
        _discard_stdout()
        return 128 + signal.SIGPIPE
    except Exception as error:  # noqa: BLE001 - a traceback helps no operator
        if isinstance(error, OSError):
            _discard_stdout()
        _report(error)
        return 2
    return int(status or 0)


def _discard_stdout() -> None:
    """Write what is left for stdout to nowhere: Python would report it again at exit."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


if __name__ == "__main__":
    main()
