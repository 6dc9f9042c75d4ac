"""The demo's result: tables, JSON on stdout, JSON in a file, exit status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner
from typer.testing import Result as Done

from rackward.bench.results import Result
from rackward.bench.strategies import Strategy
from rackward.bench.workloads import RACKS, Event
from rackward.cli import demo
from rackward.cli.demo import DEMO_BATCH, DemoResult, demo_result, suboptimal_steps
from tests.support.bench_results import result, step


def strategy_result(strategy: Strategy, *, suboptimal: bool) -> Result:
    in_rack, crossing = (6_000_000, 0) if strategy.is_rackward else (2_400_000, 1_800_000)
    at_end = step(crossing=2 if suboptimal else 0, min_partitions=2, max_partitions=2)
    return result(
        strategy.key,
        seconds=30.0,
        produced_bytes=18_000_000,
        partitions=6,
        bytes={
            reader: {broker: in_rack if reader == broker else crossing for broker in RACKS}
            for reader in RACKS
        },
        steps=[
            msgspec.structs.replace(at_end, event=event.value)
            for event in (Event.START, *DEMO_BATCH.workload.events)
        ],
    )


def demo_result_of(*, suboptimal: bool = False) -> DemoResult:
    """Return a result; with ``suboptimal``, rackward's assignors are not optimal either."""
    results = [
        strategy_result(strategy, suboptimal=suboptimal or not strategy.is_rackward)
        for strategy in DEMO_BATCH.strategies
    ]
    return demo_result("aabbcc", results, 0.02)


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


def run(*arguments: str) -> Done:
    return CliRunner(env={"COLUMNS": "100"}).invoke(demo.app, list(arguments))


def test_tables_go_to_stdout_and_json_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "demo.json"
    done = run("--output", str(file))
    assert (done.exit_code, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    assert "rackward's groups read 100% fewer bytes across racks" in text
    for figure in ("40.0%", "100.0%", "10.8 MB", "$ 18.92", "$ 0.00", "3 of 3", "Optimal: "):
        assert figure in text
    document = json.loads(file.read_text(encoding="utf-8"))
    assert (document["is_optimal"], document["brokers"]) == (True, 6)
    assert document["results"][-1]["strategy"] == "rackward-kafka-python"
    assert document["results"][0]["bytes"]["a"]["b"] == 1_800_000


def test_json_is_alone_on_stdout() -> None:
    done = run("--json")
    assert done.exit_code == 0
    assert done.stdout == demo_result_of().to_json()
    assert "Optimal: after every rebalance" in " ".join(done.stderr.split())


def test_a_suboptimal_result_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRunner, "result", demo_result_of(suboptimal=True))
    done = run()
    assert done.exit_code == 1
    assert "rackward Range after 'all members start': 2 off-rack (optimum 0)" in " ".join(
        done.stdout.split()
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
    whole = demo_result_of()
    own = whole.results[-1]
    local = msgspec.structs.replace(own, strategy="kafka-python-range")
    assert demo.headline(msgspec.structs.replace(whole, results=[local, own])).startswith(
        "Nothing was read across racks"
    )
