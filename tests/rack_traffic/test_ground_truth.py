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
from tests.support.oracles import traffic_sql
from tests.support.traffic_frames import stored
from tests.support.traffic_truth import BEGIN, Cell, Fault, Simulation, observe, simulate

CLEAN, FAULTY = 0.01, 0.03
SMALL = 0.02

SIMULATIONS: dict[str, frozenset[Fault]] = {
    "clean": frozenset(),
    **{str(fault): frozenset({fault}) for fault in Fault},
    "everything": frozenset(Fault),
}


class Results:
    """The simulations by name, and the results of the pipeline."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.simulations: dict[str, Simulation] = {}
        self.cells: dict[str, Counter[Cell]] = {name: Counter() for name in SIMULATIONS}
        self.estimated: Counter[str] = Counter()
        self.folder = folder
        rows: dict[str, list[dict[str, Any]]] = {}
        for name, faults in SIMULATIONS.items():
            self.simulations[name] = simulate(1, faults=faults)
            for table, seen in observe(self.simulations[name]).items():
                renamed = ({**row, "cluster": f"{name}/{row['cluster']}"} for row in seen)
                rows.setdefault(table, []).extend(renamed)
        self.rows = partition_hours(stored(spark, rows, folder), EstimationOptions()).collect()
        for row in self.rows:
            name, cluster = row.cluster.split("/")
            hour = int((row.hour.timestamp() - BEGIN.timestamp()) // 3600)
            if 0 <= hour < self.simulations[name].hours:
                cell = (cluster, row.kind, row.group, row.from_rack, row.to_rack, hour)
                self.cells[name][cell] += row.bytes
                self.estimated[name] += row.estimated_bytes

    def errors(self, name: str) -> list[tuple[float, Cell, float, float]]:
        """Return (error, cell, true bytes, computed bytes), the largest error first."""
        true_bytes, computed = self.simulations[name].true_bytes, self.cells[name]
        hours: Counter[tuple[object, ...]] = Counter()
        for cell, true in true_bytes.items():
            hours[*cell[:3], cell[5]] += true
        errors = []
        for cell in {*true_bytes, *computed}:
            min_bytes = SMALL * hours[*cell[:3], cell[5]]
            error = abs(computed[cell] - true_bytes[cell]) / max(true_bytes[cell], min_bytes, 1.0)
            errors.append((error, cell, true_bytes[cell], computed[cell]))
        return sorted(errors, key=lambda each: -each[0])


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return Results(spark, tmp_path_factory.mktemp("snapshots"))


@pytest.mark.parametrize("name", SIMULATIONS)
def test_computed_bytes_equal_the_bytes_read(results: Results, name: str) -> None:
    max_error = FAULTY if SIMULATIONS[name] else CLEAN
    errors = results.errors(name)
    assert len(errors) > 100
    assert [each for each in errors if each[0] > max_error] == []


@pytest.mark.parametrize("name", SIMULATIONS)
def test_the_error_of_the_total_is_smaller(results: Results, name: str) -> None:
    true, computed = results.simulations[name].true_bytes.total(), results.cells[name].total()
    assert computed == pytest.approx(true, rel=CLEAN / 2)


def test_only_faults_that_prevent_measuring_cause_estimates(results: Results) -> None:
    unmeasurable = {Fault.SET_BACK, Fault.EXPIRED_UNREAD, Fault.RECREATED}
    for name, faults in SIMULATIONS.items():
        assert (results.estimated[name] > 0) == bool(faults & unmeasurable), name


def test_rows_equal_those_of_the_duckdb_reference(results: Results) -> None:
    connection = traffic_sql.connect(str(results.folder))
    expected = connection.execute(traffic_sql.partition_hours(connection)).fetchall()
    assert traffic_sql.differences(results.rows, expected) == ""


def test_bytes_of_unknown_racks_are_counted_separately(results: Results) -> None:
    """A member, a broker and the consumers of a group have no rack; no rack is guessed."""
    cells = results.cells["clean"]
    unknown_racks = {
        (cell[2], cell[3] is None, cell[4] is None) for cell in cells if cell[1] == "consume"
    }
    assert {
        ("cache", False, True),
        ("search", True, False),
        ("flink", False, True),
    } <= unknown_racks
    assert all(cell[4] is None for cell in cells if cell[2] == "flink")
    assert all(cell[3] is None for cell in cells if cell[1] == "produce")
