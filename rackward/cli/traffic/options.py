"""Options that the commands of the pipeline share: Spark, prices, and what is believed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placement_core import InvalidOptionError
from rack_traffic.prices import PriceTable, read_prices
from rack_traffic.session import SparkOptions, spark_session
from rackward.cli.console import logged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK = "Spark"

Source = Annotated[
    str,
    typer.Argument(
        metavar="SNAPSHOTS",
        help="Folder (or URL that Spark reads) that `rackward traffic collect` writes to.",
    ),
]
Target = Annotated[
    str, typer.Argument(metavar="FOLDER", help="Where the tables go (a folder or a URL).")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Hours from here on, such as 2026-11-21 or 2026-11-21T08:00+01:00; UTC unless it "
        "says otherwise.",
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Hours that begin before this.")
]
Prices = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        help="What a GB costs between racks: CSV or JSON rules with per_gb and, as wanted, "
        "cluster, level (1 is the widest), from_rack, to_rack, both_directions. "
        "Default: 0.02 per GB between racks, free within.",
    ),
]
Master = Annotated[
    str,
    typer.Option(
        "--master",
        envvar="RACKWARD_SPARK_MASTER",
        metavar="URL",
        help="local[N], a cluster's master, or sc://HOST:PORT for Spark Connect.",
        rich_help_panel=SPARK,
    ),
]
DriverMemory = Annotated[
    str,
    typer.Option(
        "--driver-memory",
        metavar="SIZE",
        help="Of the Spark that this command starts.",
        rich_help_panel=SPARK,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="NAME=VALUE",
        help="A setting of Spark's; may be given several times.",
        rich_help_panel=SPARK,
    ),
]
DEFAULT_MASTER = "local[*]"
DEFAULT_MEMORY = "4g"


def spark_options(
    master: str,
    memory: str,
    conf: list[str] | None,
    *,
    kafka: bool = False,
    bars: bool = False,
) -> SparkOptions:
    """How to start Spark, with its bars on a terminal if these are wanted.

    Raises InvalidOptionError where a setting is no NAME=VALUE.
    """
    settings = {}
    for each in conf or ():
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise InvalidOptionError(f"--conf {each!r}: give NAME=VALUE")
        settings[name] = value
    return SparkOptions(master, memory, kafka, bars and sys.stderr.isatty(), settings)


def price_table(path: Path | None) -> PriceTable:
    """The table in that file, or the default. Raises PriceTableError."""
    return PriceTable() if path is None else read_prices(path)


def moment(option: str, given: str | None) -> datetime | None:
    """A time in UTC, None where none was given. Raises InvalidOptionError."""
    if given is None:
        return None
    try:
        told = datetime.fromisoformat(given)
    except ValueError:
        raise InvalidOptionError(
            f"{option} {given!r} is no time: give one such as 2026-11-21 or 2026-11-21T08:00"
        ) from None
    return told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)


def now() -> datetime:
    """The clock that jobs are given."""
    return datetime.now(UTC)


# ---- The Spark of a command: begun, told of, and stopped.


@contextmanager
def running(given: SparkOptions) -> Iterator[SparkSession]:
    """A session for the ``with`` block; what it is at goes to stderr.

    Raises MissingSparkError and UnfitJavaError.
    """
    with logged("rackward.traffic"):
        spark = spark_session(given)
        try:
            yield spark
        finally:
            spark.stop()
