"""Runs the scenarios, prints a table of scenarios and groups, and exits with 1 after a violation.

python -m integration.chaos --only zombie --seed 3
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from integration.chaos.results import COLUMNS, Results
from integration.chaos.run import CLUSTER_PROPERTIES, Outcome, run
from integration.chaos.scenarios import SCENARIOS, ClusterNeeds, Scenario, soak
from integration.chaos.workload import RACKS
from rackward.testing import Cluster, DockerCluster, LocalCluster
from rackward.testing.kafka_jars import KAFKA_VERSION

OLDEST_VERSION = "3.9.1"

Report = Callable[[str], None]


def main() -> None:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="NAME,...", help="scenarios (default: all)")
    parser.add_argument("--groups", metavar="NAME,...", help=f"of {', '.join(COLUMNS)}")
    parser.add_argument("--seed", type=int, help="repeats a run with this seed")
    parser.add_argument(
        "--soak", type=float, metavar="MINUTES", help="random faults for so long, and memory"
    )
    parser.add_argument(
        "--rate", type=float, default=2000.0, help="records a second of the soak (default: 2000)"
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        help="keep results in this JSON file, and run only what it does not have",
    )
    parser.add_argument("--again", action="store_true", help="run also what --results has")
    parser.add_argument("--table", action="store_true", help="print the tables of --results")
    parser.add_argument("--list", action="store_true", help="print the scenarios and exit")
    options = parser.parse_args()
    if options.list:
        print("\n".join(SCENARIOS))
        return
    results = Results() if options.results is None else Results.read(options.results)
    if options.table:
        print(results.tables())
        return
    names = _chosen(parser, "--only", options.only, tuple(SCENARIOS))
    scenarios = [SCENARIOS[name] for name in names]
    if options.soak is not None:
        scenarios = [soak(60 * options.soak, options.rate)]
    chosen = _chosen(parser, "--groups", options.groups, COLUMNS)
    seed = random.randrange(10_000) if options.seed is None else options.seed
    print(f"seed {seed}: repeat with --seed {seed}", flush=True)
    started = time.monotonic()
    # Ends as with Ctrl-C: all processes and containers are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def report(line: str) -> None:
        print(f"{time.monotonic() - started:7.1f} s  {line}", file=sys.stderr, flush=True)

    problems: list[str] = []
    try:
        for scenario in scenarios:
            groups = [group for group in scenario.groups if group in chosen]
            if not options.again:
                groups = results.missing(scenario.name, groups)
            if not groups:
                continue
            report(scenario.name)
            try:
                outcomes = run_alone(scenario, seed, groups, report)
            except Exception as error:  # noqa: BLE001 - the other scenarios run nevertheless
                traceback.print_exc()
                problems.append(f"{scenario.name}: {error}")
                report(problems[-1])
                continue
            for each in outcomes:
                for use in each.memory:
                    report(str(use))
                problems += [f"{scenario.name}, {each.client}: {text}" for text in each.violations]
            today = datetime.now(UTC).date().isoformat()
            results = results.with_outcomes(outcomes, seed, today)
            if options.results is not None:
                results.write(options.results)
    except KeyboardInterrupt:
        report("interrupted; everything that was started has ended")
        sys.exit(130)
    if results.outcomes:
        print(results.tables())
    print(f"{len(scenarios)} scenarios, {len(problems)} violations")
    if problems:
        sys.exit("\n".join(problems))


def run_alone(
    scenario: Scenario, seed: int, groups: Sequence[str], report: Report
) -> list[Outcome]:
    """Run a scenario on a cluster of its own."""
    with _cluster(scenario.cluster, report) as cluster:
        return run(cluster, scenario, seed=seed, groups=groups, report=report)


def _cluster(needs: ClusterNeeds, report: Report) -> Cluster:
    if needs.docker:
        return DockerCluster(
            RACKS,
            server_properties=CLUSTER_PROPERTIES,
            data_size=needs.data_size,
            progress=report,
        )
    return LocalCluster(
        RACKS,
        server_properties=CLUSTER_PROPERTIES,
        controllers=needs.controllers,
        kafka_version=OLDEST_VERSION if needs.old else KAFKA_VERSION,
        progress=report,
    )


def _chosen(
    parser: argparse.ArgumentParser, option: str, text: str | None, known: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the names of a comma-separated list, all if there is none."""
    if text is None:
        return known
    names = tuple(text.split(","))
    if unknown := set(names) - set(known):
        parser.error(f"{option}: unknown {', '.join(sorted(unknown))}; give {', '.join(known)}")
    return names


if __name__ == "__main__":
    main()
