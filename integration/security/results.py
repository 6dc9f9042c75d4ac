"""Outcomes of the cells of the matrix in a file, and their table for the documentation.

A run of the tests with RACKWARD_SECURITY_RESULTS=FILE adds its outcomes to the file, in which they
replace earlier ones of the same cells.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from integration.chaos.results import versions
from integration.security.matrix import MECHANISMS, PARTS, shown_name

FILE = Path(__file__).parent / "results.json"
RUNTIMES = {"local": "P", "docker": "D"}
"""How the table shows where a cell was run: on processes or in Docker."""

WITHHELD = "a right withheld"


@dataclass(frozen=True)
class Result:
    """Outcomes of one part: names of mechanisms, and rights that were withheld."""

    part: str
    runtime: str
    date: str
    versions: Mapping[str, str]
    passed: Sequence[str] = ()
    failed: Sequence[str] = ()

    def with_outcomes(self, passed: Iterable[str], failed: Iterable[str]) -> Result:
        """Return the result with these outcomes, which replace earlier ones."""
        new, wrong = {*passed, *failed}, set(failed)
        names = {*self.passed, *self.failed} | new
        wrong |= set(self.failed) - new
        return replace(self, passed=sorted(names - wrong), failed=sorted(wrong))


def read(path: Path) -> list[Result]:
    """Return what the file has; nothing if there is no file."""
    return [Result(**each) for each in json.loads(path.read_text())] if path.exists() else []


def add(path: Path, runtime: str, date: str, outcomes: Mapping[str, Mapping[str, bool]]) -> None:
    """Add outcomes to the file: part to name to whether it passed."""
    results = {(each.part, each.runtime): each for each in read(path)}
    for part, by_name in outcomes.items():
        now = Result(part, runtime, date, versions())
        before = results.get((part, runtime), now)
        results[part, runtime] = replace(before, date=date, versions=now.versions).with_outcomes(
            [name for name, is_passed in by_name.items() if is_passed],
            [name for name, is_passed in by_name.items() if not is_passed],
        )
    order = list(PARTS)
    lines = ",\n".join(
        json.dumps(asdict(each))
        for each in sorted(
            results.values(),
            key=lambda it: (list(RUNTIMES).index(it.runtime), order.index(it.part)),
        )
    )
    path.write_text(f"[\n{lines}\n]\n")


def outcomes_table(results: Iterable[Result]) -> str:
    """Return the outcomes by part and mechanism, and what was run, in Markdown."""
    by_part = {(each.part, each.runtime): each for each in results}
    rows = [
        f"| part | {' | '.join(MECHANISMS)} | {WITHHELD} |",
        f"|---|{'---|' * (len(MECHANISMS) + 1)}",
    ]
    for part, needs in PARTS.items():
        found = [by_part[part, runtime] for runtime in RUNTIMES if (part, runtime) in by_part]
        cells = [_cell([name], found, counted=False) for name in MECHANISMS]
        cells.append(_cell(list(map(str, needs.rights)), found, counted=True))
        rows.append(f"| {shown_name(part)} | {' | '.join(cells)} |")
    dates = sorted({each.date for each in by_part.values()})
    used = {tuple(each.versions.items()) for each in by_part.values()}
    texts = [", ".join(f"{name} {number}" for name, number in each) for each in sorted(used)]
    days = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return "\n".join([*rows, "", f"{days}: {'; '.join(texts)}."])


def _cell(names: Sequence[str], found: Iterable[Result], *, counted: bool) -> str:
    """Return where these outcomes were as expected; how many, if ``counted`` or one was not."""
    texts = []
    for each in found:
        passed = len(set(names) & set(each.passed))
        failed = len(set(names) & set(each.failed))
        count = f" {passed}/{len(names)}" if counted or failed else ""
        if passed or failed:
            texts.append(f"{RUNTIMES[each.runtime]}{count}")
    return ", ".join(texts) or "not run"
