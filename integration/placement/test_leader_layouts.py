"""Leader layouts by the controller, for the configured groups."""

from __future__ import annotations

import time

import pytest

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, replicas_led_from, wait_for_leaders
from integration.support.topics import create_topic, delete_topic
from placement_core.locators import MetadataLocator
from placement_core.placers import RackAlternatingPlacer
from rackward.admin import connect
from rackward.clusters import Cluster
from rackward.clusters.pytest_plugin import UniqueName
from rackward.controller.app import Controller, Plugins
from rackward.controller.config import ControllerConfig, LeaderLayoutConfig
from rackward.controller.leader_layout import apply_leader_layout
from rackward.controller.pending_replicas import PENDING_REPLICAS_TOPIC
from tests.support.waiting import PATIENCE

FAST = 20.0
"""Times that a controller's clock goes faster than ours."""
EVERY = 60.0

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


def test_leaders_go_where_the_members_are_if_it_is_worth_it(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = create_topic(cluster, unique_name("laid"), replicas_led_from(evenly(36)))

    def strategies(rack: str | None) -> list[LeaderRackAwareCooperativeStickyAssignor]:
        return [LeaderRackAwareCooperativeStickyAssignor(rack=rack)]

    with (
        ConsumerGroup(cluster, topics=[topic], strategies=strategies) as group,
        connect({"bootstrap.servers": cluster.bootstrap_servers}) as admin,
    ):
        for name, rack in {"a1": "a", "a2": "a", "b1": "b"}.items():
            group.start(name, rack)
        group.settle({(topic, number) for number in range(36)})

        def laid(*groups: str, min_gain: float = 0.05) -> object:
            return apply_leader_layout(
                admin, LeaderLayoutConfig(3600.0, groups, min_gain), MetadataLocator()
            )

        before = cluster.view([topic])
        assert laid("somebody-else") is None
        assert laid(group.id, min_gain=0.5) is None, "a third more is less than that"
        assert cluster.view([topic]) == before

        assert laid(f"{group.id[:-1]}*") is not None
        wait_for_leaders(cluster, topic, {"a": 24, "b": 12})
        assert laid(group.id) is None, "nothing is left to be gained"
    delete_topic(cluster, topic)


class Enough(Exception):
    """Ends a controller that has been looked at for long enough."""


def test_it_does_so_when_it_is_time(cluster: Cluster, unique_name: UniqueName) -> None:
    topic = create_topic(cluster, unique_name("due"), replicas_led_from(evenly(36)))
    running: list[Controller] = []
    laid_out: list[float] = []
    """When the first layout was seen, in seconds of the controller's clock since it began."""
    began = time.monotonic()

    def clock() -> float:
        now = time.monotonic()
        assert now < began + PATIENCE, "leaders were never laid out"
        if running and running[0].metrics().leader_layouts and not laid_out:
            laid_out.append((now - began) * FAST)
        if laid_out and (now - began) * FAST > laid_out[0] + 2 * EVERY:
            raise Enough
        return now * FAST

    with ConsumerGroup(cluster, topics=[topic]) as group:
        group.start("b1", "b")
        group.settle({(topic, number) for number in range(36)})
        config = ControllerConfig(
            {"bootstrap.servers": cluster.bootstrap_servers},
            leaders=LeaderLayoutConfig(EVERY, (group.id,)),
        )
        plugins = Plugins(RackAlternatingPlacer, MetadataLocator())
        began = time.monotonic()
        running.append(Controller(config, plugins, 20.0, clock=clock))
        with pytest.raises(Enough):
            running[0].run()
    delete_topic(cluster, PENDING_REPLICAS_TOPIC)
    wait_for_leaders(cluster, topic, {"b": 36})
    assert laid_out[0] >= EVERY
    assert running[0].metrics().leader_layouts == 1, (
        "when it was time again nothing was to be gained"
    )
    delete_topic(cluster, topic)
