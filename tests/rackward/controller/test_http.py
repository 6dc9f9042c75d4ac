"""The port of health and metrics, on real sockets."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry

from rackward.controller.http import (
    MOST_AT_ONCE,
    ControllerCollector,
    Figures,
    Health,
    HealthPort,
    PortError,
)
from rackward.controller.reconciler import Kept
from rackward.placement_service import ServiceCounts
from tests.support.waiting import PATIENCE, wait_until

FIGURES = Figures(
    Kept(held=True, intents=2, open=7, under_way=3, waiting=4),
    asked=11,
    turns=20,
    failures=1,
    answered=1234.5,
    layouts=0,
    service=ServiceCounts(open_connections=5, requests=6),
)


class State:
    ready = True


@pytest.fixture
def port() -> Iterator[HealthPort]:
    registry = CollectorRegistry()
    registry.register(ControllerCollector(lambda: FIGURES))
    made = HealthPort("127.0.0.1", 0, lambda: Health(State.ready, {"intents": 2}), registry)
    yield made
    made.close()
    State.ready = True


def get(port: HealthPort, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{port.address}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_live_and_ready(port: HealthPort) -> None:
    assert get(port, "/health/live") == (200, "live\n")
    status, body = get(port, "/health/ready")
    assert (status, json.loads(body)) == (200, {"ready": True, "intents": 2})
    State.ready = False
    status, body = get(port, "/health/ready")
    assert (status, json.loads(body)) == (503, {"ready": False, "intents": 2})


def test_metrics(port: HealthPort) -> None:
    status, body = get(port, "/metrics")
    assert status == 200
    told = dict(line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))
    assert float(told["rackward_controller_lease_held"]) == 1
    assert float(told["rackward_controller_intent_partitions"]) == 7
    assert float(told["rackward_controller_placeholders_waiting"]) == 4
    assert float(told["rackward_controller_fills_total"]) == 11
    assert float(told["rackward_controller_service_open_connections"]) == 5
    assert float(told["rackward_controller_service_requests_total"]) == 6


def test_other_paths_say_what_there_is(port: HealthPort) -> None:
    status, body = get(port, "/")
    assert status == 404
    assert "/health/ready" in body


def test_those_who_say_nothing_leave_room_for_others(port: HealthPort) -> None:
    """One who hangs gets no answer, and one too many is hung up on; it lives on."""
    with ExitStack() as stack:
        for _ in range(MOST_AT_ONCE - 1):
            stack.enter_context(socket.create_connection(port.address, PATIENCE))
        assert get(port, "/health/live")[0] == 200
        for _ in range(50):
            stack.enter_context(socket.create_connection(port.address, PATIENCE))

    def is_live() -> bool:
        try:
            return get(port, "/health/live")[0] == 200
        except OSError:
            return False

    # They hung up: their places are free again, at once or a moment later.
    wait_until(is_live, PATIENCE, "somebody is answered again")


def test_a_port_that_is_taken_is_named(port: HealthPort) -> None:
    host, number = port.address
    with pytest.raises(PortError, match=f"{host}:{number} cannot be listened at"):
        HealthPort(host, number, lambda: Health(True, {}), CollectorRegistry())
