"""Listening, stopping with requests in progress, what is logged, and what the placer is given."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from placement_core import ClusterView, InvalidOptionError, PlacementSpec, ReplicaLists
from placement_core.locators import StaticLocator
from placement_core.placers import RackAlternatingPlacer, SimplePlacer
from rackward.placement_service import (
    ListeningError,
    MutualTls,
    PlacementRequest,
    PlacementService,
    create_replica_placement,
    place_replicas,
    server,
)
from rackward.placement_service.server import RateLimitedLog
from tests.support.placement import cluster
from tests.support.placement_server import (
    Gate,
    first_brokers,
    receive_all,
    request_frame,
    run_service,
)
from tests.support.waiting import TEST_TIMEOUT, wait_until


def refuses_connections(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, TEST_TIMEOUT).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        # The listener was closed between the connection's first packet and its last.
        return False
    return False


def test_requests_in_progress_are_completed(gate: Gate) -> None:
    with socket.socket() as idle, socket.socket() as busy:
        with run_service(gate.handler, SHUTDOWN_SECONDS=TEST_TIMEOUT) as service:
            for each in (idle, busy):
                each.settimeout(TEST_TIMEOUT)
                each.connect(service.address)
            busy.sendall(request_frame(1, 2))
            gate.wait_for_request()

            def open_when_stopping() -> None:
                wait_until(
                    lambda: refuses_connections(service.address),
                    TEST_TIMEOUT,
                    "the listener is closed",
                )
                assert receive_all(idle) == b""
                gate.open()

            opening = threading.Thread(target=open_when_stopping, daemon=True)
            opening.start()
        opening.join(TEST_TIMEOUT)
        assert receive_all(busy).hex().endswith("000000000300000000000000010000")
        assert service.metrics.open_connections == 0


def test_requests_that_hang_are_abandoned(gate: Gate) -> None:
    with socket.socket() as busy:
        busy.settimeout(TEST_TIMEOUT)
        with run_service(gate.handler, SHUTDOWN_SECONDS=0.05) as service:
            busy.connect(service.address)
            busy.sendall(request_frame(1, 2))
            gate.wait_for_request()
        assert receive_all(busy) == b""
        assert service.metrics.open_connections == 0


def test_a_handler_that_hangs_does_not_keep_the_process_alive() -> None:
    program = """
import asyncio, sys, threading
from rackward.placement_service import PlacementService, create_replica_placement, server

server.SHUTDOWN_SECONDS = 0.05

async def main():
    called = threading.Event()
    def hang(request):
        called.set()
        threading.Event().wait()
    service = PlacementService(hang)
    async with service.listening() as address:
        arguments = (create_replica_placement, str(address), 1, 1)
        threading.Thread(target=lambda: arguments[0](*arguments[1:]), daemon=True).start()
        await asyncio.to_thread(called.wait)
threading.excepthook = lambda _: None
asyncio.run(main())
print("ended")
"""
    ended = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=TEST_TIMEOUT,
        check=False,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("ended\n", "", 0)


def test_listening_twice_in_an_event_loop() -> None:
    service = PlacementService(first_brokers)
    placements: list[ReplicaLists] = []

    async def main() -> None:
        for _ in range(2):
            async with service.listening() as address:
                placements.append(
                    await asyncio.to_thread(create_replica_placement, str(address), 1, 2)
                )
        with pytest.raises(ZeroDivisionError):
            async with service.listening() as address:
                raise ZeroDivisionError
        assert refuses_connections(address)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert placements == [((0, 1),)] * 2
    assert service.metrics.placements == 2


def test_addresses_that_cannot_be_used() -> None:
    async def listen(host: str, port: int = 0) -> None:
        async with PlacementService(first_brokers).listening(host, port):
            pass

    for host in ("0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.1"):
        with pytest.raises(InvalidOptionError, match="mutual TLS"):
            asyncio.run(listen(host))
    for host, port, message in (
        ("", 0, "is empty"),
        ("no.such.host.invalid", 0, "cannot be resolved"),
        ("a" * 70, 0, "cannot be resolved"),
        ("127.0.0.1", 65536, "port 65536"),
        ("127.0.0.1", -1, "port -1"),
    ):
        with pytest.raises(InvalidOptionError, match=message):
            asyncio.run(listen(host, port))
    asyncio.run(listen("127.0.0.1"))
    asyncio.run(listen("localhost"))


def test_a_port_that_is_in_use() -> None:
    async def listen(port: int) -> None:
        async with PlacementService(first_brokers).listening(port=port):
            pass

    with (
        run_service() as service,
        pytest.raises(ListeningError, match=f"cannot listen on .*:{service.address.port}"),
    ):
        asyncio.run(listen(service.address.port))


def test_invalid_tls_files_are_named() -> None:
    async def listen() -> None:
        tls = MutualTls("/nonexistent/ca.pem", "/nonexistent/it.pem")
        async with PlacementService(first_brokers).listening(tls=tls):
            pass

    with pytest.raises(ValueError, match=r"^ca_file: '/nonexistent/ca\.pem' cannot be"):
        asyncio.run(listen())


def test_an_unexpected_exception_is_logged_and_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def handler(_: PlacementRequest) -> ReplicaLists:
        raise KeyError("password")

    with run_service(handler) as service:
        response = service.exchange(request_frame(1, 1))
    assert b"the service failed with KeyError: see its log" in response
    assert b"password" not in response
    assert "KeyError: 'password'" in caplog.text


def test_warnings_are_rate_limited_and_hide_what_peers_send(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with run_service() as service:
        for _ in range(50):
            with service.connect() as connection:
                connection.sendall(b"GET /\x1b[31m HTTP/1.1\r\n\r\n")
                assert receive_all(connection) == b""
        assert service.metrics.invalid_frames == 50
    lines = [each for each in caplog.messages if "connection closed" in each]
    # One, unless the fifty took longer than the interval.
    assert 1 <= len(lines) < 10
    assert "GET" not in caplog.text
    assert "\x1b" not in caplog.text


def test_suppressed_warnings_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, 1.0, 9.9, 5.0, 10.0, 10.1, 30.0])
    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=now.__next__))
    log = RateLimitedLog(logging.getLogger("rate-limited"))
    for kind in ("a", "a", "a", "b", "a", "a", "a"):
        log.warn(kind, f"of {kind}")
    assert caplog.messages == [
        "of a",
        "of b",
        "of a (similar warnings suppressed: 2)",
        "of a (similar warnings suppressed: 1)",
    ]


# ---- What the placer is given.

GUIDE = Path(__file__).parents[3] / "docs" / "placement.md"

ORDERS = SimplePlacer(seed=9).place(PlacementSpec(16, 3), cluster([None] * 6))
VIEW = cluster(["/a/1", "/a/2", "/b/1", "/b/2", "/c/1", "/c/1"], orders=ORDERS)
FALLBACK = SimplePlacer(seed=4)


def test_the_locator_is_called_per_request_unless_simple() -> None:
    racks = {0: "x", 1: "x", 2: "y", 3: "y", 4: "z", 5: "z"}
    seen: list[ClusterView] = []

    class Located(StaticLocator):
        def racks(self, view: ClusterView) -> dict[int, str]:
            seen.append(view)
            return dict(racks)

    placer = RackAlternatingPlacer(start_index=0)

    def place_on_racks(*, simple: bool) -> ReplicaLists:
        request = PlacementRequest(1, 3, force_simple_placement=simple)
        return place_replicas(request, VIEW, placer, locator=Located(racks), fallback=FALLBACK)

    assert place_on_racks(simple=False) == ((0, 2, 4),)
    racks.update({1: "y", 2: "x"})
    assert place_on_racks(simple=False) == ((0, 1, 4),)
    assert place_on_racks(simple=True) == FALLBACK.place(PlacementSpec(1, 3), VIEW)
    assert len(seen) == 2


def test_racks_can_be_ignored() -> None:
    request = PlacementRequest(9, 3)
    placer = RackAlternatingPlacer(start_index=0)
    result = place_replicas(request, VIEW, placer, ignore_racks=True)
    assert result == SimplePlacer(start_index=0).place(PlacementSpec(9, 3), VIEW)


def test_the_program_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    section = GUIDE.read_text(encoding="utf-8").split("### In a program")[1]
    program = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert program is not None
    exec(compile(program[1], str(GUIDE), "exec"), {"__name__": "guide"})
    rows, metrics = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\(\((\d, ){2}\d\), \((\d, ){2}\d\)\)", rows)
    assert "placements=1" in metrics
