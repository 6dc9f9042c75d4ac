"""The pipeline on simulations whose traffic is known: clean, and with each kind of fault.

All simulations are clusters of one run. An error is that of one cell (group, pair of racks, hour),
relative to its true bytes. For a cell below 2 % of its group's hour it is relative to these 2 %,
because the snapshots do not show more precisely how long such traffic lasted.

Readers of logs that are compacted again and again are in the same run: they are exact near the end,
and marked as estimates behind the cleaner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rack_traffic.options import EstimationOptions
from rack_traffic.pipeline import partition_hours
from tests.support.oracles import traffic_sql
from tests.support.traffic_frames import stored
from tests.support.traffic_truth import (
    BEGIN,
    Cell,
    Fault,
    Simulation,
    compacted_logs,
    observe,
    simulate,
)

CLEAN, FAULTY = 0.01, 0.03
SMALL = 0.02

SHARING = {Fault.DUPLICATES, Fault.LATE, Fault.FLAKY, Fault.REBALANCING}
"""Faults of the collector of which two share a simulation."""

SIMULATIONS: dict[str, frozenset[Fault]] = {
    "clean": frozenset(),
    "late duplicates": frozenset({Fault.DUPLICATES, Fault.LATE}),
    "flaky while rebalancing": frozenset({Fault.FLAKY, Fault.REBALANCING}),
    **{str(fault): frozenset({fault}) for fault in Fault if fault not in SHARING},
    "everything": frozenset(Fault),
}


class Results:
    """The simulations by name, and the results of the pipeline."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.simulations: dict[str, Simulation] = {}
        self.cells: dict[str, Counter[Cell]] = {name: Counter() for name in SIMULATIONS}
        self.estimated: Counter[str] = Counter()
        self.folder = folder
        rows, self.true_of_compacted = compacted_logs()
        self.compacted = {cell: [0, 0] for cell in self.true_of_compacted}
        """(cluster, group) of compacted logs to its bytes, and those of them that are estimated."""
        for name, faults in SIMULATIONS.items():
            self.simulations[name] = simulate(1, faults=faults)
            for table, seen in observe(self.simulations[name]).items():
                renamed = ({**row, "cluster": f"{name}/{row['cluster']}"} for row in seen)
                rows[table].extend(renamed)
        self.rows = partition_hours(stored(spark, rows, folder), EstimationOptions()).collect()
        for row in self.rows:
            hour = int((row.hour.timestamp() - BEGIN.timestamp()) // 3600)
            if (of_compacted := self.compacted.get((row.cluster, row.group))) is not None:
                if hour >= 0:
                    of_compacted[0] += row.bytes
                    of_compacted[1] += row.estimated_bytes
                continue
            name, _, cluster = row.cluster.partition("/")
            if name in self.simulations and 0 <= hour < self.simulations[name].hours:
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
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    # With code that Spark generates, as outside of tests.
    codegen = "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"
    for name, value in zip(codegen, ("true", "FALLBACK"), strict=True):
        spark.conf.set(name, value)
    yield Results(spark, tmp_path_factory.mktemp("snapshots"))
    for name, value in zip(codegen, ("false", "NO_CODEGEN"), strict=True):
        spark.conf.set(name, value)


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


def compacted(results: Results) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the relative error of each reader of a compacted log, and the estimated share."""
    return {
        cell: (size / results.true_of_compacted[cell] - 1, estimated / size)
        for cell, (size, estimated) in results.compacted.items()
    }


def test_the_newest_records_of_compacted_logs_are_exact(results: Results) -> None:
    newest = {cell: each for cell, each in compacted(results).items() if cell[1] == "2"}
    assert len(newest) == 6
    assert {cell: each for cell, each in newest.items() if abs(each[0]) > 0.02 or each[1]} == {}


def test_what_may_be_wrong_after_compaction_is_marked(results: Results) -> None:
    cells = compacted(results)
    assert 0.3 < max(abs(error) for error, _ in cells.values()) < 0.5
    wrong = {cell: each for cell, each in cells.items() if abs(each[0]) > 0.03}
    assert len(wrong) > 10
    assert {cell for cell, (_, estimated) in wrong.items() if estimated < 0.04} == set()
