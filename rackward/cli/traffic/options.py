"""Options that the traffic commands share, and the Spark session of a command."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placement_core import InvalidOptionError
from rack_traffic.options import FlowFormatName, FlowOptions
from rack_traffic.session import SparkOptions, spark_errors, spark_session
from rackward.cli.output import log_to_stderr
from rackward.cli.traffic.flow_addresses import read_flow_addresses
from rackward.groups.host_racks import HostRacks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK_PANEL = "Spark"
_FLOWS_PANEL = "Measured flows"

Source = Annotated[
    str,
    typer.Argument(
        metavar="SNAPSHOTS",
        help="Folder or URL of the snapshots that `rackward traffic collect` wrote.",
    ),
]
Target = Annotated[
    str, typer.Argument(metavar="FOLDER", help="Folder or URL of the output tables.")
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only hours that begin at or after this time, such as 2026-11-21 or "
        "2026-11-21T08:00+01:00 (default time zone: UTC).",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only hours that begin before this time."),
]
Flows = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Folder or URL of flow records, to measure what the network carried.",
        rich_help_panel=_FLOWS_PANEL,
    ),
]
FlowFormat = Annotated[
    FlowFormatName | None,
    typer.Option(
        help="Format of the flow records. Default: recognised by the fields of a file.",
        rich_help_panel=_FLOWS_PANEL,
    ),
]
FlowAddresses = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Brokers behind load balancers and NAT, and racks of clients by address or CIDR "
        "block, in YAML, JSON or TOML.",
        rich_help_panel=_FLOWS_PANEL,
    ),
]
Master = Annotated[
    str,
    typer.Option(
        envvar="RACKWARD_SPARK_MASTER",
        metavar="URL",
        help="Spark master: local[N], spark://HOST:PORT, or sc://HOST:PORT for Spark Connect.",
        rich_help_panel=_SPARK_PANEL,
    ),
]
DriverMemory = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Heap size of the Spark driver that this command starts.",
        rich_help_panel=_SPARK_PANEL,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE", help="Spark property; may be repeated.", rich_help_panel=_SPARK_PANEL
    ),
]
DEFAULT_MASTER = "local[*]"
DEFAULT_MEMORY = "4g"


def flow_options(
    path: str | None, name: FlowFormatName | None, addresses: Path | None
) -> FlowOptions | None:
    """Return the input of measured flows, None without ``--flows``. Raise InvalidOptionError, and
    ConfigError for the file of addresses."""
    if path is None:
        if name is not None or addresses is not None:
            raise InvalidOptionError("--flow-format and --flow-addresses need --flows")
        return None
    brokers, racks = ({}, HostRacks()) if addresses is None else read_flow_addresses(addresses)
    return FlowOptions(path, name, brokers, racks.rack)


def check_exists(path: str, master: str) -> None:
    """Raise InvalidOptionError if a local Spark, which takes seconds to start, would not find
    ``path``. URLs and patterns are left to Spark."""
    if master.startswith("local") and not re.search(r"[:*?\[{]", path) and not Path(path).exists():
        raise InvalidOptionError(
            f"{path} does not exist: give the folder that `rackward traffic collect` wrote, or one "
            "of flow records with --flows"
        )


def check_snapshots(path: str, master: str) -> None:
    """Raise InvalidOptionError as `check_exists` does, also for a folder without snapshots."""
    check_exists(path, master)
    folder = Path(path)
    if master.startswith("local") and folder.exists() and not (folder / "brokers").exists():
        raise InvalidOptionError(
            f"{path} has no snapshots (brokers, partitions, members, commits): give the folder "
            "that `rackward traffic collect` wrote"
        )


def parse_time(option: str, text: str | None) -> datetime | None:
    """Return a time in UTC, or None if none is given. Raise InvalidOptionError."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOptionError(
            f"{option} {text!r} is not a time: give one such as 2026-11-21 or 2026-11-21T08:00"
        ) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


@contextmanager
def running_spark(
    master: str = DEFAULT_MASTER,
    memory: str = DEFAULT_MEMORY,
    conf: list[str] | None = None,
    *,
    kafka: bool = False,
    progress_bars: bool = False,
    small: bool = False,
) -> Iterator[SparkSession]:
    """Return a session for the ``with`` block; the progress of its jobs is logged to stderr, with
    progress bars on terminals only. Arguments are those of SparkOptions.

    Raise InvalidOptionError if an item of ``conf`` is not NAME=VALUE, MissingPackageError and, for
    errors of Spark in the block, SparkError.
    """
    settings = {}
    for each in conf or ():
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise InvalidOptionError(f"--conf {each!r}: give NAME=VALUE")
        settings[name] = value
    bars = progress_bars and sys.stderr.isatty()
    with log_to_stderr("rackward.traffic"):
        spark = spark_session(SparkOptions(master, memory, kafka, bars, small, settings))
        with spark_errors():
            try:
                yield spark
            finally:
                spark.stop()
