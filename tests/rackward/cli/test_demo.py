"""The demo's result: tables, JSON on stdout, JSON in a file, exit status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from rackward.bench.demo import DemoResult, suboptimal_steps
from rackward.cli import demo
from tests.support.demo_results import demo_result_of


class FakeRunner:
    """Returns a result at once, without a cluster."""

    result: DemoResult = demo_result_of()

    def __init__(self, *_arguments: object) -> None:
        pass

    def run(self, _cluster: object) -> object:
        return self.result.results

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def cluster(*_arguments: object, **_options: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(demo, "counting_cluster", cluster)
    monkeypatch.setattr(demo, "BatchRunner", FakeRunner)


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(demo.app, list(arguments))


def test_tables_go_to_stdout_and_json_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "demo.json"
    result = run("--output", str(file))
    assert (result.exit_code, result.stderr) == (0, "")
    text = " ".join(result.stdout.split())
    assert "rackward's groups read 100% fewer bytes across racks" in text
    for figure in ("40.0%", "100.0%", "10.8 MB", "$ 18.92", "$ 0.00", "3 of 3", "Optimal: "):
        assert figure in text
    document = json.loads(file.read_text(encoding="utf-8"))
    assert (document["is_optimal"], document["brokers"]) == (True, 6)
    assert document["results"][-1]["strategy"] == "rackward-kafka-python"
    assert document["results"][0]["bytes"]["a"]["b"] == 1_800_000


def test_json_is_alone_on_stdout() -> None:
    result = run("--json")
    assert result.exit_code == 0
    assert result.stdout == demo_result_of().to_json()
    assert "Optimal: after every rebalance" in " ".join(result.stderr.split())


def test_a_suboptimal_result_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRunner, "result", demo_result_of(suboptimal=True))
    result = run()
    assert result.exit_code == 1
    assert "rackward Range after 'all members start': 2 off-rack (optimum 0)" in " ".join(
        result.stdout.split()
    )


def test_only_rebalances_must_be_optimal_and_balanced() -> None:
    events = ["start", "member-leaves", "member-joins"]
    own = demo_result_of(suboptimal=True).results[-1]
    assert [step.event for step in suboptimal_steps(own)] == events
    own = demo_result_of().results[-1]
    steps = [msgspec.structs.replace(step, max_partitions=4) for step in own.steps]
    uneven = msgspec.structs.replace(own, steps=steps)
    assert [step.event for step in suboptimal_steps(uneven)] == events


def test_without_bytes_across_racks_nothing_can_be_saved() -> None:
    result = demo_result_of()
    own = result.results[-1]
    local = msgspec.structs.replace(own, strategy="kafka-python-range")
    assert demo.headline(msgspec.structs.replace(result, results=[local, own])).startswith(
        "Nothing was read across racks"
    )
