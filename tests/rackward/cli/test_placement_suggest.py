"""``rackward placement suggest`` with a running placement service."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from placement_core import InvalidOptionError, RackwardError, ReplicaLists, TopicPartition
from rackward.cli.main import app
from rackward.cli.options import ClusterOptions
from rackward.placement_service import MutualTls, PlacementRequest, ServiceRefusedError
from rackward.reassignment.plan import parse_kafka_json
from tests.support.placement_server import first_brokers, run_service
from tests.support.security import make_authority, write_file
from tests.support.simulated_cluster import cluster_state

SHAPE = ("--partitions", "2", "--replication-factor", "2")


def suggest(*arguments: str) -> None:
    app(["placement", "suggest", *arguments], standalone_mode=False)


def test_the_layout_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    requests: list[PlacementRequest] = []

    def handler(request: PlacementRequest) -> ReplicaLists:
        requests.append(request)
        return first_brokers(request)

    with run_service(handler) as service:
        suggest("--service", str(service.address), "-p", "70", "-r", "3")
        suggest(*SHAPE, "--service", str(service.address), "--force-simple", "--brokers", "0-2")
    out = capsys.readouterr().out
    assert "70 partitions, 3 replicas" in out
    assert " 0  0 1 2 " in out
    assert "... and 10 more: --all-partitions lists them" in out
    assert requests == [
        PlacementRequest(70, 3),
        PlacementRequest(2, 2, True, frozenset({0, 1, 2})),
    ]


def test_the_address_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with run_service() as service:
        monkeypatch.setenv("RACKWARD_PLACEMENT_SERVICE", str(service.address))
        suggest(*SHAPE, "--json")
    assert json.loads(capsys.readouterr().out) == {
        "schema_version": 1,
        "command": "placement suggest",
        "service": str(service.address),
        "partitions": 2,
        "replication_factor": 2,
        "replicas": {"0": [0, 1], "1": [0, 1]},
    }


def test_output_is_kafka_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "orders.json"
    layout = {TopicPartition("orders", number): (0, 1) for number in range(2)}
    with run_service() as service:
        options = ("--service", str(service.address))
        suggest(*SHAPE, *options, "--topic", "orders", "--output", str(file))
        assert parse_kafka_json("suggested", file.read_text()) == layout
        assert f"--reassignment-json-file {file}" in capsys.readouterr().err
        suggest(*SHAPE, *options, "--topic", "orders", "--output", "-")
    out, err = capsys.readouterr()
    assert parse_kafka_json("suggested", out) == layout
    assert "2 partitions, 2 replicas" in err


def test_with_a_cluster_racks_are_shown_and_the_topic_is_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    state = cluster_state({"orders": [(0, 2), (2, 4)], "other": [(0, 2)]})
    monkeypatch.setattr(ClusterOptions, "connect", lambda _: nullcontext())
    monkeypatch.setattr(
        "rackward.cli.placement_suggest.read_state",
        lambda _, topics, **__: state.only([each for each in topics if each in state.topics]),
    )
    file = tmp_path / "out.json"
    with run_service() as service:
        options = (*SHAPE, "--service", str(service.address), "--bootstrap-server", "b:1")
        suggest(*options)
        assert "0  0:a 1:a" in capsys.readouterr().out
        suggest(*options, "--topic", "orders", "--output", str(file))
        file.unlink()
        for topic, message in (
            ("other", "topic other has 1 partition:"),
            ("none", "unknown topic none"),
        ):
            with pytest.raises(RackwardError, match=message):
                suggest(*options, "--topic", topic, "--output", str(file))
    assert not file.exists()


def test_a_layout_with_placeholders_is_printed_but_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "orders.json"
    with (
        run_service(lambda _: ((4, -1), (5, -1))) as service,
        pytest.raises(InvalidOptionError, match="brokers are missing"),
    ):
        suggest(*SHAPE, "--service", str(service.address), "--topic", "orders", "-o", str(file))
    assert "0  4 -1" in capsys.readouterr().out
    assert not file.exists()


def test_the_error_of_the_service_is_reported() -> None:
    def handler(_: PlacementRequest) -> ReplicaLists:
        raise RackwardError("the room is full: build another")

    with (
        run_service(handler) as service,
        pytest.raises(ServiceRefusedError, match="the room is full"),
    ):
        suggest(*SHAPE, "--service", str(service.address))


def test_tls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = make_authority()
    signed = authority.sign("it")
    files = (
        write_file(tmp_path, "ca.pem", authority.pem),
        write_file(tmp_path, "it.pem", signed.pem),
        write_file(tmp_path, "key.pem", signed.key_pem()),
    )
    options = ("--ca-file", files[0], "--cert-file", files[1], "--key-file", files[2])
    with run_service(tls=MutualTls(*files)) as service:
        suggest(*SHAPE, "--service", str(service.address), *options)
    assert "0  0 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--service", "h:1", "--topic", "orders"), "--topic and --output belong together"),
        (("--service", "h:1", "--output", "f"), "--topic and --output belong together"),
        (("--service", "h:1", "--topic", "t", "--output", "-", "--json"), "both write to stdout"),
        (("--service", "h:1", "--cert-file", "f"), "--ca-file and --cert-file"),
        (("--service", "h:1", "--key-file", "f", "--ca-file", "f"), "--ca-file and --cert-file"),
        (("--service", "h:1", "--brokers", "x"), "--brokers x"),
        (("--service", "nowhere"), "'nowhere' is not host:port"),
    ],
)
def test_bad_options_are_errors_of_one_line(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RACKWARD_PLACEMENT_SERVICE", raising=False)
    with pytest.raises(RackwardError, match=message) as error:
        suggest(*SHAPE, *arguments)
    assert "\n" not in str(error.value)
