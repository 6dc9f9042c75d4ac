"""The health port, on real sockets."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from rackward.controller.http import (
    MAX_CONNECTIONS,
    ControllerMetrics,
    Health,
    HealthServer,
    MetricsCollector,
    PortError,
)
from rackward.controller.reconciler import ReconcileStatus
from rackward.lead import LeadStatus
from rackward.lead.assigner import AssignmentMetrics
from rackward.lead.led_group import LEADING, WAITING
from rackward.placement_service import MutualTls, ServiceMetrics
from tests.support.security import make_authority
from tests.support.waiting import TEST_TIMEOUT, wait_until

METRICS = ControllerMetrics(
    ReconcileStatus(
        active=True, records=2, partitions=7, in_progress=3, waiting=4, offsets=9, read=8
    ),
    requested=11,
    passes=20,
    failed_passes=1,
    last_response=1234.5,
    leader_layouts=0,
    service=ServiceMetrics(open_connections=5, requests=6),
    led=(
        LeadStatus(
            "billing",
            LEADING,
            metrics=AssignmentMetrics(members=3, partitions=12, off_rack=2, optimum=1),
            last_rebalance=datetime.fromtimestamp(1234.5, UTC),
        ),
        LeadStatus("orders", WAITING),
    ),
)


GUIDE = Path(__file__).parents[3] / "docs" / "controller.md"


class State:
    ready = True


@pytest.fixture
def server() -> Iterator[HealthServer]:
    registry = CollectorRegistry()
    registry.register(MetricsCollector(lambda: METRICS))
    server = HealthServer("127.0.0.1", 0, lambda: Health(State.ready, {"records": 2}), registry)
    yield server
    server.close()
    State.ready = True


def test_the_guide_names_every_metric_and_no_other() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    section = text[text.index("## Monitoring") : text.index("## Leader layouts")]
    named = set(re.findall(r"`([a-z][a-z_]+)`", section)) - {"rackward_controller_"}
    prefix = "rackward_controller_"
    served = {
        family.name.removeprefix(prefix) + ("_total" if family.type == "counter" else "")
        for family in MetricsCollector(lambda: METRICS).collect()
        if family.name.startswith(prefix)
    }
    assert named == {name for name in served if not name.startswith("service_")}


def get(server: HealthServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(
            f"http://{server.address}{path}", timeout=TEST_TIMEOUT
        ) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_live_and_ready(server: HealthServer) -> None:
    assert get(server, "/health/live") == (200, "live\n")
    status, body = get(server, "/health/ready")
    assert (status, json.loads(body)) == (200, {"ready": True, "records": 2})
    State.ready = False
    status, body = get(server, "/health/ready")
    assert (status, json.loads(body)) == (503, {"ready": False, "records": 2})


def test_metrics(server: HealthServer) -> None:
    status, body = get(server, "/metrics")
    assert status == 200
    values = dict(line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))
    assert float(values["rackward_controller_active"]) == 1
    assert float(values["rackward_controller_pending_partitions"]) == 7
    assert float(values["rackward_controller_placeholders_waiting"]) == 4
    assert float(values["rackward_controller_topic_offsets"]) == 9
    assert float(values["rackward_controller_topic_offsets_read"]) == 8
    assert float(values["rackward_controller_reassignments_total"]) == 11
    assert float(values["rackward_controller_service_open_connections"]) == 5
    assert float(values["rackward_controller_service_requests_total"]) == 6
    led = {name: float(value) for name, value in values.items() if name.startswith("rackward_lead")}
    # All of them are in tests/rackward/lead/test_metrics.py.
    assert (
        led.items()
        >= {
            'rackward_lead_leading{group="billing"}': 1,
            'rackward_lead_leading{group="orders"}': 0,
            'rackward_lead_members{group="billing"}': 3,
            'rackward_lead_partitions{group="billing"}': 12,
            'rackward_lead_last_assignment_timestamp_seconds{group="billing"}': 1234.5,
            'rackward_lead_off_rack_partitions{group="billing"}': 2,
            'rackward_lead_optimum_partitions{group="billing"}': 1,
        }.items()
    )


def test_other_paths(server: HealthServer) -> None:
    status, body = get(server, "/")
    assert status == 404
    assert "/health/ready" in body


def test_a_fault_of_the_process_is_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> Any:
        raise KeyError("secret-free")

    registry = CollectorRegistry()
    registry.register(MetricsCollector(lambda: METRICS))
    server = HealthServer("127.0.0.1", 0, fail, registry)
    try:
        status, body = get(server, "/health/ready")
        assert (status, body) == (500, "internal error: see the log of the controller\n")
    finally:
        server.close()
    (record,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert record.getMessage() == "health port: /health/ready failed"
    assert record.exc_info is not None
    assert capfd.readouterr().err == ""


def test_mutual_tls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = make_authority()
    files = {"ca": authority.pem}
    for name in ("server", "client"):
        signed = authority.sign(name)
        files[name] = signed.pem + signed.key_pem()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    ca, cert, client = (str(tmp_path / name) for name in ("ca", "server", "client"))
    server = HealthServer(
        "127.0.0.1", 0, lambda: Health(True, {}), CollectorRegistry(), MutualTls(ca, cert)
    )
    try:
        context = MutualTls(ca, client).client_context()
        url = f"https://{server.address}/health/live"
        with urllib.request.urlopen(url, timeout=TEST_TIMEOUT, context=context) as response:
            assert response.read() == b"live\n"
        anonymous = ssl.create_default_context(cafile=ca)
        with pytest.raises(OSError):
            urllib.request.urlopen(url, timeout=TEST_TIMEOUT, context=anonymous)
        with pytest.raises((OSError, http.client.HTTPException)):
            urllib.request.urlopen(f"http://{server.address}/health/live", timeout=TEST_TIMEOUT)
        wait_until(
            lambda: any("request failed: peer=127.0.0.1" in text for text in caplog.messages),
            TEST_TIMEOUT,
            "the failed handshake is logged",
        )
    finally:
        server.close()


def test_connections_are_limited(server: HealthServer) -> None:
    """The server closes connections beyond the limit, and continues to serve others."""
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS - 1):
            stack.enter_context(socket.create_connection(server.address, TEST_TIMEOUT))
        assert get(server, "/health/live")[0] == 200
        for _ in range(50):
            stack.enter_context(socket.create_connection(server.address, TEST_TIMEOUT))

    def is_live() -> bool:
        try:
            return get(server, "/health/live")[0] == 200
        except OSError:
            return False

    # The clients have closed their connections, which the server notices a moment later.
    wait_until(is_live, TEST_TIMEOUT, "the server responds again")


def test_a_port_that_is_in_use(server: HealthServer) -> None:
    host, number = server.address
    with pytest.raises(PortError, match=f"{host}:{number} cannot be opened"):
        HealthServer(host, number, lambda: Health(True, {}), CollectorRegistry())


def test_the_queue_of_connections(server: HealthServer) -> None:
    """Clients that connect at the same time must not wait for retransmissions."""
    assert server._server.request_queue_size == 128
