"""``rackward bench``: measure bytes across racks of many strategies, and report them."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from rackward.bench import BenchError
from rackward.bench.checks import Check
from rackward.bench.report import Report, make_report
from rackward.bench.results import Options, ResultFolder, Run, read_options
from rackward.bench.strategies import STRATEGIES
from rackward.bench.workloads import WORKLOADS
from rackward.cli.commands import command_group
from rackward.cli.output import check_folder, stderr, write_page
from rackward.testing.kafka_jars import KAFKA_VERSION

DEFAULT_FOLDER = Path("bench-results")
PAGE = "report.md"

_PACKAGES = ("rackward", "kafka-python", "confluent-kafka", "aiokafka")


def _wrapped(keys: Sequence[str]) -> str:
    """Return keys as lines of up to 76 columns."""
    lines = [""]
    for key in keys:
        if len(lines[-1]) + len(key) > 72:
            lines.append("")
        lines[-1] += f"{', ' if lines[-1] else ''}{key}"
    return ",\n".join(f"  {line}" for line in lines)


RUN_EPILOG = f"""
\b
Examples:
  rackward bench run --short
  rackward bench run --config bench.yaml --output results

Clusters are started on this machine and removed; the first use downloads Kafka and a Java runtime.
Results are written when their strategies are measured: JSON Lines, the run and then a line each.
After Ctrl-C, or if something failed, the same command continues with what is missing. At the end
it writes {PAGE} and its plots to the folder.

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
{_wrapped(list(WORKLOADS))}

\b
Strategies:
{_wrapped(list(STRATEGIES))}

Exit status: 0 success; 1 a strategy could not be measured, or a check of the results fails; 2
error; 130 interrupted with Ctrl-C.
"""

REPORT_EPILOG = """
\b
Examples:
  rackward bench report results
  rackward bench report results --output bytes.md

The page has the checks, and per workload a plot and a table. Plots are written beside it.

Exit status: 0 success; 1 a check of the results fails; 2 error.
"""

app = command_group("Measure bytes across racks of many assignors and clients, and report them.")


@app.command("run", epilog=RUN_EPILOG)
def run_bench(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Benchmark configuration; see below."),
    ] = None,
    short: Annotated[
        bool,
        typer.Option("--short", help="Run one workload, with each strategy once."),
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder of the results.")
    ] = DEFAULT_FOLDER,
    keep_logs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", file_okay=False, help="Keep the logs of brokers and groups in DIR."
        ),
    ] = None,
) -> None:
    """Measure the bytes across racks of many assignors and clients on real clusters.

    Groups of six consumers read from three brokers in three racks, which count the bytes that they
    send to each rack. Strategies are the assignors of kafka-python, confluent-kafka, Java and the
    brokers, with and without follower fetching, and rackward's through each client.
    """
    # Imported here: it needs the client libraries, which a report does not.
    from rackward.bench.measured import Progress
    from rackward.bench.schedule import plan_batches, run_all
    from rackward.bench.sites import log_folder

    options = Options() if config is None else read_options(config)
    if short:
        options = options.short()
    check_folder("--output", output)
    folder = ResultFolder(output)
    folder.begin(_describe(options, config, short=short))
    console = stderr()
    progress = Progress(
        lambda text: console.print(text, markup=False, highlight=False), time.monotonic
    )
    try:
        with log_folder(keep_logs) as logs:
            failures = run_all(options, folder, logs, progress)
    except BaseException:
        count = sum(len(batch.strategies) for batch in plan_batches(options, folder))
        if count:
            progress.log(f"{count} results are missing: the same command continues")
        raise
    report = _write_report(folder, output / PAGE)
    for failure in failures:
        progress.log(f"failed: {failure}")
    if failures or _contradicted(report.checks):
        raise typer.Exit(1)


@app.command("report", epilog=REPORT_EPILOG)
def report_bench(
    results: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the results.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help=f"The page. Default: {PAGE} in DIR."),
    ] = None,
) -> None:
    """Write a page of the results, with plots, as Markdown."""
    page = output or results / PAGE
    check_folder("--output", page)
    report = _write_report(ResultFolder(results), page)
    if _contradicted(report.checks):
        raise typer.Exit(1)


def _write_report(folder: ResultFolder, page: Path) -> Report:
    """Write the page and its plots; print the checks. Raises BenchError without results."""
    results = folder.results()
    if folder.run is None or not results:
        raise BenchError(f"{folder.path} has no results: run rackward bench run first")
    report = make_report(folder.run, results)
    for name, plot in report.plots.items():
        write_page(page.parent / name, plot)
    write_page(page, report.markdown)
    for check in report.checks:
        state = "not measured" if not check.checked else "FAILS" if check.faults else "holds"
        typer.echo(f"{state}: {check.claim}")
        for fault in check.faults:
            typer.echo(f"  {fault}")
    typer.echo(f"{page} is written")
    return report


def _contradicted(checks: Sequence[Check]) -> bool:
    return any(check.faults for check in checks)


def _describe(options: Options, config: Path | None, *, short: bool) -> Run:
    command = "rackward bench run"
    if config is not None:
        command += f" --config {shlex.quote(config.name)}"
    if short:
        command += " --short"
    versions = {"Kafka": KAFKA_VERSION, "Python": ".".join(map(str, sys.version_info[:3]))}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "-"
    return Run(
        options=options,
        # Without the folders of this machine.
        command=command,
        began=datetime.now(UTC).strftime("%Y-%m-%d"),
        versions=versions,
        cpus=os.cpu_count() or 1,
        load=round(os.getloadavg()[0], 1),
    )
