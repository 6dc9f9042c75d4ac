"""Members of led groups: of several languages, restarted one after the other, and hostile ones."""

from __future__ import annotations

import random

import pytest

from integration.support.clients import partitions_of
from integration.support.groups import ConsumerGroup, everything_is_read
from integration.support.hostile import HostileMember, subscription
from integration.support.leading import (
    UNMODIFIED_CLIENTS,
    LedGroup,
    leading,
    wait_for_status,
    wait_until_leading,
)
from integration.support.program_clients import COOPERATIVE_STICKY, RANGE, Java
from integration.support.racks import loads
from integration.support.topics import SteadyProducer, create_topic, new_name
from rackward.testing import Cluster
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
        ConsumerGroup(
            shared_three_brokers, topics=[topic], client=UNMODIFIED_CLIENTS[confluent]
        ) as group,
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
        again = sum(each.count - len(each.offsets()) for each in reads)
        print(f"\nrecords={sum(map(len, sent.acknowledged.values()))} read again={again}")
        # Each restart moves each partition at most twice. Two owners for a second would read ten.
        assert again <= 2 * 3 * PARTITIONS
        assert leader.status()[0].metrics.off_rack == 0


# ---- Hostile members.


@pytest.mark.parametrize("kind", ["odd bytes", "claims everything", "five thousand topics"])
def test_hostile_members_get_nothing(shared_three_brokers: Cluster, topic: str, kind: str) -> None:
    """The others keep what they own: the optimum without that member."""
    metadata = {
        # Behind the list of topics, which brokers decode, too.
        "odd bytes": subscription([], {}, 0)[:10] + random.Random(7).randbytes(300),
        "claims everything": subscription([], {topic: range(PARTITIONS)}, 2**31 - 1),
        "five thousand topics": subscription([f"{topic}-{n}" for n in range(5000)], {}, 0),
    }[kind]
    client = UNMODIFIED_CLIENTS["confluent-cooperative-sticky"]
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
            # Partitions that others have to revoke reach the new member.
            led.start("a2")
            led.settle()
            assert leader.status()[0].leads
        finally:
            hostile.close()


def test_an_unrevoked_claim_expires_after_two_timeouts(
    shared_three_brokers: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rackward.lead.led_group.REVOCATION_TIMEOUT", 1.0)
    client = UNMODIFIED_CLIENTS["confluent-cooperative-sticky"]
    with (
        ConsumerGroup(shared_three_brokers, topics=[topic], client=client) as group,
        leading(shared_three_brokers, group.id) as leader,
    ):
        led = LedGroup(shared_three_brokers, group, topic, PARTITIONS)
        wait_until_leading(leader)
        hostile = HostileMember(shared_three_brokers, group.id, subscription([topic], {}, -1))
        try:
            wait_until(
                lambda: len((hostile.assigned or {}).get(topic, ())) == PARTITIONS,
                TEST_TIMEOUT,
                "the member has all partitions",
            )
            # It subscribes to nothing from then on, and claims all of them.
            hostile.join_with(subscription([], {topic: range(PARTITIONS)}, 2**31 - 1))
            led.start("a1", "b1", "c1")
            led.settle()
            assert not any((hostile.assigned or {}).values())
            assert leader.status()[0].metrics.withheld == 0
        finally:
            hostile.close()


def test_a_member_that_does_not_rejoin_holds_up_its_group(
    shared_three_brokers: Cluster,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Brokers wait for it for its rebalance timeout; the leader cannot assign, and says so."""
    monkeypatch.setattr("rackward.lead.led_group.SLOW_REBALANCE_SECONDS", 2.0)
    client = UNMODIFIED_CLIENTS["confluent-cooperative-sticky"]
    with (
        ConsumerGroup(shared_three_brokers, topics=[topic], client=client) as group,
        leading(shared_three_brokers, group.id) as leader,
    ):
        led = LedGroup(shared_three_brokers, group, topic, PARTITIONS)
        wait_until_leading(leader)
        metadata = subscription([topic], {}, -1)
        hostile = HostileMember(shared_three_brokers, group.id, metadata, rejoins=False)
        try:
            wait_until(lambda: hostile.assigned is not None, TEST_TIMEOUT, "the member has joined")
            led.start("a1", "b1")
            status = wait_for_status(leader, lambda each: each.state == "rebalancing", "it says so")
            assert status.rebalancing_seconds > 2.0
            assert "the rebalance has not ended: seconds=2" in caplog.text
        finally:
            hostile.close()
        led.settle()
        status = wait_for_status(leader, lambda each: each.leads, "it leads")
        assert status.rebalancing_seconds == 0
