"""``rackward traffic report``: one HTML page about cross-rack traffic, its cost, and savings."""

from __future__ import annotations

import sys
import webbrowser
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from rack_traffic.errors import MissingPackageError
from rackward.cli import options
from rackward.cli.output import check_folder, print_json, write_page
from rackward.cli.traffic.options import PeriodOptions

DEFAULT_OUTPUT = Path("rack-traffic.html")

TablePath = Annotated[
    str | None, typer.Option(metavar="DIR", help="This table, instead of that in FOLDER.")
]

REPORT_EPILOG = """
\b
Examples:
  rackward traffic report tables -o traffic.html --open
  rackward traffic report tables --json

FOLDER is the output of the other commands: Delta tables in hourly/ and, if they were computed,
what_if/, ranking/, rejected_rows/, flows_hourly/ and replaced_hourly/. The option of a table
overrides FOLDER. Paths may be s3://, gs:// or abfss:// URLs. Neither Spark nor Java is needed.

Without --output, --json, --parquet or --focus, it writes rack-traffic.html. The page contains
all its data and scripts, and works offline.

Exit status: 0 success; 2 error (reason on stderr).
"""


def report(
    folder: Annotated[
        str | None,
        typer.Argument(metavar="FOLDER", help="Folder or URL of the pipeline's tables."),
    ] = None,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the page here.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: options.Json = False,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the report's data as Parquet tables."),
    ] = None,
    owners: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Divide the bill among teams: CSV with the columns team and group, topic, "
            "client_id or principal, which are patterns; the first rule that matches applies.",
        ),
    ] = None,
    focus: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the bill as CSV in FOCUS's columns."),
    ] = None,
    period: PeriodOptions,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the page.")] = None,
    currency: options.CurrencySign = "$",
    top: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=50, help="Number of groups in the chart of costs."),
    ] = 10,
    hourly: TablePath = None,
    what_if: TablePath = None,
    ranking: TablePath = None,
    rejected_rows: TablePath = None,
    flows_hourly: TablePath = None,
    replaced_hourly: TablePath = None,
) -> None:
    """Write an HTML page about cross-rack traffic, its cost, and the changes that would save most.

    One file that works offline, on phones, in light and dark mode, and printed.
    """
    symbol = options.currency_symbol(currency)
    other = as_json or parquet is not None or focus is not None
    writes_page = output is not None or open_page or not other
    page_file = output or DEFAULT_OUTPUT
    if writes_page:
        check_folder("--output", page_file)
    start, end = period.times()
    try:
        import jinja2  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(error.name or "pyarrow") from error
    from rack_traffic.report.bill import focus_csv, read_owners
    from rack_traffic.report.export import summary_json, summary_tables, write_tables
    from rack_traffic.report.findings import findings
    from rack_traffic.report.format import Currency
    from rack_traffic.report.load import Period, find_tables, read_summary

    selected = Period(start, end)
    given = {
        "hourly": hourly,
        "what_if": what_if,
        "ranking": ranking,
        "rejected_rows": rejected_rows,
        "flows_hourly": flows_hourly,
        "replaced_hourly": replaced_hourly,
    }
    payers = None if owners is None else read_owners(owners)
    if payers is None and focus is not None:
        # Its lines are of groups and topics.
        payers = []
    shown_as = Currency(symbol)
    summary = read_summary(find_tables(folder, given), selected, payers)
    report_findings = findings(summary, shown_as)
    data = summary_json(summary, report_findings, shown_as)
    if parquet is not None:
        write_tables(summary_tables(data), parquet)
        _print(f"Wrote Parquet tables to {parquet}")
    if focus is not None:
        write_page(focus, focus_csv(summary, shown_as))
        _print(f"Wrote {focus}")
    if writes_page:
        from rack_traffic.report.page import DEFAULT_TITLE, PageOptions, render_page

        page_options = PageOptions(datetime.now(UTC), title or DEFAULT_TITLE, shown_as, top)
        size = write_page(page_file, render_page(summary, report_findings, page_options))
        _print(f"Wrote {page_file} ({size / 1e6:.1f} MB)")
    if as_json:
        print_json("traffic report", data)
    if open_page and not webbrowser.open(page_file.resolve().as_uri()):
        _print(f"cannot start a browser: open {page_file} in one")


def _print(text: str) -> None:
    sys.stderr.write(text + "\n")
