"""``rackward bench`` without a cluster: the report of a folder, and options that cannot be run."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from rackward.bench import BenchError
from rackward.bench.results import Options, ResultFolder
from rackward.cli.bench import app
from tests.support.bench_results import bench_run, crossing_result, result


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def a_folder(tmp_path: Path, *, contradicted: bool = False) -> Path:
    folder = ResultFolder(tmp_path / "results")
    folder.begin(bench_run())
    folder.add([result(spread=1.5 if contradicted else 1.0), crossing_result("java-range")])
    return folder.path.parent


def test_the_report_is_written_into_the_folder(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    done = bench("report", str(folder))
    assert done.exit_code == 0
    assert "## Even leaders" in (folder / "report.md").read_text()
    assert f"{folder / 'report.md'} is written" in done.stdout
    assert "not measured: " in done.stdout


def test_a_check_that_fails_is_an_exit_status_of_1(tmp_path: Path) -> None:
    done = bench("report", str(a_folder(tmp_path, contradicted=True)))
    assert done.exit_code == 1
    assert "FAILS: With even leaders and members" in done.stdout


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    error = bench("report", str(tmp_path)).exception
    assert isinstance(error, BenchError)
    assert str(error) == f"{tmp_path}/results.jsonl has no results: run rackward bench run first"


def test_other_options_are_an_error_before_a_cluster_is_started(tmp_path: Path) -> None:
    ResultFolder(tmp_path).begin(bench_run(Options(seed=7)))
    error = bench("run", "--short", "--output", str(tmp_path)).exception
    assert isinstance(error, BenchError)
    assert "made with other options" in str(error)
