"""The placement service of a controller, and its health during long work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from placement_core.locators import MetadataLocator
from placement_core.placers import RackAlternatingPlacer
from rackward.controller.app import READY_SECONDS, Controller, Plugins, placement_handler
from rackward.controller.config import ControllerConfig
from rackward.controller.lease import ReconnectingAdmin
from rackward.kafka import AdminError, AdminTimeoutError, ClusterState
from rackward.placement_service import PlacementRequest
from rackward.units import Deadline
from tests.support.pending_replicas import FakeLease
from tests.support.simulated_cluster import cluster_state
from tests.support.waiting import TEST_TIMEOUT, Clock


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


def test_ready_during_long_work_while_the_lease_is_confirmed() -> None:
    clock = Clock()
    plugins = Plugins(RackAlternatingPlacer, MetadataLocator())
    controller = Controller(ControllerConfig({}), plugins, 20.0, clock)
    fake = FakeLease()
    lease = cast("Any", fake)
    assert not controller.readiness().ready
    # A leader layout runs for 10 minutes, beside the thread that keeps the lease.
    for _ in range(60):
        controller.heartbeat(lease)
        assert controller.readiness().ready
        clock.now += 10.0
    fake.error = AdminError("the coordinator does not respond")
    controller.heartbeat(lease)
    assert controller.readiness().ready
    clock.now += READY_SECONDS
    controller.heartbeat(lease)
    assert not controller.readiness().ready
    status = controller.status()
    assert status["seconds_since_last_response"] == READY_SECONDS + 10.0
    assert (status["active"], status["passes"], status["groups"]) == (False, 0, [])
