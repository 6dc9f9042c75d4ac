"""The health port, on real sockets."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from rackward.health import MAX_CONNECTIONS, HealthServer, PortError, Readiness
from rackward.placement_service import MutualTls
from tests.support.security import make_authority
from tests.support.waiting import TEST_TIMEOUT, wait_until


class State:
    ready = True


def ready() -> Readiness:
    return Readiness(State.ready, {"records": 2})


@pytest.fixture
def server() -> Iterator[HealthServer]:
    registry = CollectorRegistry()
    Counter("records", "Records.", registry=registry).inc(2)
    server = HealthServer("127.0.0.1", 0, ready, lambda: {"groups": ["billing"]}, registry)
    yield server
    server.close()
    State.ready = True


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


def test_metrics_and_status(server: HealthServer) -> None:
    status, body = get(server, "/metrics")
    assert (status, "records_total 2.0" in body) == (200, True)
    status, body = get(server, "/status")
    assert (status, json.loads(body)) == (200, {"groups": ["billing"]})


def test_other_paths(server: HealthServer) -> None:
    status, body = get(server, "/")
    assert status == 404
    assert "/health/ready" in body


def test_a_fault_of_the_process_is_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> Any:
        raise KeyError("secret-free")

    server = HealthServer("127.0.0.1", 0, fail, fail, CollectorRegistry())
    try:
        status, body = get(server, "/health/ready")
        assert (status, body) == (500, "internal error: see the log\n")
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
    server = HealthServer("127.0.0.1", 0, ready, dict, CollectorRegistry(), MutualTls(ca, cert))
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
        HealthServer(host, number, ready, dict, CollectorRegistry())
