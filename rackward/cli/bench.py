"""``rackward bench``: measure bytes across racks of many strategies, and report them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from textwrap import fill, indent
from typing import Annotated

import typer

from rackward.bench import BenchError
from rackward.bench.report import check_results, make_page
from rackward.bench.results import Options, ResultFolder, Run, read_options
from rackward.bench.strategies import STRATEGIES
from rackward.bench.workloads import WORKLOADS
from rackward.cli.commands import command_group
from rackward.cli.options import KeepLogs
from rackward.cli.output import check_folder, stderr, write_page
from rackward.testing.kafka_jars import KAFKA_VERSION

PAGE = "report.md"


def _wrapped(keys: Iterable[str]) -> str:
    """Return keys as indented lines."""
    return indent(fill(", ".join(keys), 74, break_on_hyphens=False), "  ")


RUN_EPILOG = f"""
\b
Examples:
  rackward bench run --short
  rackward bench run --config bench.yaml --output results

Clusters are started on this machine and removed; the first use downloads Kafka and a Java runtime.
After Ctrl-C, or if something failed, the same command continues with what is missing. At the end
it writes {PAGE} to the folder.

\b
The options of FILE (YAML, TOML or JSON), and their defaults:
  workloads: all             a list of keys, see below
  strategies: all            a list of keys, see below
  repetitions: 1             each with other leaders
  seed: 1
  partitions: 36             of all topics together
  rate: 2.0                  MB/s, read by each group
  seconds: 20                of reading
  step_seconds: 4            of reading after each change
  groups_at_once: 12         groups that share a cluster at a time
  price: 0.02                of a GB across racks

\b
Workloads:
{_wrapped(WORKLOADS)}

\b
Strategies:
{_wrapped(STRATEGIES)}

Exit status: 0 success; 1 a strategy could not be measured, or a check of the results fails; 2
error; 130 interrupted with Ctrl-C.
"""

REPORT_EPILOG = """
\b
Examples:
  rackward bench report results

Exit status: 0 success; 1 a check of the results fails; 2 error.
"""

app = command_group("Measure bytes across racks of many assignors and clients, and report them.")


@app.command("run", epilog=RUN_EPILOG)
def run_bench(
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Benchmark configuration; see below.")
    ] = None,
    short: Annotated[
        bool, typer.Option("--short", help="Run one workload, with each strategy once.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder of the results.")
    ] = Path("bench-results"),
    keep_logs: KeepLogs = None,
) -> None:
    """Measure the bytes across racks of many assignors and clients on real clusters.

    Groups of six consumers read from three brokers in three racks, which count the bytes that they
    send to each rack. Strategies are the assignors of kafka-python, confluent-kafka, Java and the
    brokers, with and without follower fetching, and rackward's through each client.
    """
    # Imported here: it needs the client libraries, which a report does not.
    from rackward.bench.runner import log_folder, run_all, timed

    options = Options() if config is None else read_options(config)
    if short:
        options = options.short()
    check_folder("--output", output)
    folder = ResultFolder(output)
    folder.begin(_describe(options, config, short=short))
    console = stderr()
    with log_folder(keep_logs) as logs:
        failures = run_all(options, folder, logs, timed(console.print))
    for failure in failures:
        console.print(f"failed: {failure}")
    if not _report(folder, output / PAGE) or failures:
        raise typer.Exit(1)


@app.command("report", epilog=REPORT_EPILOG)
def report_bench(
    results: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the results.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help=f"The page. Default: {PAGE} in DIR."),
    ] = None,
) -> None:
    """Write a Markdown page of the results: the checks, and a table per workload."""
    page = output or results / PAGE
    check_folder("--output", page)
    if not _report(ResultFolder(results), page):
        raise typer.Exit(1)


def _report(folder: ResultFolder, page: Path) -> bool:
    """Write the page, print the checks, and return whether all hold. Raises BenchError."""
    results = folder.results()
    if folder.run is None or not results:
        raise BenchError(f"{folder.path} has no results: run rackward bench run first")
    write_page(page, make_page(folder.run, results))
    checks = check_results(results)
    for check in checks:
        state = "not measured" if not check.checked else "FAILS" if check.faults else "holds"
        typer.echo("\n  ".join((f"{state}: {check.claim}", *check.faults)))
    typer.echo(f"{page} is written")
    return not any(check.faults for check in checks)


def _describe(options: Options, config: Path | None, *, short: bool) -> Run:
    command = "rackward bench run"
    if config is not None:
        # Without the folders of this machine.
        command += f" --config {shlex.quote(config.name)}"
    if short:
        command += " --short"
    versions = {"Kafka": KAFKA_VERSION, "Python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("rackward", "kafka-python", "confluent-kafka", "aiokafka"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "-"
    return Run(
        options=options,
        command=command,
        began=datetime.now(UTC).strftime("%Y-%m-%d"),
        versions=versions,
        cpus=os.cpu_count() or 1,
        load=round(os.getloadavg()[0], 1),
    )
