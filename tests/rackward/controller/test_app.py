"""The placement service of a controller, its health during long work, and its metrics."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from placement_core.locators import MetadataLocator
from placement_core.placers import RackAlternatingPlacer
from rackward.controller.app import READY_SECONDS, Controller, Plugins, placement_handler
from rackward.controller.config import ControllerConfig
from rackward.controller.leader_decision import Decision, Waiting
from rackward.controller.leader_follower import FollowStatus
from rackward.controller.lease import ReconnectingAdmin
from rackward.controller.metrics import ControllerMetrics, MetricsCollector
from rackward.controller.reconcile import ReconcileStatus
from rackward.kafka import AdminConnection, AdminError, AdminTimeoutError, ClusterState
from rackward.lead import LeadStatus
from rackward.lead.assigner import AssignmentMetrics
from rackward.lead.led_group import LEADING, WAITING, LedRebalance
from rackward.placement_service import PlacementRequest, ServiceMetrics
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

    def read_state(admin: AdminConnection, *, reassignments: bool) -> ClusterState:
        assert not reassignments
        deadlines.append(admin.deadline())
        reading.set()
        assert respond.wait(TEST_TIMEOUT), "the test has ended"
        return state

    class Admin(ReconnectingAdmin):
        def run(self, function: Callable[[Any], Any]) -> Any:
            return function(AdminConnection(None, "k:1", 30.0))

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


# ---- Metrics.

GUIDE = Path(__file__).parents[3] / "docs" / "controller.md"

LED = AssignmentMetrics(members=3, partitions=12, off_rack=2, optimum=1)
METRICS = ControllerMetrics(
    ReconcileStatus(
        active=True,
        pending_records=2,
        pending_partitions=7,
        partitions_in_progress=3,
        placeholders_waiting=4,
        topic_offsets=9,
        topic_offsets_read=8,
    ),
    requested=11,
    passes=20,
    failed_passes=1,
    last_response=1234.5,
    leaders=FollowStatus(
        Decision(waiting=Waiting.RESTING, total=9.0, local=6.0, best=8.0), 3, 50, 2
    ),
    service=ServiceMetrics(open_connections=5, requests=6),
    led=(
        LeadStatus(
            "billing",
            LEADING,
            metrics=LED,
            rebalances=(LedRebalance(datetime.fromtimestamp(1234.5, UTC), 1.0, LED),),
        ),
        LeadStatus("orders", WAITING),
    ),
)


def test_the_guide_names_every_metric_and_no_other() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    section = text[text.index("Names begin with") : text.index("Good alerts")]
    named = set(re.findall(r"`([a-z][a-z_]+)`", section)) - {"rackward_controller_"}
    prefix = "rackward_controller_"
    served = {
        family.name.removeprefix(prefix) + ("_total" if family.type == "counter" else "")
        for family in MetricsCollector(lambda: METRICS).collect()
        if family.name.startswith(prefix)
    }
    assert named == {name for name in served if not name.startswith("service_")}


def test_the_values() -> None:
    registry = CollectorRegistry()
    registry.register(MetricsCollector(lambda: METRICS))
    body = generate_latest(registry).decode()
    lines = [line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#")]
    values = {name.removeprefix("rackward_"): float(value) for name, value in lines}
    # All metrics of led groups are in tests/rackward/lead/test_status.py.
    expected = {
        "controller_active": 1,
        "controller_pending_partitions": 7,
        "controller_placeholders_waiting": 4,
        "controller_topic_offsets": 9,
        "controller_topic_offsets_read": 8,
        "controller_reassignments_total": 11,
        "controller_service_open_connections": 5,
        "controller_service_requests_total": 6,
        'lead_leading{group="billing"}': 1,
        'lead_leading{group="orders"}': 0,
        'lead_members{group="billing"}': 3,
        'lead_partitions{group="billing"}': 12,
        'lead_last_assignment_timestamp_seconds{group="billing"}': 1234.5,
        'lead_off_rack_partitions{group="billing"}': 2,
        'lead_optimum_partitions{group="billing"}': 1,
    }
    assert values.items() >= expected.items()
