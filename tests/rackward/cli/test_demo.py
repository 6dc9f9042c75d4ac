"""Where the command writes its result: tables, JSON on stdout, JSON in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rackward.bench.demo import DemoResult
from rackward.bench.sites import Site
from rackward.cli import demo
from tests.support.demo_results import demo_result_of

RESULT = demo_result_of(own_cluster=False)


class FakeRunner:
    """Returns a result at once, without a cluster."""

    result: DemoResult = RESULT

    def __init__(self, *_arguments: object) -> None:
        pass

    def run(self, _site: Site) -> object:
        return self.result.results

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site("a local cluster", "kafka:9092", dict(enumerate("aabbcc")))
    monkeypatch.setattr(demo, "existing_site", lambda _servers: site)
    monkeypatch.setattr(demo, "BatchRunner", FakeRunner)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(demo.app, ["--bootstrap-server", "kafka:9092", *arguments])


def test_the_tables_go_to_stdout_by_default() -> None:
    result = run()
    assert result.exit_code == 0
    assert result.stdout.startswith("Kafka's brokers and consumers run in several racks")
    assert "Optimal: after every rebalance" in result.stdout
    assert result.stderr == ""


def test_json_prints_nothing_but_json_to_stdout() -> None:
    result = run("--json")
    assert result.exit_code == 0
    assert result.stdout == RESULT.to_json()
    assert "Optimal: after every rebalance" in result.stderr


def test_output_writes_the_json_to_a_file_beside_the_tables(tmp_path: Path) -> None:
    file = tmp_path / "demo.json"
    result = run("--output", str(file))
    assert file.read_text(encoding="utf-8") == RESULT.to_json()
    assert "Optimal: after every rebalance" in result.stdout


def test_a_suboptimal_result_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRunner, "result", demo_result_of(suboptimal=True, own_cluster=False))
    assert run("--json").exit_code == 1
