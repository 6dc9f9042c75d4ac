"""Members of led groups: of several languages, restarted one after the other, and hostile ones."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress

import pytest
from kafka import errors as kafka_errors

from assignors.consumer_protocol import SubscriptionReader
from integration.support.clients import partitions_of
from integration.support.groups import ConsumerGroup, everything_is_read
from integration.support.leading import (
    STOCK,
    LedGroup,
    leading,
    wait_until_leading,
)
from integration.support.program_clients import COOPERATIVE_STICKY, RANGE, Java
from integration.support.racks import loads
from integration.support.topics import SteadyProducer, create_topic, new_name
from rackward.clusters import Cluster
from rackward.lead.connection import LeadConnection
from rackward.lead.member import GroupMember, Timeouts
from tests.support.waiting import TEST_TIMEOUT, wait_until

PARTITIONS = 12
REPLICAS = [[(p * 7) % 3] for p in range(PARTITIONS)]
"""Leaders in all racks, four in each."""

LAG_SECONDS = 0.5
"""The events of a Java consumer are lines that its process prints, and are read a moment later."""


@pytest.fixture
def topic(shared_three_brokers: Cluster) -> str:
    return create_topic(shared_three_brokers, new_name("led"), REPLICAS)


@pytest.mark.parametrize(
    ("java", "confluent"),
    [
        pytest.param(RANGE, "confluent-range", marks=pytest.mark.slow, id="range"),
        pytest.param(COOPERATIVE_STICKY, "confluent-cooperative-sticky", id="cooperative-sticky"),
    ],
)
def test_java_and_confluent_in_one_group_are_restarted(
    shared_three_brokers: Cluster, topic: str, java: str, confluent: str
) -> None:
    """One after the other; nothing is lost or owned twice, and little is read again."""
    with (
        ConsumerGroup(shared_three_brokers, topics=[topic], client=STOCK[confluent]) as group,
        leading(shared_three_brokers, group.id) as leader,
        SteadyProducer(shared_three_brokers, topic, PARTITIONS) as sent,
    ):
        led = LedGroup(shared_three_brokers, group, topic, PARTITIONS)
        wait_until_leading(leader)
        led.start("a1", client=Java(java))
        led.start("b1", "c1")
        led.settle()
        for name, client in (("c1", None), ("b1", None), ("a1", Java(java))):
            led.stop(name)
            led.settle()
            led.start(name, **({} if client is None else {"client": client}))
            owned = led.settle()
            assert loads(owned) == [4, 4, 4]
        sent.stop()
        everything_is_read(group.reads_of, topic, sent)
        assert group.owned_at_once(LAG_SECONDS) == []
        reads = [group.reads_of(tp) for tp in partitions_of(topic, PARTITIONS)]
        again = sum(len(each.seen) - len(each.offsets()) for each in reads)
        print(f"\nrecords={sum(map(len, sent.acknowledged.values()))} read again={again}")
        # Each restart moves each partition at most twice. Two owners for a second would read ten.
        assert again <= 2 * 3 * PARTITIONS
        assert leader.status()[0].figures.off_rack == 0


# ---- Hostile members.


class HostileMember:
    """A member with a subscription of any bytes, which joins in each rebalance."""

    def __init__(self, cluster: Cluster, group: str, subscription: bytes) -> None:
        properties = {"bootstrap.servers": cluster.bootstrap_servers}
        self._connection = LeadConnection(properties)
        self._connection.admin.manager.config["client_id"] = "hostile"
        self._member = GroupMember(self._connection, group, Timeouts(heartbeat=0.2))
        self._protocols = [("cooperative-sticky", subscription)]
        self._ending = False
        self.assigned: Mapping[str, Sequence[int]] | None = None
        self._running = self._connection.start(self._run)

    async def _run(self) -> None:
        while not self._ending:
            try:
                if not self._member.id:
                    self._member.id = await self._member.request_id(self._protocols)
                await self._member.join(self._protocols, "")
                assigned = await self._member.sync()
                self.assigned = SubscriptionReader().read_assignment(assigned)
                while not self._ending:
                    await self._member.heartbeat()
                    await self._connection.notifier()(0.1)
            except kafka_errors.RebalanceInProgressError:
                continue
        with suppress(kafka_errors.KafkaError):
            await self._member.leave("the test ends")

    def close(self) -> None:
        """Leave the group."""
        self._ending = True

        async def ended() -> None:
            await self._connection.wait(self._running, TEST_TIMEOUT)

        self._connection.run(ended)
        self._connection.close()


def subscription(
    topics: Sequence[str], owned: Mapping[str, Sequence[int]], generation: int
) -> bytes:
    """Return a ConsumerProtocolSubscription of version 2, in rack a as far as it is known."""

    def string(text: str) -> bytes:
        return struct.pack(">h", len(text)) + text.encode()

    listed = b"".join(map(string, topics))
    claims = b"".join(
        string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in owned.items()
    )
    return (
        struct.pack(">hi", 2, len(topics)) + listed + struct.pack(">i", -1)
        + struct.pack(">i", len(owned)) + claims + struct.pack(">i", generation)
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["odd bytes", "claims everything", "five thousand topics"])
def test_hostile_members_get_nothing(shared_three_brokers: Cluster, topic: str, kind: str) -> None:
    """The others keep what they own: the optimum without that member."""
    metadata = {
        # Behind the list of topics, which brokers decode, too.
        "odd bytes": subscription([], {}, 0)[:10] + random.Random(7).randbytes(300),
        "claims everything": subscription([], {topic: range(PARTITIONS)}, 2**31 - 1),
        "five thousand topics": subscription([f"{topic}-{n}" for n in range(5000)], {}, 0),
    }[kind]
    client = STOCK["confluent-cooperative-sticky"]
    with (
        ConsumerGroup(shared_three_brokers, topics=[topic], client=client) as group,
        leading(shared_three_brokers, group.id) as leader,
    ):
        led = LedGroup(shared_three_brokers, group, topic, PARTITIONS)
        wait_until_leading(leader)
        led.start("a1", "b1", "c1")
        owned = led.settle()
        hostile = HostileMember(shared_three_brokers, group.id, metadata)
        try:
            wait_until(lambda: hostile.assigned is not None, TEST_TIMEOUT, "the member has joined")
            assert led.settle() == owned
            assert not any((hostile.assigned or {}).values())
            assert leader.status()[0].leads
        finally:
            hostile.close()
