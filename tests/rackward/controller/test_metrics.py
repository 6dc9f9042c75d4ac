"""The controller's metrics."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from rackward.controller.leader_decision import Decision, Waiting
from rackward.controller.leader_follower import FollowStatus
from rackward.controller.metrics import ControllerMetrics, MetricsCollector
from rackward.controller.reconcile import ReconcileStatus
from rackward.lead import LeadStatus
from rackward.lead.assigner import AssignmentMetrics
from rackward.lead.led_group import LEADING, WAITING, LedRebalance
from rackward.placement_service import ServiceMetrics

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
    # All of them are in tests/rackward/lead/test_status.py.
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
