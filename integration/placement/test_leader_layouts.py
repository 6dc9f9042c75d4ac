"""Leader layouts that the controller applies for the configured groups."""

from __future__ import annotations

import time

import pytest

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, replicas_led_from, wait_for_leaders
from integration.support.topics import create_topic, delete_topic
from placement_core.locators import MetadataLocator
from placement_core.placers import RackAlternatingPlacer
from rackward.controller.app import Controller, Plugins
from rackward.controller.config import ControllerConfig, LeaderLayoutConfig
from rackward.controller.leader_layout import LeaderLayouts
from rackward.controller.reconciler import Step
from rackward.kafka import connect
from rackward.testing import Cluster
from rackward.testing.pytest_plugin import UniqueName
from rackward.topics.pending_replicas import PENDING_REPLICAS_TOPIC
from tests.support.waiting import TEST_TIMEOUT

CLOCK_FACTOR = 20.0
"""Speed of the controller's clock, as a multiple of real time."""
INTERVAL = 60.0
"""Seconds of the controller's clock between leader layouts."""
LAYOUT_SECONDS = 8.0

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


def test_leaders_move_to_the_members_if_the_gain_suffices(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = create_topic(cluster, unique_name("leaders"), replicas_led_from(evenly(36)))

    def strategies(rack: str | None) -> list[LeaderRackAwareCooperativeStickyAssignor]:
        return [LeaderRackAwareCooperativeStickyAssignor(rack=rack)]

    with (
        ConsumerGroup(cluster, topics=[topic], strategies=strategies) as group,
        connect({"bootstrap.servers": cluster.bootstrap_servers}) as admin,
    ):
        for name, rack in {"a1": "a", "a2": "a", "b1": "b"}.items():
            group.start(name, rack)
        group.settle({(topic, number) for number in range(36)})

        def apply_layout(*groups: str, min_gain: float = 0.05) -> object:
            config = LeaderLayoutConfig(3600.0, groups, min_gain)
            return LeaderLayouts(config, MetadataLocator()).apply(admin, 0.0)

        before = cluster.view([topic])
        assert apply_layout("other-group") is None
        assert apply_layout(group.id, min_gain=0.5) is None, "the gain of a third is below min_gain"
        assert cluster.view([topic]) == before

        assert apply_layout(f"{group.id[:-1]}*") is not None
        wait_for_leaders(cluster, topic, {"a": 24, "b": 12})
        assert apply_layout(group.id) is None, "there is no gain left"
    delete_topic(cluster, topic)


class StopControllerError(Exception):
    """Raised by the clock to end the controller."""


def test_layouts_are_applied_at_the_configured_interval(
    cluster: Cluster, unique_name: UniqueName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each as a whole, also if it takes longer than a consumer may work between two polls."""
    monkeypatch.setattr("rackward.controller.lease.MAX_POLL_INTERVAL_MS", 5_000)
    elections: list[Step] = []

    def delay_election(step: Step, operation: str) -> None:
        if operation == "electing preferred leaders":
            elections.append(step)
            if len(elections) == 1:
                time.sleep(LAYOUT_SECONDS)

    topic = create_topic(cluster, unique_name("due"), replicas_led_from(evenly(36)))
    running: list[Controller] = []
    first_layout: list[float] = []
    """The time of the first layout, in seconds of the controller's clock since its start."""
    began = time.monotonic()

    def clock() -> float:
        now = time.monotonic()
        assert now < began + TEST_TIMEOUT, "no leader layout was applied"
        if running and running[0].metrics().leader_layouts and not first_layout:
            first_layout.append((now - began) * CLOCK_FACTOR)
        if first_layout and (now - began) * CLOCK_FACTOR > first_layout[0] + 2 * INTERVAL:
            raise StopControllerError
        return now * CLOCK_FACTOR

    with ConsumerGroup(cluster, topics=[topic]) as group:
        group.start("b1", "b")
        group.settle({(topic, number) for number in range(36)})
        config = ControllerConfig(
            {"bootstrap.servers": cluster.bootstrap_servers},
            leaders=LeaderLayoutConfig(INTERVAL, (group.id,)),
        )
        plugins = Plugins(RackAlternatingPlacer, MetadataLocator())
        began = time.monotonic()
        running.append(Controller(config, plugins, 20.0, clock=clock, on_step=delay_election))
        with pytest.raises(StopControllerError):
            running[0].run()
    delete_topic(cluster, PENDING_REPLICAS_TOPIC)
    wait_for_leaders(cluster, topic, {"b": 36})
    assert elections[:3] == [Step.PLANNED, Step.CONFIRMED, Step.DONE], "the lease was lost"
    assert first_layout[0] >= INTERVAL
    assert running[0].metrics().leader_layouts == 1, (
        "the second layout was skipped, because it had no gain"
    )
    delete_topic(cluster, topic)
