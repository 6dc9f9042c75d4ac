"""Options from files, and the file of results."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rackward.bench import BenchError
from rackward.bench.results import Options, ResultFolder, read_options
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


def test_results_are_read_as_written_in_the_order_of_tables(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path / "results")
    folder.begin(bench_run())
    own, range_, again = (
        result(),
        crossing_result("kafka-python-range"),
        crossing_result("kafka-python-range", repetition=2),
    )
    folder.add([own, again])
    folder.add([range_])
    read = ResultFolder(tmp_path / "results")
    found = read.results()
    assert list(found) == [("even", "kafka-python-range"), ("even", "rackward-kafka-python")]
    assert found["even", "kafka-python-range"] == [range_, again]
    assert read.run == bench_run()


def test_a_result_measured_again_replaces_the_former_one(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.begin(bench_run())
    folder.add([result(revoked=1)])
    folder.add([result(revoked=2)])
    (found,) = ResultFolder(tmp_path).results()["even", "rackward-kafka-python"]
    assert found.revoked == 2


def test_only_what_is_missing_is_run_again(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.begin(bench_run())
    folder.add([result()])
    assert folder.has("even", "rackward-kafka-python", 1)
    assert not folder.has("even", "java-range", 1)
    assert not folder.has("even", "rackward-kafka-python", 2)
    assert not folder.has("decay", "rackward-kafka-python", 1)


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
    assert ResultFolder(tmp_path).run == msgspec.structs.replace(later, began="2030-01-02")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"kind":"result"}', "cannot be read: .*missing"),
        ('{"kind":"result","workl', "cannot be read: .*truncated"),
    ],
)
def test_a_line_that_is_no_result_is_an_error(tmp_path: Path, line: str, message: str) -> None:
    folder = ResultFolder(tmp_path)
    folder.begin(bench_run())
    with folder.path.open("a") as file:
        file.write(line)
    with pytest.raises(BenchError, match=f"results.jsonl {message}"):
        ResultFolder(tmp_path)


def test_a_result_of_an_unknown_workload_is_an_error(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.begin(bench_run())
    folder.add([result()])
    folder.path.write_text(folder.path.read_text().replace('"even"', '"evn"'))
    with pytest.raises(BenchError, match=r"cannot be read: there is no workload 'evn'"):
        ResultFolder(tmp_path)
