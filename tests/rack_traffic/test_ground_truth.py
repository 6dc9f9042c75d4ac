"""The pipeline on simulations whose traffic is known: clean, and with each kind of fault.

All simulations are clusters of one run. An error is that of one cell (group, pair of racks, hour),
relative to its true bytes. For a cell below 2 % of its group's hour it is relative to these 2 %,
because the snapshots do not show more precisely how long such traffic lasted.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rack_traffic.options import EstimationOptions
from rack_traffic.pipeline import partition_hours
from tests.support.traffic_frames import stored
from tests.support.traffic_truth import BEGIN, Cell, Fault, World, observe, simulate

CLEAN, FAULTY = 0.01, 0.03
SMALL = 0.02

WORLDS: dict[str, frozenset[Fault]] = {
    "clean": frozenset(),
    **{str(fault): frozenset({fault}) for fault in Fault},
    "everything": frozenset(Fault),
}


class Results:
    """The simulations by name, and the results of the pipeline."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.worlds: dict[str, World] = {}
        self.cells: dict[str, Counter[Cell]] = {name: Counter() for name in WORLDS}
        self.estimated: Counter[str] = Counter()
        rows: dict[str, list[dict[str, Any]]] = {}
        for name, faults in WORLDS.items():
            self.worlds[name] = simulate(1, faults=faults)
            for table, seen in observe(self.worlds[name]).items():
                renamed = ({**row, "cluster": f"{name}/{row['cluster']}"} for row in seen)
                rows.setdefault(table, []).extend(renamed)
        for row in partition_hours(stored(spark, rows, folder), EstimationOptions()).collect():
            name, cluster = row.cluster.split("/")
            hour = int((row.hour.timestamp() - BEGIN.timestamp()) // 3600)
            if 0 <= hour < self.worlds[name].hours:
                cell = (cluster, row.kind, row.group, row.from_rack, row.to_rack, hour)
                self.cells[name][cell] += row.bytes
                self.estimated[name] += row.estimated_bytes

    def errors(self, name: str) -> list[tuple[float, Cell, float, float]]:
        """Return (error, cell, true bytes, computed bytes), the largest error first."""
        truth, found = self.worlds[name].truth, self.cells[name]
        hours: Counter[tuple[object, ...]] = Counter()
        for cell, true in truth.items():
            hours[*cell[:3], cell[5]] += true
        errors = []
        for cell in {*truth, *found}:
            least = SMALL * hours[*cell[:3], cell[5]]
            error = abs(found[cell] - truth[cell]) / max(truth[cell], least, 1.0)
            errors.append((error, cell, truth[cell], found[cell]))
        return sorted(errors, key=lambda each: -each[0])


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return Results(spark, tmp_path_factory.mktemp("snapshots"))


@pytest.mark.parametrize("name", WORLDS)
def test_bytes_are_those_that_were_read(results: Results, name: str) -> None:
    most = FAULTY if WORLDS[name] else CLEAN
    errors = results.errors(name)
    assert len(errors) > 100
    assert [each for each in errors if each[0] > most] == []


@pytest.mark.parametrize("name", WORLDS)
def test_totals_are_closer_still(results: Results, name: str) -> None:
    true, found = results.worlds[name].truth.total(), results.cells[name].total()
    assert found == pytest.approx(true, rel=CLEAN / 2)


def test_only_what_cannot_be_measured_is_estimated(results: Results) -> None:
    unmeasurable = {Fault.SET_BACK, Fault.OVERTAKEN, Fault.RECREATED}
    for name, faults in WORLDS.items():
        assert (results.estimated[name] > 0) == bool(faults & unmeasurable), name


def test_unknown_racks_stay_apart(results: Results) -> None:
    """A member, a broker and a group's consumers without a rack: no cell is guessed."""
    cells = results.cells["clean"]
    nowhere = {
        (cell[2], cell[3] is None, cell[4] is None) for cell in cells if cell[1] == "consume"
    }
    assert {("cache", False, True), ("search", True, False), ("flink", False, True)} <= nowhere
    assert all(cell[4] is None for cell in cells if cell[2] == "flink")
    assert all(cell[3] is None for cell in cells if cell[1] == "produce")
