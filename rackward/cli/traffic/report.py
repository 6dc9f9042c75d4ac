"""``rackward traffic report``: what crosses racks, its cost and what to change, on one page."""

from __future__ import annotations

import os
import sys
import webbrowser
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placement_core import InvalidOptionError
from rack_traffic.errors import MissingSparkError
from rackward.cli import options
from rackward.cli.console import print_json

if TYPE_CHECKING:
    from rack_traffic.report.load import Period

DEFAULT_OUTPUT = Path("rack-traffic.html")
_LONGEST_SIGN = 8

REPORT_EPILOG = """
FOLDER is the output of the pipeline: Parquet tables in hourly/ and, where they were computed,
what_if/, ranking/ and set_aside/. A table elsewhere is given with its option, and wins. Paths may
be of s3://, gs:// or hdfs://. Neither Spark nor Java is needed.

\b
Without --output, --json or --parquet the page is written to rack-traffic.html.
It holds everything, loads nothing, and works offline.

Exit status: 0 done; 2 where it could not be done, with the reason in one line.

\b
JSON:
"""


def epilog() -> str:
    """The command's, with the shape of its JSON where the report can be had."""
    try:
        from rack_traffic.report.export import SHAPE
    except ImportError:
        return REPORT_EPILOG
    return REPORT_EPILOG + SHAPE


def report(
    folder: Annotated[
        str | None,
        typer.Argument(metavar="FOLDER", help="Where the pipeline wrote its tables."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the page here.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: options.Json = False,
    parquet: Annotated[
        Path | None,
        typer.Option("--parquet", metavar="DIR", help="Write the summary here, as Parquet tables."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Hours from here on, such as 2026-11-21 or 2026-11-21T08:00+01:00; UTC unless "
            "it says otherwise.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Hours that begin before this.")
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="The page's title.")
    ] = None,
    currency: Annotated[
        str,
        typer.Option(
            "--currency", metavar="SIGN", help="That of the price table, such as $ or EUR."
        ),
    ] = "$",
    top: Annotated[
        int, typer.Option("--top", min=1, max=50, help="Groups in the chart of the most costly.")
    ] = 10,
    hourly: Annotated[
        str | None, typer.Option("--hourly", metavar="DIR", help="The hourly table.")
    ] = None,
    what_if: Annotated[
        str | None, typer.Option("--what-if", metavar="DIR", help="The what-if table.")
    ] = None,
    ranking: Annotated[
        str | None, typer.Option("--ranking", metavar="DIR", help="The ranking of groups.")
    ] = None,
    set_aside: Annotated[
        str | None, typer.Option("--set-aside", metavar="DIR", help="The rows set aside.")
    ] = None,
) -> None:
    """Make a page of what crosses racks: where, what it costs, and what to change, group by group.

    One HTML file that works offline, on a phone, in dark and light, and on paper.
    """
    # Options first: nothing is read where one cannot be meant.
    sign = _sign(currency)
    wants_page = output is not None or open_page or not (as_json or parquet is not None)
    page_file = output or DEFAULT_OUTPUT
    if wants_page and not page_file.parent.is_dir():
        raise InvalidOptionError(
            f"--output {page_file}: there is no folder {page_file.parent}; make it first"
        )
    try:
        import jinja2  # noqa: F401
        import plotly  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingSparkError(error.name or "pyarrow") from error
    from rack_traffic.report.export import summary_json, summary_tables, write_tables
    from rack_traffic.report.findings import findings
    from rack_traffic.report.format import Currency
    from rack_traffic.report.load import read_summary, sources_in

    period = _period(since, until)
    given = {"hourly": hourly, "what_if": what_if, "ranking": ranking, "set_aside": set_aside}
    summary = read_summary(sources_in(folder, given), period)
    found = findings(summary, Currency(sign))
    shape = summary_json(summary, found)
    if parquet is not None:
        write_tables(summary_tables(shape), parquet)
        _say(f"Wrote the summary's tables to {parquet}")
    if wants_page:
        from rack_traffic.report.page import DEFAULT_TITLE, PageOptions, render_page

        made = PageOptions(datetime.now(UTC), title or DEFAULT_TITLE, Currency(sign), top)
        size = _write(page_file, render_page(summary, found, made))
        _say(f"Wrote {page_file} ({size / 1e6:.1f} MB)")
    if as_json:
        print_json("traffic report", shape)
    if open_page and not webbrowser.open(page_file.resolve().as_uri()):
        _say(f"No browser could be started: open {page_file} yourself")


def _period(since: str | None, until: str | None) -> Period:
    from rack_traffic.report.load import Period

    return Period(_time("--since", since), _time("--until", until))


def _time(option: str, given: str | None) -> datetime | None:
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise InvalidOptionError(
            f"{option} {given!r} is no time: give one such as 2026-11-21 or 2026-11-21T08:00"
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _sign(given: str) -> str:
    sign = given.strip()
    if not 0 < len(sign) <= _LONGEST_SIGN or not sign.isprintable():
        raise InvalidOptionError(
            f"--currency {given!r}: give a sign or a code of at most {_LONGEST_SIGN} characters, "
            "such as $ or EUR"
        )
    return sign


def _write(file: Path, page: str) -> int:
    """Write ``page`` whole or not at all; return its bytes."""
    from rack_traffic.report.load import ReportOutputError

    content = page.encode()
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(file)
    except OSError as error:
        raise ReportOutputError(f"cannot write {file}: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return len(content)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
