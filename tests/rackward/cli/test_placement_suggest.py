"""``rackward placement suggest``, against a service that runs beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placement_core import InvalidOptionError, RackwardError, ReplicaLists, TopicPartition
from placement_core.reassignment import from_kafka_json
from rackward.cli.main import app
from rackward.placement_service import MutualTls, PlacementQuestion, ServiceRefusedError
from tests.support.certificates import make_authority, written
from tests.support.placement_server import in_turn, running

SHAPE = ("--partitions", "2", "--replication-factor", "2")


def suggest(*arguments: str) -> None:
    app(["placement", "suggest", *arguments], standalone_mode=False)


def test_the_layout_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[PlacementQuestion] = []

    def placing(question: PlacementQuestion) -> ReplicaLists:
        asked.append(question)
        return in_turn(question)

    with running(placing) as served:
        suggest("--service", str(served.address), "-p", "70", "-r", "3")
        suggest(*SHAPE, "--service", str(served.address), "--force-simple", "--brokers", "0-2")
    out = capsys.readouterr().out
    assert "70 partitions, 3 replicas" in out
    assert " 0  0 1 2 " in out
    assert "... and 10 more: --every-partition shows them" in out
    assert asked == [
        PlacementQuestion(70, 3),
        PlacementQuestion(2, 2, True, frozenset({0, 1, 2})),
    ]


def test_the_service_may_be_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running() as served:
        monkeypatch.setenv("RACKWARD_PLACEMENT_SERVICE", str(served.address))
        suggest(*SHAPE, "--json")
    assert json.loads(capsys.readouterr().out) == {
        "schema_version": 1,
        "command": "placement suggest",
        "service": str(served.address),
        "partitions": 2,
        "replication_factor": 2,
        "replicas": {"0": [0, 1], "1": [0, 1]},
    }


def test_a_reassignment_that_apply_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "orders.json"
    layout = {TopicPartition("orders", number): (0, 1) for number in range(2)}
    with running() as served:
        service = ("--service", str(served.address))
        suggest(*SHAPE, *service, "--topic", "orders", "--output", str(file))
        assert from_kafka_json(file.read_text()) == layout
        assert f"--reassignment-json-file {file}" in capsys.readouterr().err
        suggest(*SHAPE, *service, "--topic", "orders", "--output", "-")
    out, err = capsys.readouterr()
    assert from_kafka_json(out) == layout
    assert "2 partitions, 2 replicas" in err


def test_missing_brokers_are_shown_and_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "orders.json"
    with (
        running(lambda _: ((4, -1), (5, -1))) as served,
        pytest.raises(InvalidOptionError, match="brokers are missing"),
    ):
        suggest(*SHAPE, "--service", str(served.address), "--topic", "orders", "-o", str(file))
    assert "0  4 -1" in capsys.readouterr().out
    assert not file.exists()


def test_the_services_reason_is_the_commands() -> None:
    def placing(_: PlacementQuestion) -> ReplicaLists:
        raise RackwardError("the room is full: build another")

    with running(placing) as served, pytest.raises(ServiceRefusedError, match="the room is full"):
        suggest(*SHAPE, "--service", str(served.address))


def test_tls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = make_authority()
    signed = authority.sign("it")
    files = (
        written(tmp_path, "ca.pem", authority.pem),
        written(tmp_path, "it.pem", signed.pem),
        written(tmp_path, "key.pem", signed.key_pem()),
    )
    options = ("--ca-file", files[0], "--cert-file", files[1], "--key-file", files[2])
    with running(tls=MutualTls(*files)) as served:
        suggest(*SHAPE, "--service", str(served.address), *options)
    assert "0  0 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--service", "h:1", "--topic", "orders"), "--topic and --output belong together"),
        (("--service", "h:1", "--output", "f"), "--topic and --output belong together"),
        (("--service", "h:1", "--topic", "t", "--output", "-", "--json"), "for one of the two"),
        (("--service", "h:1", "--cert-file", "f"), "--ca-file and --cert-file"),
        (("--service", "h:1", "--key-file", "f", "--ca-file", "f"), "--ca-file and --cert-file"),
        (("--service", "h:1", "--brokers", "x"), "--brokers x"),
        (
            (
                "--service",
                "nowhere",
            ),
            "'nowhere' is not of the form host:port",
        ),
    ],
)
def test_bad_options_are_told_in_one_line(
    arguments: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RACKWARD_PLACEMENT_SERVICE", raising=False)
    with pytest.raises(RackwardError, match=told) as error:
        suggest(*SHAPE, *arguments)
    assert "\n" not in str(error.value)
