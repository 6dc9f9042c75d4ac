"""The placement service as a controller opens it, also for other machines."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest

from placement_core import InvalidOptionError
from rackward.controller.app import ServiceThread
from rackward.controller.config import Door
from rackward.placement_service import (
    ListeningError,
    MutualTls,
    PlacementServiceError,
    ServiceTlsError,
    create_replica_placement,
)
from tests.support.certificates import Authority, make_authority, written
from tests.support.placement_server import in_turn
from tests.support.waiting import PATIENCE

EVERYWHERE = "0.0.0.0"


def own_address() -> str:
    """An address under which other machines would know this one; loopback if there is none.

    Nothing is sent: the system only says by which way it would.
    """
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as way:
        try:
            way.connect(("203.0.113.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(way.getsockname()[0])


def files(folder: Path, name: str, authority: Authority, address: str) -> MutualTls:
    signed = authority.sign(name, addresses=(address,))
    return MutualTls(
        written(folder, "ca.pem", authority.pem),
        written(folder, f"{name}.pem", signed.pem),
        written(folder, f"{name}.key", signed.key_pem()),
    )


def test_beyond_loopback_those_with_a_certificate_are_served(tmp_path: Path) -> None:
    address, authority = own_address(), make_authority()
    mine = files(tmp_path, "controller", authority, address)
    yours = files(tmp_path, "client", authority, address)
    (tmp_path / "other").mkdir()
    strange = files(tmp_path / "other", "stranger", make_authority("another"), address)
    stranger = MutualTls(yours.ca_file, strange.cert_file, strange.key_file)
    door = Door(EVERYWHERE, 0, mine.ca_file, mine.cert_file, mine.key_file)
    with closing(ServiceThread(in_turn, door)) as service:
        where = f"{address}:{service.address.port}"
        assert create_replica_placement(where, 2, 3, tls=yours) == ((0, 1, 2), (0, 1, 2))
        with pytest.raises(ServiceTlsError):
            create_replica_placement(where, 1, 1, tls=stranger)
        with pytest.raises(PlacementServiceError):
            create_replica_placement(where, 1, 1)
        assert create_replica_placement(where, 1, 1, tls=yours) == ((0,),)
        assert service.counts.placements == 2


def test_one_that_does_not_get_to_listen_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()

    async def listen(*_: object, **__: object) -> socket.socket:
        await asyncio.to_thread(told.wait, PATIENCE)
        raise ListeningError("too late")

    monkeypatch.setattr("rackward.placement_service.server.listen", listen)
    monkeypatch.setattr("rackward.controller.app.START_SECONDS", 0.05)
    try:
        with pytest.raises(
            ListeningError, match=r"127\.0\.0\.1:0 is not listened at after 0\.05 s"
        ):
            ServiceThread(in_turn, Door("127.0.0.1", 0))
    finally:
        told.set()


def test_beyond_loopback_nothing_is_served_without() -> None:
    with pytest.raises(InvalidOptionError, match="mutual TLS"):
        ServiceThread(in_turn, Door(EVERYWHERE, 0))
