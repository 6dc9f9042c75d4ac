"""Options from files, and the folder of results."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rackward.bench import BenchError
from rackward.bench.results import Options, ResultFolder, read_options
from rackward.bench.strategies import select_strategies
from rackward.config_files import ConfigError
from tests.support.bench_results import bench_run, crossing_result, result


def options_of(tmp_path: Path, text: str) -> Options:
    path = tmp_path / "bench.toml"
    path.write_text(text)
    return read_options(path)


def test_options_have_defaults(tmp_path: Path) -> None:
    assert options_of(tmp_path, "") == Options()
    assert options_of(tmp_path, 'workloads = ["decay"]\nrate = 2').workloads == ["decay"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('workloads = ["evn"]', "there is no workload 'evn': give one of even,"),
        ('strategies = ["java"]', "there is no strategy 'java': give one of kafka-python-range,"),
        ("partitions = 5", "partitions is 5: write a number from 6 to 600"),
        ("rates = 1", "unknown setting 'rates'; the settings are workloads,"),
        ("strategies = []", "strategies is not valid: write a list of keys"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_to_write(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        options_of(tmp_path, text)
    assert message in str(caught.value)


def test_the_short_form_is_one_workload_with_every_strategy_once() -> None:
    short = Options(repetitions=3, rate=2.0).short()
    assert (short.workloads, short.strategies, short.repetitions) == (["even"], None, 1)
    assert short.rate == 2.0


def test_results_are_read_as_they_were_written_in_the_order_of_the_tables(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path / "results")
    folder.begin(bench_run())
    ours, range_, again = (
        result(),
        crossing_result("kafka-python-range"),
        crossing_result("kafka-python-range", repetition=2),
    )
    for each in (ours, again, range_):
        folder.write(each)
    found = folder.read()
    assert list(found) == [("even", "kafka-python-range"), ("even", "rackward-kafka-python")]
    assert found["even", "kafka-python-range"] == [range_, again]
    assert folder.run() == bench_run()


def test_files_can_be_compared_line_by_line(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.begin(bench_run())
    folder.write(crossing_result("java-range"))
    text = folder.path("even", "java-range", 1).read_text()
    assert ' "workload": "even",\n "strategy": "java-range",\n' in text
    assert '  "a": {\n   "a": 405000,\n' in text
    assert len(text) < 2000


def test_only_what_is_missing_is_run_again(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.begin(bench_run())
    two = select_strategies(["java-range", "rackward-kafka-python"])
    folder.write(result())
    assert folder.missing("even", two, 1) == [two[0]]
    assert folder.missing("even", two, 2) == two
    assert folder.missing("decay", two, 1) == two


def test_results_of_other_options_are_not_continued(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.begin(bench_run(Options(seed=1)))
    # What is run may change, how may not.
    folder.begin(bench_run(Options(seed=1, workloads=["decay"], repetitions=2)))
    with pytest.raises(BenchError, match="made with other options: give another folder"):
        folder.begin(bench_run(Options(seed=2)))
    other = msgspec.structs.replace(bench_run(Options(seed=1)), versions={"Kafka": "3.9.1"})
    with pytest.raises(BenchError, match="made with other versions: give another folder"):
        folder.begin(other)


def test_a_run_that_is_continued_keeps_its_date(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.begin(bench_run())
    later = msgspec.structs.replace(
        bench_run(Options(workloads=["decay"])), began="2031-01-01", command="rackward bench run"
    )
    folder.begin(later)
    assert folder.run() == msgspec.structs.replace(later, began="2030-01-02")


def test_a_file_that_is_no_result_is_an_error(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.begin(bench_run())
    folder.write(result())
    path = folder.path("even", "rackward-kafka-python", 1)
    path.write_text("{}")
    with pytest.raises(BenchError, match=r"rackward-kafka-python.1.json cannot be read: .*missing"):
        folder.read()
