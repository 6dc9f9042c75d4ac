"""Leaving a group while joining it: close() and unsubscribe() of KafkaConsumers.

Another member holds up the rebalance, so that the JoinGroup of the member that leaves has no
response yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from integration.support.clients import (
    KafkaPython,
    KafkaPythonClient,
    MemberConfig,
    PartitionId,
    partitions_of,
)
from integration.support.confluent import RACKWARD, Consumers
from integration.support.groups import ConsumerGroup, Member
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import create_topic, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

PARTITIONS = 6
PARKED_SECONDS = 1.0
"""A join that takes longer than this waits for another member."""
MAX_LEAVE = 5.0
"""Seconds that leaving may take on a busy machine. It takes 0.02 to 0.2 s on two cores."""
MAX_RECOVERY = 15.0
"""Seconds until the rest of the group is stable: half of a session timeout."""

CLIENTS = {
    "cooperative": KafkaPython(lambda rack: [LeaderRackAwareCooperativeStickyAssignor(rack=rack)]),
    "eager": KafkaPython(lambda rack: [LeaderRackAwareRangeAssignor(rack=rack)]),
}


class HeldUpGroup:
    """A group of ``leaver``, which leads it, and b1 and c1, which poll in threads of their own.

    `hold_up` starts c1 while b1 does not poll, so that no join ends until `release`.
    """

    def __init__(
        self, cluster: Cluster, group: ConsumerGroup, topic: str, client: KafkaPython
    ) -> None:
        self.group = group
        self.topic = topic
        self.partitions = partitions_of(topic, PARTITIONS)
        # No thread polls this one.
        self.leaver: KafkaPythonClient = client(
            MemberConfig(cluster.bootstrap_servers, group.id, "leaver", "a", {})
        )
        self.subscribe(self.leaver)

    def subscribe(self, client: KafkaPythonClient) -> None:
        client.subscribe(lambda _kind, _tps: None, topics=[self.topic])

    def poll(self, client: KafkaPythonClient, until: Callable[[], object], seconds: float) -> None:
        deadline = time.monotonic() + TEST_TIMEOUT
        while not until():
            assert time.monotonic() < deadline
            client.poll(seconds)

    def hold_up(self) -> None:
        coordinator = self.leaver.consumer._coordinator
        self.poll(self.leaver, lambda: len(self.leaver.owned()) == PARTITIONS, 0.2)
        slow = self.group.start("b1", "b")
        self.poll(self.leaver, lambda: self.leaver.owned() and slow.owned, 0.2)
        self.poll(self.leaver, lambda: self._is_settled(slow), 0.2)
        slow.pause()
        time.sleep(1.0)
        self.group.start("c1", "c")
        self.poll(self.leaver, lambda: is_parked(coordinator), 0.2)

    def _is_settled(self, slow: Member) -> bool:
        owned = [*self.leaver.owned(), *slow.owned]
        generation = self.leaver.generation()
        return (
            sorted(owned) == sorted(self.partitions)
            and generation == slow.generation
            and generation > 0
        )

    def release(self) -> None:
        """Have b1 poll again."""
        self.group.members["b1"].resume()

    def settle(self) -> dict[str, frozenset[PartitionId]]:
        return self.group.settle(self.partitions, within=3 * TEST_TIMEOUT)


def is_parked(coordinator: Any) -> bool:
    """Whether a JoinGroup was sent a while ago and has no response."""
    task = coordinator._join_task
    if task is None or task.is_done or not coordinator.rebalance_in_progress():
        return False
    time.sleep(PARKED_SECONDS)
    return coordinator._join_task is task and not task.is_done


@contextmanager
def held_up(cluster: Cluster, client: KafkaPython) -> Iterator[HeldUpGroup]:
    topic = create_topic(cluster, new_name("leaving"), replicas_led_from(evenly(PARTITIONS)))
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        held = HeldUpGroup(cluster, group, topic, client)
        try:
            yield held
        finally:
            if "b1" in group.members:
                held.release()
            held.leaver.close()


@pytest.mark.parametrize("how", ["close", "unsubscribe"])
@pytest.mark.parametrize("protocol", CLIENTS)
def test_leaving_does_not_wait_for_the_other_members(
    cluster: Cluster, protocol: str, how: str
) -> None:
    with held_up(cluster, CLIENTS[protocol]) as held:
        held.hold_up()
        started = time.monotonic()
        getattr(held.leaver.consumer, how)()
        left = time.monotonic()
        held.release()
        held.settle()
        recovered = time.monotonic()
        print(f"{protocol} {how}: {left - started:.2f} s, recovery {recovered - left:.2f} s")
        assert left - started < MAX_LEAVE
        assert recovered - left < MAX_RECOVERY
        if how == "unsubscribe":
            held.subscribe(held.leaver)
            held.poll(held.leaver, lambda: len(held.leaver.owned()) == 2, 0.2)


@pytest.mark.parametrize("how", ["close", "unsubscribe"])
def test_a_confluent_consumer_leaves_without_waiting(cluster: Cluster, how: str) -> None:
    with held_up(cluster, CLIENTS["cooperative"]) as held:
        held.hold_up()
        consumers = Consumers(RACKWARD, cluster.bootstrap_servers)
        consumer = consumers(group=held.group.id, cooperative=True)
        consumer.subscribe([held.topic])

        def has_joined() -> bool:
            coordinator = consumer._member.coordinator
            return coordinator is not None and is_parked(coordinator)

        deadline = time.monotonic() + TEST_TIMEOUT
        while not has_joined():
            assert time.monotonic() < deadline
            consumer.poll(0.2)
        held.leaver.close()
        started = time.monotonic()
        getattr(consumer, how)()
        if how == "unsubscribe":
            # The application handles the revocation in poll; then the consumer leaves.
            while consumer._member.coordinator.member_id:
                assert time.monotonic() - started < TEST_TIMEOUT
                consumer.poll(0.05)
        print(f"confluent {how}: {time.monotonic() - started:.2f} s")
        assert time.monotonic() - started < MAX_LEAVE
        left = time.monotonic()
        held.release()
        held.settle()
        assert time.monotonic() - left < MAX_RECOVERY
        consumer.close()
