"""Raw results of runs in a file that can be resumed and compared, and the table of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from integration.chaos.run import Outcome
from integration.chaos.scenarios import GROUPS, LED, SCENARIOS
from rackward.testing.kafka_jars import KAFKA_VERSION

COLUMNS = GROUPS + LED

PACKAGES = ("rackward", "kafka-python", "confluent-kafka", "aiokafka")


def versions() -> dict[str, str]:
    """Return the versions of what is tested."""
    return {"kafka": KAFKA_VERSION, **{name: version(name) for name in PACKAGES}}


@dataclass(frozen=True)
class Results:
    """Outcomes as they are in the file, each with its seed, its date and the versions."""

    outcomes: Sequence[Mapping[str, Any]] = ()

    @staticmethod
    def read(path: Path) -> Results:
        """Return what the file has; nothing if there is no file."""
        return Results(json.loads(path.read_text())) if path.exists() else Results()

    def write(self, path: Path) -> None:
        """Write the file, a line per outcome."""
        lines = ",\n".join(json.dumps(each) for each in self.outcomes)
        path.write_text(f"[\n{lines}\n]\n")

    def missing(self, scenario: str, groups: Iterable[str]) -> list[str]:
        """Return the groups without an outcome of this scenario with the versions of today."""
        done = {each["client"] for each in self._of(scenario) if each["versions"] == versions()}
        return [group for group in groups if group not in done]

    def with_outcomes(self, outcomes: Iterable[Outcome], seed: int, date: str) -> Results:
        """Return results in which these outcomes replace earlier ones, sorted."""
        further = {"seed": seed, "date": date, "versions": versions()}
        new = [{**asdict(each), **further} for each in outcomes]
        replaced = {(each["scenario"], each["client"]) for each in new}
        kept = [
            each for each in self.outcomes if (each["scenario"], each["client"]) not in replaced
        ]
        names = list(SCENARIOS)

        def place(each: Mapping[str, Any]) -> tuple[int, int]:
            name = each["scenario"]
            # The soak is none of the scenarios, and last.
            return (
                names.index(name) if name in names else len(names),
                COLUMNS.index(each["client"]),
            )

        return Results(sorted([*kept, *new], key=place))

    def _of(self, scenario: str) -> list[Mapping[str, Any]]:
        return [each for each in self.outcomes if each["scenario"] == scenario]

    def tables(self) -> str:
        """Return text in Markdown: the table of scenarios, that of memory, and what was run."""
        memory = [self._memory_table()] if self._of("soak") else []
        return "\n\n".join((self._table(), *memory, self._described()))

    def _table(self) -> str:
        """Return seconds and repeated records by scenario and group."""
        rows = [
            f"| Scenario | {' | '.join(COLUMNS)} |",
            f"| --- | {' | '.join('---:' for _ in COLUMNS)} |",
        ]
        for name, scenario in SCENARIOS.items():
            cells = {each["client"]: _cell(each) for each in self._of(name)}
            absent = {group: "not run" if group in scenario.groups else "" for group in COLUMNS}
            cells = {**absent, **cells}
            rows.append(f"| {name} | {' | '.join(cells[group] for group in COLUMNS)} |")
        return "\n".join(rows)

    def _memory_table(self) -> str:
        """Return the highest resident memory in the soak: of members, and of ``rackward lead``."""
        rows = [
            "| Processes | number | minutes | MiB until 5 minutes | MiB afterwards | growth |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
        ]
        for use in (use for each in self._of("soak") for use in each["memory"]):
            growth = use["highest"] / use["settled"] - 1
            rows.append(
                f"| {use['name']} | {use['processes']} | {use['seconds'] / 60:.0f} "
                f"| {use['settled'] / 1024:.0f} | {use['highest'] / 1024:.0f} | {growth:.1%} |"
            )
        return "\n".join(rows)

    def _described(self) -> str:
        """Return dates, seeds and versions as text."""
        dates = sorted({each["date"] for each in self.outcomes})
        seeds = sorted({each["seed"] for each in self.outcomes})
        found = {tuple(each["versions"].items()) for each in self.outcomes}
        texts = [", ".join(f"{name} {number}" for name, number in each) for each in sorted(found)]
        days = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
        return f"{days}, seed {', '.join(map(str, seeds))}; {'; '.join(texts)}."


def _cell(outcome: Mapping[str, Any]) -> str:
    mark = "!" if outcome["violations"] else ""
    # Of some earlier runs, the number of repeated records was not kept.
    repeated = "" if outcome["repeated"] is None else f", {outcome['repeated']}"
    return f"{outcome['recovered']:.1f} s{repeated}{mark}"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return low if low == high else f"{low} to {high}"
