"""A led group that changes to ``group.protocol=consumer`` while it runs, and back.

It is let go, leaders follow its members, and then it is led again. No record is lost.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from integration.lead.migrations import CLIENTS, migrate
from integration.support.collecting import new_protocol
from integration.support.controllers import followed
from integration.support.groups import everything_is_read
from integration.support.leading import (
    leaders_in_all_racks,
    led_group,
    live_group,
    wait_for_status,
    wait_until_leading,
)
from integration.support.topics import SteadyProducer, delete_topic
from rackward.controller.leader_decision import Waiting
from rackward.kafka.groups import GroupKind
from rackward.lead import TakeOver, TakeOverPolicy
from rackward.testing import Cluster
from rackward.topics.pending_replicas import PENDING_REPLICAS_TOPIC
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.new_protocol

REPLICAS = leaders_in_all_racks(3)
CLASSIC_CLIENT = CLIENTS["confluent-cooperative-sticky"]


def test_a_led_group_migrates_and_comes_back(
    shared_three_brokers: Cluster,
    tmp_path: Path,
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
        with followed(
            led, tmp_path, settle="1s", rest="1s", bound=1000, within=TEST_TIMEOUT
        ) as running:
            wait_until(
                lambda: running.status()["leaders"]["waiting"] == Waiting.LOCAL,
                TEST_TIMEOUT,
                "leaders of a led group need not move",
            )
            assert running.status()["leaders"]["elections_last_hour"] == 0
            led.restart(new_protocol)
            status = wait_for_status(leader, lambda each: each.state == "refused", "it is let go")
            assert "once it is a classic group" in status.reason
            wait_until(led.is_followed, TEST_TIMEOUT, "leaders follow its members")
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
    delete_topic(cluster, PENDING_REPLICAS_TOPIC)


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
