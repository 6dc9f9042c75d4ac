"""The placement service of a controller, and its health during long work."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from placement_core import InvalidOptionError
from placement_core.locators import MetadataLocator
from placement_core.placers import RackAlternatingPlacer
from rackward.controller.app import READY_SECONDS, Controller, Plugins, placement_handler
from rackward.controller.config import ControllerConfig, ListenConfig
from rackward.controller.reconciler import ReconnectingAdmin
from rackward.kafka import AdminError, AdminTimeoutError, ClusterState
from rackward.placement_service import (
    ListeningError,
    MutualTls,
    PlacementRequest,
    PlacementService,
    PlacementServiceError,
    ServiceThread,
    ServiceTlsError,
    create_replica_placement,
)
from rackward.units import Deadline
from tests.support.placement_server import first_brokers
from tests.support.security import Authority, make_authority, write_file
from tests.support.simulated_cluster import cluster_state
from tests.support.waiting import TEST_TIMEOUT

ALL_ADDRESSES = "0.0.0.0"


def own_address() -> str:
    """Return this machine's address in its network, or loopback. Nothing is sent."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(("203.0.113.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def write_files(folder: Path, name: str, authority: Authority, address: str) -> MutualTls:
    signed = authority.sign(name, addresses=(address,))
    return MutualTls(
        write_file(folder, "ca.pem", authority.pem),
        write_file(folder, f"{name}.pem", signed.pem),
        write_file(folder, f"{name}.key", signed.key_pem()),
    )


def test_clients_with_a_trusted_certificate_are_served(tmp_path: Path) -> None:
    address, authority = own_address(), make_authority()
    server = write_files(tmp_path, "controller", authority, address)
    client = write_files(tmp_path, "client", authority, address)
    (tmp_path / "other").mkdir()
    other = write_files(tmp_path / "other", "untrusted", make_authority("another"), address)
    untrusted = MutualTls(client.ca_file, other.cert_file, other.key_file)
    config = ListenConfig(ALL_ADDRESSES, 0, server.ca_file, server.cert_file, server.key_file)
    service = PlacementService(first_brokers)
    with closing(ServiceThread(service, config.host, config.port, config.tls)) as thread:
        listen_address = f"{address}:{thread.address.port}"
        assert create_replica_placement(listen_address, 2, 3, tls=client) == ((0, 1, 2), (0, 1, 2))
        with pytest.raises(ServiceTlsError):
            create_replica_placement(listen_address, 1, 1, tls=untrusted)
        with pytest.raises(PlacementServiceError):
            create_replica_placement(listen_address, 1, 1)
        assert create_replica_placement(listen_address, 1, 1, tls=client) == ((0,),)
        assert service.metrics.placements == 2


def test_a_service_that_does_not_listen_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    give_up = threading.Event()

    async def listen(*_: object, **__: object) -> socket.socket:
        await asyncio.to_thread(give_up.wait, TEST_TIMEOUT)
        raise ListeningError("too late")

    monkeypatch.setattr("rackward.placement_service.server.open_listener", listen)
    monkeypatch.setattr("rackward.placement_service.server.START_SECONDS", 0.05)
    try:
        with pytest.raises(
            ListeningError, match=r"does not listen on 127\.0\.0\.1:0 after 0\.05 s"
        ):
            ServiceThread(PlacementService(first_brokers))
    finally:
        give_up.set()


def test_mutual_tls_is_required_except_on_loopback() -> None:
    with pytest.raises(InvalidOptionError, match="mutual TLS"):
        ServiceThread(PlacementService(first_brokers), ALL_ADDRESSES)


def test_a_request_waits_for_the_cluster_until_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cluster that does not respond holds one request, and no other beyond its deadline."""
    reading, respond = threading.Event(), threading.Event()
    deadlines: list[Deadline] = []
    state = cluster_state({})

    def read_state(_: object, *, reassignments: bool, deadline: Deadline) -> ClusterState:
        assert not reassignments
        deadlines.append(deadline)
        reading.set()
        assert respond.wait(TEST_TIMEOUT), "the test has ended"
        return state

    class Admin(ReconnectingAdmin):
        def run(self, function: Callable[[Any], Any]) -> Any:
            return function(None)

    monkeypatch.setattr("rackward.controller.app.read_state", read_state)
    plugins = Plugins(RackAlternatingPlacer, MetadataLocator())
    place = placement_handler(Admin({}, 30.0), ControllerConfig({}), plugins)
    patient = PlacementRequest(1, 1, deadline=Deadline.after(TEST_TIMEOUT))
    with ThreadPoolExecutor(1) as pool:
        placed = pool.submit(place, patient)
        try:
            assert reading.wait(TEST_TIMEOUT), "the state is read"
            with pytest.raises(AdminTimeoutError, match=r"not read within 0\.05 s.*other requests"):
                place(PlacementRequest(1, 1, deadline=Deadline.after(0.05)))
        finally:
            respond.set()
        assert len(placed.result(TEST_TIMEOUT)) == 1
    assert deadlines == [patient.deadline]


class FakeLease:
    """A lease that was confirmed by the coordinator or, if ``error``, was not."""

    error: AdminError | None = None

    def keep(self) -> bool:
        if self.error is not None:
            raise self.error
        return True


def test_a_controller_is_ready_during_long_work_while_its_lease_is_confirmed() -> None:
    now = 0.0
    plugins = Plugins(RackAlternatingPlacer, MetadataLocator())
    controller = Controller(ControllerConfig({}), plugins, 20.0, clock=lambda: now)
    fake = FakeLease()
    lease = cast("Any", fake)
    assert not controller.health().ready
    # A leader layout runs for 10 minutes, beside the thread that keeps the lease.
    for _ in range(60):
        controller.keep_lease(lease)
        assert controller.health().ready
        now += 10.0
    fake.error = AdminError("the coordinator does not respond")
    controller.keep_lease(lease)
    assert controller.health().ready
    now += READY_SECONDS
    controller.keep_lease(lease)
    assert not controller.health().ready
