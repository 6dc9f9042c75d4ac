"""Members of led groups: of several languages, restarted one after the other, and hostile ones."""

from __future__ import annotations

import random

import pytest

from integration.support.groups import everything_is_read
from integration.support.hostile import HostileMember, subscription
from integration.support.leading import (
    LedGroup,
    led_group,
    wait_for_status,
)
from integration.support.program_clients import COOPERATIVE_STICKY, RANGE, Java
from integration.support.racks import loads
from integration.support.topics import SteadyProducer
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

LAG_SECONDS = 0.5
"""The events of a Java consumer are lines that its process prints, and are read a moment later."""


@pytest.mark.parametrize(
    ("java", "confluent"),
    [
        pytest.param(RANGE, "confluent-range", marks=pytest.mark.slow, id="range"),
        pytest.param(COOPERATIVE_STICKY, "confluent-cooperative-sticky", id="cooperative-sticky"),
    ],
)
def test_java_and_confluent_in_one_group_are_restarted(
    shared_three_brokers: Cluster, java: str, confluent: str
) -> None:
    """One after the other; nothing is lost or owned twice, and little is read again."""
    with (
        led_group(shared_three_brokers, confluent) as led,
        led.leading() as leader,
        SteadyProducer(shared_three_brokers, led.topic, led.partitions) as sent,
    ):
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
        everything_is_read(led.group.reads_of, led.topic, sent)
        assert led.group.owned_at_once(LAG_SECONDS) == []
        reads = [led.group.reads_of(tp) for tp in led.tps]
        again = sum(each.count - len(each.offsets()) for each in reads)
        print(f"\nrecords={sum(map(len, sent.acknowledged.values()))} read again={again}")
        # Each restart moves each partition at most twice. Two owners for a second would read ten.
        assert again <= 2 * 3 * led.partitions
        assert leader.status()[0].metrics.off_rack == 0


# ---- Hostile members.


@pytest.mark.parametrize("kind", ["odd bytes", "claims everything", "five thousand topics"])
def test_hostile_members_get_nothing(led: LedGroup, kind: str) -> None:
    """The others keep what they own: the optimum without that member."""
    topic = led.topic
    metadata = {
        # Behind the list of topics, which brokers decode, too.
        "odd bytes": subscription([], {}, 0)[:10] + random.Random(7).randbytes(300),
        "claims everything": subscription([], {topic: range(led.partitions)}, 2**31 - 1),
        "five thousand topics": subscription([f"{topic}-{n}" for n in range(5000)], {}, 0),
    }[kind]
    with led.leading() as leader:
        led.start("a1", "b1", "c1")
        owned = led.settle()
        hostile = HostileMember(led.cluster, led.group.id, metadata)
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
    led: LedGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = led.topic
    monkeypatch.setattr("rackward.lead.led_group.REVOCATION_TIMEOUT", 1.0)
    with led.leading() as leader:
        hostile = HostileMember(led.cluster, led.group.id, subscription([topic], {}, -1))
        try:
            wait_until(
                lambda: len((hostile.assigned or {}).get(topic, ())) == led.partitions,
                TEST_TIMEOUT,
                "the member has all partitions",
            )
            # It subscribes to nothing from then on, and claims all of them.
            hostile.join_with(subscription([], {topic: range(led.partitions)}, 2**31 - 1))
            led.start("a1", "b1", "c1")
            led.settle()
            assert not any((hostile.assigned or {}).values())
            assert leader.status()[0].metrics.withheld == 0
        finally:
            hostile.close()


def test_a_member_that_does_not_rejoin_holds_up_its_group(
    led: LedGroup,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Brokers wait for it for its rebalance timeout; the leader cannot assign, and says so."""
    monkeypatch.setattr("rackward.lead.led_group.SLOW_REBALANCE_SECONDS", 2.0)
    with led.leading() as leader:
        metadata = subscription([led.topic], {}, -1)
        hostile = HostileMember(led.cluster, led.group.id, metadata, rejoins=False)
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
