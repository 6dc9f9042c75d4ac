"""Options that the traffic commands share, and the Spark session of a command.

The file of ``--flow-addresses`` says what addresses in flow records mean that no snapshot has:

    brokers:
      203.0.113.7:9092: prod/1
      203.0.113.8: prod/2
    racks: {10.1.0.0/16: use1-az1, 10.2.0.0/16: use1-az2}

``brokers`` are addresses of load balancers or NAT that lead to a broker, with or without a port;
``racks`` are those of clients by address or network. The same in JSON or TOML.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec import Meta

from placement_core import InvalidOptionError
from rack_traffic.options import Endpoints, FlowFormatName, FlowOptions
from rack_traffic.session import SparkOptions, spark_errors, spark_session
from rackward.cli.output import log_to_stderr
from rackward.config_files import convert, load
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


@dataclass(frozen=True, slots=True)
class PeriodOptions:
    """The options of a command that reads the hours of a period."""

    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only hours that begin at or after this time, such as 2026-11-21 or "
            "2026-11-21T08:00+01:00 (default time zone: UTC).",
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only hours that begin before this time."),
    ] = None

    def times(self) -> tuple[datetime | None, datetime | None]:
        """Return start and end in UTC, None where none is given. Raise InvalidOptionError."""
        return _parse_time("--since", self.since), _parse_time("--until", self.until)


@dataclass(frozen=True, slots=True)
class FlowRecordOptions:
    """The options of a command that may read flow records."""

    flows: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Folder or URL of flow records, to measure what the network carried.",
            rich_help_panel=_FLOWS_PANEL,
        ),
    ] = None
    flow_format: Annotated[
        FlowFormatName | None,
        typer.Option(
            help="Format of the flow records. Default: recognised by the fields of a file.",
            rich_help_panel=_FLOWS_PANEL,
        ),
    ] = None
    flow_addresses: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Brokers behind load balancers and NAT, and racks of clients by address or CIDR "
            "block, in YAML, JSON or TOML.",
            rich_help_panel=_FLOWS_PANEL,
        ),
    ] = None

    def parse(self) -> FlowOptions | None:
        """Return the input of measured flows, None without ``--flows``. Raise InvalidOptionError,
        and ConfigError for the file of addresses."""
        if self.flows is None:
            if self.flow_format is not None or self.flow_addresses is not None:
                raise InvalidOptionError("--flow-format and --flow-addresses need --flows")
            return None
        path = self.flow_addresses
        brokers, racks = ({}, HostRacks()) if path is None else read_flow_addresses(path)
        return FlowOptions(self.flows, self.flow_format, brokers, racks.rack)


@dataclass(frozen=True, slots=True)
class SparkRunOptions:
    """The options of a command that uses Spark."""

    master: Annotated[
        str,
        typer.Option(
            envvar="RACKWARD_SPARK_MASTER",
            metavar="URL",
            help="Spark master: local[N], spark://HOST:PORT, or sc://HOST:PORT for Spark Connect.",
            rich_help_panel=_SPARK_PANEL,
        ),
    ] = "local[*]"
    driver_memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Heap size of the Spark driver that this command starts.",
            rich_help_panel=_SPARK_PANEL,
        ),
    ] = "4g"
    conf: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Spark property; may be repeated.",
            rich_help_panel=_SPARK_PANEL,
        ),
    ] = None

    def check_exists(self, path: str) -> None:
        """Raise InvalidOptionError if a local Spark, which takes seconds to start, would not find
        ``path``. URLs and patterns are left to Spark."""
        if (
            self.master.startswith("local")
            and not re.search(r"[:*?\[{]", path)
            and not Path(path).exists()
        ):
            raise InvalidOptionError(
                f"{path} does not exist: give the folder that `rackward traffic collect` wrote, or "
                "one of flow records with --flows"
            )

    def check_snapshots(self, path: str) -> None:
        """Raise InvalidOptionError as `check_exists` does, also for a folder without snapshots."""
        self.check_exists(path)
        folder = Path(path)
        if (
            self.master.startswith("local")
            and folder.exists()
            and not (folder / "brokers").exists()
        ):
            raise InvalidOptionError(
                f"{path} has no snapshots (brokers, partitions, members, commits): give the folder "
                "that `rackward traffic collect` wrote"
            )

    @contextmanager
    def session(
        self,
        *,
        kafka: bool = False,
        progress_bars: bool = False,
        small: bool = False,
    ) -> Iterator[SparkSession]:
        """Return a session for the ``with`` block; the progress of its jobs is logged to stderr,
        with progress bars on terminals only. Arguments are those of SparkOptions.

        Raise InvalidOptionError if an item of ``conf`` is not NAME=VALUE, MissingPackageError and,
        for errors of Spark in the block, SparkError.
        """
        settings = {}
        for each in self.conf or ():
            name, equals, value = each.partition("=")
            if not (name and equals):
                raise InvalidOptionError(f"--conf {each!r}: give NAME=VALUE")
            settings[name] = value
        bars = progress_bars and sys.stderr.isatty()
        with log_to_stderr("rackward.traffic"):
            spark = spark_session(
                SparkOptions(self.master, self.driver_memory, kafka, bars, small, settings)
            )
            with spark_errors():
                try:
                    yield spark
                finally:
                    spark.stop()


def _parse_time(option: str, text: str | None) -> datetime | None:
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


# ---- The file of --flow-addresses.


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    brokers: Annotated[
        dict[Any, Any], Meta(description="addresses or ADDRESS:PORT, each with CLUSTER/BROKER")
    ] = {}
    racks: Annotated[
        dict[Any, Any], Meta(description="addresses or networks, each with its rack")
    ] = {}


def read_flow_addresses(path: Path) -> tuple[Endpoints, HostRacks]:
    """Return the endpoints of brokers, and the racks of clients.

    Raises ConfigError and InvalidOptionError, which name the file.
    """
    document = convert(load(path), _Document, str(path))
    brokers = {
        _endpoint(str(key), path): _broker(key, value, path)
        for key, value in document.brokers.items()
    }
    return brokers, HostRacks.parse(document.racks, str(path))


def _endpoint(text: str, path: Path) -> tuple[str, int | None]:
    match = re.fullmatch(r"\[([^\]]*)\](?::(\d+))?|([^:]*):(\d+)|(.*)", text)
    assert match is not None
    address, port = match[1] or match[3] or match[5] or "", match[2] or match[4]
    try:
        number = None if port is None else int(port)
        return str(ipaddress.ip_address(address)), number
    except ValueError:
        raise InvalidOptionError(
            f"{path}: {text!r} is not an address or ADDRESS:PORT of a broker"
        ) from None


def _broker(key: object, value: object, path: Path) -> tuple[str, int]:
    cluster, _, broker = str(value).rpartition("/")
    if not cluster or not broker.isdecimal():
        raise InvalidOptionError(f"{path}: {key!r} has {value!r}: give CLUSTER/BROKER")
    return cluster, int(broker)
