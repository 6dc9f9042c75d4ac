"""Leaving a group while joining it: close() and unsubscribe() of KafkaConsumers.

Another member holds up the rebalance, so that the JoinGroup of the member that leaves has no
response yet.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

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
from integration.support.topics import create_topic, described, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

PARTITIONS = 6
SESSION_SECONDS = 30.0
PARKED_SECONDS = 1.0
"""A join that takes longer than this waits for another member."""
MAX_LEAVE = 5.0
"""Seconds that leaving may take on a busy machine. It takes 0.02 to 0.2 s on two cores."""
MAX_RECOVERY = 15.0
"""Seconds until the rest of the group is stable: half of a session timeout."""

OURS = {
    "cooperative": KafkaPython(lambda rack: [LeaderRackAwareCooperativeStickyAssignor(rack=rack)]),
    "eager": KafkaPython(lambda rack: [LeaderRackAwareRangeAssignor(rack=rack)]),
}
UNMODIFIED_CLIENTS = {
    "cooperative": KafkaPython(lambda _: [CooperativeStickyAssignor()], workarounds=False),
    "eager": KafkaPython(lambda _: [RangePartitionAssignor()], workarounds=False),
}


class HeldUpGroup:
    """A group of ``leaver``, which leads it, and b1 and c1, which poll in threads of their own.

    `hold_up` starts c1 while b1 does not poll, so that no join ends until `release`.
    """

    def __init__(self, cluster: Cluster, group: ConsumerGroup, topic: str) -> None:
        self.cluster = cluster
        self.group = group
        self.topic = topic
        self.partitions = partitions_of(topic, PARTITIONS)
        self.leaver = self.new_client("leaver")
        self._slow: Member | None = None

    def new_client(self, name: str) -> KafkaPythonClient:
        """Return a client that no thread polls, subscribed to the topic."""
        client: KafkaPythonClient = self.group._client(  # type: ignore[assignment]
            MemberConfig(self.cluster.bootstrap_servers, self.group.id, name, "a", {})
        )
        self.subscribe(client)
        return client

    def subscribe(self, client: KafkaPythonClient) -> None:
        client.subscribe(lambda _kind, _tps: None, topics=[self.topic])

    def poll(self, client: KafkaPythonClient, until: Callable[[], object], seconds: float) -> None:
        deadline = time.monotonic() + TEST_TIMEOUT
        while not until():
            assert time.monotonic() < deadline, "the consumer did not get there"
            client.poll(seconds)

    def hold_up(self, *, leaver_joins: bool = True) -> None:
        coordinator = self.leaver.consumer._coordinator
        self.poll(self.leaver, lambda: len(self.leaver.owned()) == PARTITIONS, 0.2)
        slow = self._slow = self.group.start("b1", "b")
        self.poll(self.leaver, lambda: self.leaver.owned() and slow.owned, 0.2)
        self.poll(self.leaver, lambda: self._is_settled(slow), 0.2)
        slow.pause()
        time.sleep(1.0)
        self.group.start("c1", "c")
        if leaver_joins:
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
def held_up(cluster: Cluster, client: KafkaPython, **settings: Any) -> Iterator[HeldUpGroup]:
    topic = create_topic(cluster, new_name("leaving"), replicas_led_from(evenly(PARTITIONS)))
    with ConsumerGroup(cluster, topics=[topic], client=client, **settings) as group:
        held = HeldUpGroup(cluster, group, topic)
        try:
            yield held
        finally:
            if "b1" in group.members:
                held.release()
            held.leaver.close()


@dataclass
class Times:
    """Seconds."""

    leave: float
    recovery: float
    """From the end of leaving, when b1 polls again, until b1 and c1 have all partitions."""


def leave(held: HeldUpGroup, client: KafkaPythonClient, how: str) -> Times:
    started = time.monotonic()
    getattr(client.consumer, how)()
    left = time.monotonic()
    held.release()
    held.settle()
    return Times(left - started, time.monotonic() - left)


@pytest.mark.parametrize("how", ["close", "unsubscribe"])
@pytest.mark.parametrize("protocol", OURS)
def test_leaving_does_not_wait_for_the_other_members(
    cluster: Cluster, protocol: str, how: str
) -> None:
    with held_up(cluster, OURS[protocol]) as held:
        held.hold_up()
        times = leave(held, held.leaver, how)
        print(f"{protocol} {how}: {times}")
        assert times.leave < MAX_LEAVE
        assert times.recovery < MAX_RECOVERY
        if how == "unsubscribe":
            held.subscribe(held.leaver)
            held.poll(held.leaver, lambda: len(held.leaver.owned()) == 2, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["close", "unsubscribe"])
@pytest.mark.parametrize("protocol", UNMODIFIED_CLIENTS)
def test_leaving_with_kafka_python_alone(cluster: Cluster, protocol: str, how: str) -> None:
    with held_up(cluster, UNMODIFIED_CLIENTS[protocol]) as held:
        held.hold_up()
        times = leave(held, held.leaver, how)
        print(f"kafka-python {protocol} {how}: {times}")
        assert times.leave > SESSION_SECONDS - 5


def test_a_new_member_leaves_during_its_first_join(cluster: Cluster) -> None:
    with held_up(cluster, OURS["cooperative"]) as held:
        held.hold_up()
        joining, named = held.new_client("joining"), held.new_client("named")
        held.poll(joining, lambda: is_parked(joining.consumer._coordinator), 0.2)
        # The broker has given this one its id, and waits for its second JoinGroup.
        coordinator = named.consumer._coordinator
        held.poll(named, lambda: coordinator._generation.member_id != "", 0.01)
        started = time.monotonic()
        for client in (joining, named, held.leaver):
            client.close()
        assert time.monotonic() - started < 3 * MAX_LEAVE
        left = time.monotonic()
        held.release()
        held.settle()
        assert time.monotonic() - left < MAX_RECOVERY


def test_a_static_member_leaves_its_membership_for_a_restart(cluster: Cluster) -> None:
    with held_up(cluster, OURS["cooperative"]) as held:
        held.hold_up()
        static = KafkaPython()(
            MemberConfig(
                cluster.bootstrap_servers, held.group.id, "s", "a", {"group_instance_id": "s"}
            )
        )
        held.subscribe(static)
        held.poll(static, lambda: is_parked(static.consumer._coordinator), 0.2)
        started = time.monotonic()
        static.close()
        assert time.monotonic() - started < MAX_LEAVE
        (group,) = described(cluster, held.group.id)
        assert "s" in {member["group_instance_id"] for member in group["members"]}


def test_leaving_does_not_wait_for_the_assignment_of_the_leader(cluster: Cluster) -> None:
    topic = create_topic(cluster, new_name("leaving"), replicas_led_from(evenly(PARTITIONS)))
    assigning, proceed = threading.Event(), threading.Event()
    with ConsumerGroup(cluster, topics=[topic], enable_auto_commit=False) as group:
        leader = group.start("b1", "b")
        group.settle(partitions_of(topic, PARTITIONS))
        coordinator = leader.consumer._coordinator
        perform = coordinator._perform_assignment

        def wait(*arguments: Any) -> Any:
            assigning.set()
            proceed.wait(TEST_TIMEOUT)
            return perform(*arguments)

        coordinator._perform_assignment = wait
        follower = KafkaPython()(
            MemberConfig(
                cluster.bootstrap_servers,
                group.id,
                "leaver",
                "a",
                {"enable_auto_commit": False},
            )
        )
        follower.subscribe(lambda _kind, _tps: None, topics=[topic])
        try:
            deadline = time.monotonic() + TEST_TIMEOUT
            while not (assigning.is_set() and is_parked(follower.consumer._coordinator)):
                assert time.monotonic() < deadline
                follower.poll(0.2)
            started = time.monotonic()
            follower.consumer.unsubscribe()
            assert time.monotonic() - started < MAX_LEAVE
            proceed.set()
            group.settle(partitions_of(topic, PARTITIONS), within=MAX_RECOVERY)
            follower.subscribe(lambda _kind, _tps: None, topics=[topic])
            while not follower.owned():
                assert time.monotonic() < deadline
                follower.poll(0.2)
        finally:
            proceed.set()
            follower.close()


def test_close_in_a_rebalance_listener_ends(cluster: Cluster) -> None:
    with held_up(cluster, OURS["cooperative"]) as held:
        consumer = held.leaver.consumer
        closed: list[float] = []

        def close(_kind: str, _tps: object) -> None:
            started = time.monotonic()
            consumer.close()
            closed.append(time.monotonic() - started)

        held.leaver.subscribe(close, topics=[held.topic])

        def poll() -> None:
            # kafka-python's event loop has stopped.
            with pytest.raises(KafkaError):
                held.leaver.poll(TEST_TIMEOUT)

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        wait_until(lambda: len(closed) == 2, TEST_TIMEOUT, "close in the listener returns")
        wait_until(lambda: not thread.is_alive(), TEST_TIMEOUT / 4, "poll returns")
        # The first one is the call of the listener by close.
        assert max(closed) < MAX_LEAVE


@pytest.mark.parametrize("how", ["close", "unsubscribe"])
def test_a_confluent_consumer_leaves_without_waiting(cluster: Cluster, how: str) -> None:
    with held_up(cluster, OURS["cooperative"]) as held:
        held.hold_up()
        consumers = Consumers(RACKWARD, cluster.bootstrap_servers)
        consumer = consumers(group=held.group.id, cooperative=True)
        consumer.subscribe([held.topic])

        def has_joined() -> bool:
            coordinator = consumer._member._coordinator
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
            while consumer._member._coordinator.member_id:
                assert time.monotonic() - started < TEST_TIMEOUT
                consumer.poll(0.05)
        print(f"confluent {how}: {time.monotonic() - started:.2f} s")
        assert time.monotonic() - started < MAX_LEAVE
        left = time.monotonic()
        held.release()
        held.settle()
        assert time.monotonic() - left < MAX_RECOVERY
        consumer.close()
