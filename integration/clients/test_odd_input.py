"""Invalid subscriptions and missing topics in live groups: they settle, with one log line each."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import KafkaPython, MakeClient, partitions_of
from integration.support.groups import ConsumerGroup
from integration.support.hostile import HostileMember, subscription
from integration.support.racks import evenly, loads, off_rack, replicas_led_from
from integration.support.topics import create_topic, delete_topic, new_name
from rackward.testing import Cluster
from tests.support.kafka_python import subscription_bytes
from tests.support.waiting import TEST_TIMEOUT, wait_until

PROTOCOL = LeaderRackAwareCooperativeStickyAssignor.name


class ForeignAssignor(AbstractPartitionAssignor):  # type: ignore[misc]
    """Another assignor with the protocol name of rackward's. Its member must not be the leader."""

    name = PROTOCOL

    def __init__(self, subscription: Callable[[Any], bytes]) -> None:
        self._subscription = subscription

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]

    def metadata(self, topics: Any) -> bytes:
        return self._subscription(topics)

    def assign(self, cluster: Any, members: Any) -> Any:  # noqa: ARG002
        raise AssertionError("this member leads the group")

    def on_assignment(self, *assignment: Any) -> None: ...


CLIENTS = pytest.mark.parametrize(
    "client", [KafkaPython(), AIOKafka()], ids=["kafka-python", "aiokafka"]
)


def logged(caplog: pytest.LogCaptureFixture, *parts: str) -> int:
    """Return the number of log lines that have all of ``parts``."""
    return sum(all(part in line for part in parts) for line in caplog.messages)


@CLIENTS
def test_members_that_send_invalid_subscriptions(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, client: MakeClient
) -> None:
    randbytes = random.Random(3).randbytes
    undecodable = ForeignAssignor(
        lambda topics: subscription_bytes(topics, user_data=b"\xfe" + randbytes(200))
    )
    truncated = ForeignAssignor(lambda topics: subscription_bytes(topics)[:-3])
    topic = create_topic(cluster, new_name("garbage"), replicas_led_from(evenly(12)))
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        group.start("a1", "a")
        group.settle(partitions_of(topic, 12))
        group.start("random", client=KafkaPython(lambda _: [undecodable]))
        group.start("truncated", client=KafkaPython(lambda _: [truncated]))
        group.settle(partitions_of(topic, 12))
        before = group.generation
        group.start("b1", "b")
        owned = group.settle(partitions_of(topic, 12), after=before)
        racks = {"a1": "a", "b1": "b", "random": None, "truncated": None}
        # Three each: a1 and b1 have only local ones, the other 6 are off-rack.
        assert loads(owned) == [3] * 4
        assert off_rack(cluster, owned, racks) == 6
        assert logged(caplog, "cannot be decoded: member=random", "error=user data") == 1
        assert logged(caplog, "cannot be decoded: member=truncated", "error=subscription") == 1


@CLIENTS
def test_a_topic_that_does_not_exist_yet(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, client: MakeClient
) -> None:
    existing, absent = new_name("existing"), new_name("absent")
    create_topic(cluster, existing, replicas_led_from(evenly(6)))
    with ConsumerGroup(cluster, topics=[existing], client=client) as group:
        group.start("a1", "a")
        group.settle(partitions_of(existing, 6))
        group.start("b1", "b", topics=[existing, absent])
        group.settle(partitions_of(existing, 6), hold=1.0)
        before = group.generation
        group.start("c1", "c")
        group.settle(partitions_of(existing, 6), after=before)
        assert logged(caplog, f"subscribed topic does not exist: {absent}") == 1
        create_topic(cluster, absent, replicas_led_from(evenly(3)))
        owned = group.settle(partitions_of(existing, 6) | partitions_of(absent, 3))
    assert partitions_of(absent, 3) <= owned["b1"]


@CLIENTS
def test_a_topic_deleted_during_a_rebalance(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, client: MakeClient
) -> None:
    remaining, deleted = new_name("remaining"), new_name("deleted")
    create_topic(cluster, remaining, replicas_led_from(evenly(12)))
    create_topic(cluster, deleted, replicas_led_from(evenly(12)))
    with ConsumerGroup(cluster, topics=[remaining, deleted], client=client) as group:
        group.start("a1", "a")
        group.start("b1", "b")
        group.settle(partitions_of(remaining, 12) | partitions_of(deleted, 12))
        group.start("c1", "c")
        delete_topic(cluster, deleted)
        owned = group.settle(partitions_of(remaining, 12), hold=1.0)
        # Before members leave: the next leader logs it again.
        assert logged(caplog, f"subscribed topic does not exist: {deleted}") == 1
    assert loads(owned) == [4] * 3
    assert off_rack(cluster, owned, {"a1": "a", "b1": "b", "c1": "c"}) == 0


@CLIENTS
def test_unrevoked_partitions_are_withheld_for_two_timeouts(
    cluster: Cluster,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    client: MakeClient,
) -> None:
    monkeypatch.setattr("assignors.group_leader.rebalance.REVOCATION_TIMEOUT", 1.0)
    topic = create_topic(cluster, new_name("claimed"), replicas_led_from(evenly(12)))
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        group.start("a1", "a")
        group.settle(partitions_of(topic, 12))
        hostile = HostileMember(cluster, group.id, subscription([topic], {}, -1), PROTOCOL)
        try:
            wait_until(
                lambda: len((hostile.assigned or {}).get(topic, ())) == 6,
                TEST_TIMEOUT,
                "the member has half of the partitions",
            )
            claims = hostile.assigned or {}
            # It subscribes to nothing from then on, and claims what it had.
            hostile.join_with(subscription([], claims, 2**31 - 1))
            owned = group.settle(partitions_of(topic, 12))
            assert loads(owned) == [12]
            assert logged(caplog, "ignoring claims of partitions", "hostile") == 1
            # What others have to revoke reaches a new member at once.
            group.start("b1", "b")
            owned = group.settle(partitions_of(topic, 12))
            assert loads(owned) == [6, 6]
        finally:
            hostile.close()
