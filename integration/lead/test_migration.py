"""A led group that changes to ``group.protocol=consumer`` while it runs, and back.

It is let go, leaders follow its members, and then it is led again. No record is lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from integration.lead.migrations import CLIENTS, migrate
from integration.support.collecting import new_protocol
from integration.support.groups import everything_is_read
from integration.support.leading import (
    LedGroup,
    leaders_in_all_racks,
    led_group,
    live_group,
    wait_for_status,
    wait_until_leading,
)
from integration.support.racks import off_rack
from integration.support.topics import SteadyProducer, delete_topic
from placement_core.locators import MetadataLocator
from rackward.controller.config import FollowConfig
from rackward.controller.leader_decision import Waiting
from rackward.controller.leader_follower import LeaderFollower
from rackward.kafka import connect
from rackward.kafka.groups import GroupKind
from rackward.lead import TakeOver, TakeOverPolicy
from rackward.testing import Cluster
from rackward.topics.pending_replicas import PENDING_REPLICAS_TOPIC, ElectionTimes
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.new_protocol

REPLICAS = leaders_in_all_racks(3)
CLASSIC_CLIENT = CLIENTS["confluent-cooperative-sticky"]


class Elections:
    """The record of elections in memory."""

    elections: ElectionTimes | None = None

    def write(self, records: Collection[ElectionTimes]) -> None:
        (self.elections,) = records


@contextmanager
def following(cluster: Cluster, group: str) -> Iterator[LeaderFollower]:
    """Have leaders follow the group, with short times, without a controller."""
    config = FollowConfig((group,), min_rate=1.0, settle=1.0, rest=1.0, max_imbalance=2.0)
    follower = LeaderFollower(config, MetadataLocator(), time.monotonic)
    ended, records = threading.Event(), Elections()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with connect({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
                while not ended.wait(0.2):
                    follower.run_once(admin, records)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield follower
    finally:
        ended.set()
        thread.join(TEST_TIMEOUT)
    if errors:
        raise errors[0]


def test_a_led_group_migrates_and_comes_back(
    shared_three_brokers: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rackward.lead")
    monkeypatch.setattr("rackward.lead.led_group.OUTSIDE_SECONDS", 0.5)
    cluster = shared_three_brokers
    policy = TakeOverPolicy(TakeOver.REMOVE)
    with (
        led_group(cluster, CLASSIC_CLIENT, REPLICAS) as led,
        SteadyProducer(cluster, led.topic, led.partitions) as sent,
        led.leading("a1", "b1", "c1", take_over=policy) as leader,
    ):
        with following(cluster, led.group.id) as follower:
            wait_until(
                lambda: follower.status.document()["waiting"] == Waiting.LOCAL,
                TEST_TIMEOUT,
                "leaders of a led group need not move",
            )
            assert follower.status.elections == 0
            led.restart(new_protocol)
            status = wait_for_status(leader, lambda each: each.state == "refused", "it is let go")
            assert "once it is a classic group" in status.reason
            wait_until(partial(is_local, led), TEST_TIMEOUT, "leaders follow its members")
            found = live_group(cluster, led.group.id)
            assert found.kind is GroupKind.CONSUMER
            assert {member.client_id for member in found.members} == {"a1", "b1", "c1"}
            said = [r for r in caplog.records if "state=refused" in r.getMessage()]
            assert [record.levelno for record in said] == [logging.WARNING]
            led.restart(CLASSIC_CLIENT)
            wait_until_leading(leader)
            led.settle()
        sent.stop()
        everything_is_read(led.group.reads_of, led.topic, sent)


def is_local(led: LedGroup) -> bool:
    """Return whether every partition is owned once, in the rack of its leader."""
    owned = {name: member.owned for name, member in led.group.members.items()}
    return (
        sum(map(len, owned.values())) == led.partitions
        and off_rack(led.cluster, owned, led.racks) == 0
    )


def test_members_of_the_new_protocol_replace_the_leader_alone(
    shared_three_brokers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They join while it waits for consumers, and has made no assignment."""
    monkeypatch.setattr("rackward.lead.led_group.OUTSIDE_SECONDS", 0.5)
    cluster = shared_three_brokers
    with led_group(cluster, new_protocol, REPLICAS) as led, led.leading() as leader:
        led.start("a1")
        led.await_owners()
        wait_for_status(leader, lambda each: each.state == "refused", "it is let go")
        assert live_group(cluster, led.group.id).kind is GroupKind.CONSUMER


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("client", ["confluent-cooperative-sticky", "java-cooperative-sticky"])
def test_the_controller_needs_no_other_configuration(
    shared_three_brokers: Cluster, client: str, tmp_path: Path
) -> None:
    """Prints the figures; no record is lost."""
    phases = migrate(shared_three_brokers, client, 3, len(REPLICAS), tmp_path)
    steady = [phase.local for phase in phases if phase.name in ("classic", "new protocol")]
    assert steady == [1.0] * 3
    delete_topic(shared_three_brokers, PENDING_REPLICAS_TOPIC)
