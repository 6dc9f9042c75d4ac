"""The service ends when it is told to, whatever is under way."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
import threading

import pytest

from placement_core import InvalidOptionError, ReplicaLists
from rackward.placement_service import (
    ListeningError,
    MutualTls,
    PlacementQuestion,
    PlacementService,
    ServiceLimits,
    create_replica_placement,
)
from rackward.placement_service.protocol import PlacementRequest
from rackward.placement_service.server import SparingLog
from tests.support.placement_server import (
    Gate,
    eventually,
    everything,
    framed_request,
    in_turn,
    running,
)
from tests.support.waiting import PATIENCE


def closed_to_others(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False


def test_what_is_under_way_is_answered(gate: Gate) -> None:
    limits = ServiceLimits(closing_seconds=PATIENCE)
    with socket.socket() as idle, socket.socket() as asking:
        with running(gate.placing, limits) as served:
            for each in (idle, asking):
                each.settimeout(PATIENCE)
                each.connect(served.address)
            asking.sendall(framed_request(PlacementRequest(1, 2)))
            gate.await_one()

            def open_when_closing() -> None:
                eventually("closing", lambda: closed_to_others(served.address))
                assert everything(idle) == b""
                gate.open()

            opening = threading.Thread(target=open_when_closing, daemon=True)
            opening.start()
        opening.join(PATIENCE)
        assert everything(asking).hex().endswith("000000000300000000000000010000")
        assert served.service.counts.open_connections == 0


def test_what_hangs_is_given_up(gate: Gate) -> None:
    limits = ServiceLimits(closing_seconds=0.05)
    with socket.socket() as asking:
        asking.settimeout(PATIENCE)
        with running(gate.placing, limits) as served:
            asking.connect(served.address)
            asking.sendall(framed_request(PlacementRequest(1, 2)))
            gate.await_one()
        assert everything(asking) == b""
        assert served.service.counts.open_connections == 0


def test_a_placer_that_hangs_does_not_keep_the_process() -> None:
    program = """
import asyncio, sys, threading
from rackward.placement_service import PlacementService, ServiceLimits, create_replica_placement

async def main():
    asked = threading.Event()
    def hang(question):
        asked.set()
        threading.Event().wait()
    service = PlacementService(hang, ServiceLimits(closing_seconds=0.05))
    async with service.listening() as address:
        arguments = (create_replica_placement, str(address), 1, 1)
        threading.Thread(target=lambda: arguments[0](*arguments[1:]), daemon=True).start()
        await asyncio.to_thread(asked.wait)
threading.excepthook = lambda _: None
asyncio.run(main())
print("ended")
"""
    ended = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("ended\n", "", 0)


def test_it_lives_in_somebody_elses_loop_and_listens_again() -> None:
    service = PlacementService(in_turn)
    placed: list[ReplicaLists] = []

    async def main() -> None:
        for _ in range(2):
            async with service.listening() as address:
                placed.append(await asyncio.to_thread(create_replica_placement, str(address), 1, 2))
        # Its trouble is the program's, and it ends for that too.
        with pytest.raises(ZeroDivisionError):
            async with service.listening() as address:
                raise ZeroDivisionError
        assert closed_to_others(address)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert placed == [((0, 1),)] * 2
    assert service.counts.placements == 2


def test_an_address_that_is_not_loopback_wants_mutual_tls() -> None:
    async def listen(host: str, port: int = 0) -> None:
        async with PlacementService(in_turn).listening(host, port):
            pass

    for host in ("0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.1"):
        with pytest.raises(InvalidOptionError, match="mutual TLS"):
            asyncio.run(listen(host))
    for host, port, told in (
        ("", 0, "is empty"),
        ("no.such.host.invalid", 0, "is not known"),
        ("a" * 70, 0, "is not known"),
        ("127.0.0.1", 65536, "port 65536"),
        ("127.0.0.1", -1, "port -1"),
    ):
        with pytest.raises(InvalidOptionError, match=told):
            asyncio.run(listen(host, port))
    asyncio.run(listen("127.0.0.1"))
    asyncio.run(listen("localhost"))


def test_a_port_that_is_taken() -> None:
    async def listen(port: int) -> None:
        async with PlacementService(in_turn).listening(port=port):
            pass

    with running() as served, pytest.raises(ListeningError, match=f":{served.address.port} cannot"):
        asyncio.run(listen(served.address.port))


def test_files_that_cannot_be_used_are_named_before_it_listens() -> None:
    async def listen() -> None:
        tls = MutualTls("/nonexistent/ca.pem", "/nonexistent/it.pem")
        async with PlacementService(in_turn).listening(tls=tls):
            pass

    with pytest.raises(ValueError, match=r"^ca_file: '/nonexistent/ca\.pem' cannot be"):
        asyncio.run(listen())


def test_an_unexpected_error_is_logged_with_its_traceback_and_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def placing(_: PlacementQuestion) -> ReplicaLists:
        raise KeyError("password")

    with running(placing) as served, served.connect() as connection:
        connection.sendall(framed_request(PlacementRequest(1, 1)))
        connection.shutdown(socket.SHUT_WR)
        answered = everything(connection)
    assert b"the service failed with KeyError: its log may say more" in answered
    assert b"password" not in answered
    assert "KeyError: 'password'" in caplog.text


def test_what_peers_send_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with running() as served:
        for _ in range(50):
            with served.connect() as connection:
                connection.sendall(b"GET /\x1b[31m HTTP/1.1\r\n\r\n")
                assert everything(connection) == b""
        assert served.service.counts.refused_frames == 50
    lines = [each for each in caplog.messages if "hung up on" in each]
    # One, unless fifty took longer than the interval.
    assert 1 <= len(lines) < 10
    assert "GET" not in caplog.text
    assert "\x1b" not in caplog.text


def test_a_log_says_how_much_it_did_not_say(caplog: pytest.LogCaptureFixture) -> None:
    now = iter([0.0, 1.0, 9.9, 5.0, 10.0, 10.1, 30.0])
    log = SparingLog(logging.getLogger("sparing"), 10.0, lambda: next(now))
    for kind in ("a", "a", "a", "b", "a", "a", "a"):
        log.warn(kind, f"of {kind}")
    assert caplog.messages == [
        "of a",
        "of b",
        "of a (2 more like it were not logged)",
        "of a (1 more like it were not logged)",
    ]
