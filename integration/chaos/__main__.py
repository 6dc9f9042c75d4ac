"""Runs the scenarios, prints a table of scenarios and clients, and exits with 1 after a violation.

python -m integration.chaos --only zombie --seed 3
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable

from integration.chaos.run import CLUSTER_PROPERTIES, Outcome, run
from integration.chaos.scenarios import GROUPS, LED, SCENARIOS, ClusterNeeds, Scenario
from integration.chaos.workload import RACKS
from rackward.clusters import Cluster, ClusterError, DockerCluster, LocalCluster
from rackward.clusters.distribution import KAFKA_VERSION

COLUMNS = GROUPS + LED

OLDEST_VERSION = "3.9.1"

Report = Callable[[str], None]


def main() -> None:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="NAME,...", help="scenarios (default: all)")
    parser.add_argument("--groups", metavar="NAME,...", help=f"of {', '.join(COLUMNS)}")
    parser.add_argument("--seed", type=int, help="repeats a run with this seed")
    parser.add_argument("--list", action="store_true", help="print the scenarios and exit")
    options = parser.parse_args()
    if options.list:
        print("\n".join(SCENARIOS))
        return
    names = _chosen(parser, "--only", options.only, tuple(SCENARIOS))
    groups = _chosen(parser, "--groups", options.groups, COLUMNS)
    seed = random.randrange(10_000) if options.seed is None else options.seed
    print(f"seed {seed}: repeat with --seed {seed}", flush=True)
    started = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - started:7.1f} s  {line}", file=sys.stderr, flush=True)

    problems: list[str] = []
    print(heading(), flush=True)
    try:
        for name in names:
            scenario = SCENARIOS[name]
            report(name)
            try:
                outcomes = run_alone(scenario, seed, groups, report)
            except (AssertionError, ClusterError) as error:
                problems.append(f"{name}: {error}")
                report(problems[-1])
                print(f"{name:34} did not run to its end", flush=True)
                continue
            print(row(scenario, outcomes), flush=True)
            problems += [
                f"{name}, {each.client}: {text}" for each in outcomes for text in each.violations
            ]
    except KeyboardInterrupt:
        report("interrupted; everything that was started has ended")
        sys.exit(130)
    print(f"{len(names)} scenarios, {len(problems)} violations")
    if problems:
        sys.exit("\n".join(problems))


def run_alone(
    scenario: Scenario, seed: int, groups: tuple[str, ...], report: Report
) -> list[Outcome]:
    """Run a scenario on a cluster of its own."""
    chosen = [group for group in scenario.groups if group in groups]
    if not chosen:
        return []
    with _cluster(scenario.cluster, report) as cluster:
        return run(cluster, scenario, seed=seed, groups=chosen, report=report)


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


def heading() -> str:
    """Return the first line of the table."""
    return f"{'longest seconds without reading':34}" + "".join(f"{name:>13}" for name in COLUMNS)


def row(scenario: Scenario, outcomes: list[Outcome]) -> str:
    """Return a line of the table: seconds, and ! for violations."""
    cells = {
        each.client: f"{each.recovered:.1f}{'!' if each.violations else ''}" for each in outcomes
    }
    return f"{scenario.name:34}" + "".join(f"{cells.get(name, '-'):>13}" for name in COLUMNS)


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
