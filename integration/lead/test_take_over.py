"""Taking the lead of groups that run: by waiting, by removing the leader, and not in turns."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from integration.support.groups import ConsumerGroup, everything_is_read
from integration.support.leading import (
    STOCK,
    LedGroup,
    leading,
    wait_for_status,
    wait_until_leading,
)
from integration.support.topics import SteadyProducer, create_topic, described, new_name
from rackward.clusters import Cluster
from rackward.lead import TakeOver, TakeOverPolicy
from tests.support.waiting import TEST_TIMEOUT

PARTITIONS = 12
REPLICAS = [[(p // 4) % 3] for p in range(PARTITIONS)]
"""Leaders in all racks, four in each; range gives each member partitions of one rack."""

REMOVE = TakeOverPolicy(TakeOver.REMOVE, cool_down=5.0)


@pytest.fixture
def topic(shared_three_brokers: Cluster) -> str:
    return create_topic(shared_three_brokers, new_name("led"), REPLICAS)


@pytest.fixture(params=["confluent-cooperative-sticky", "kafka-python-roundrobin", "java-range"])
def led(
    request: pytest.FixtureRequest, shared_three_brokers: Cluster, topic: str
) -> Iterator[LedGroup]:
    """A running group, led by one of its consumers."""
    client = STOCK[request.param]
    with ConsumerGroup(shared_three_brokers, topics=[topic], client=client) as group:
        made = LedGroup(shared_three_brokers, group, topic, PARTITIONS)
        made.start("c1", "b1", "a1")
        made.group.settle({(topic, p) for p in range(PARTITIONS)})
        yield made


def member_ids(cluster: Cluster, group: str) -> set[str]:
    """Return the member ids of a stable group."""
    (description,) = described(cluster, group)
    return {each["member_id"] for each in description["members"]}


def test_the_leader_is_removed_and_nothing_is_lost(
    shared_three_brokers: Cluster, led: LedGroup
) -> None:
    before = member_ids(shared_three_brokers, led.group.id)
    with SteadyProducer(shared_three_brokers, led.topic, PARTITIONS) as sent:
        time.sleep(1.0)
        began = time.monotonic()
        with leading(shared_three_brokers, led.group.id, take_over=REMOVE) as leader:
            wait_until_leading(leader)
            led.settle()
            status = leader.status()[0]
            ended = time.monotonic()
            after = member_ids(shared_three_brokers, led.group.id)
            sent.stop()
            everything_is_read(led.group.reads_of, led.topic, sent)
    gaps = [led.group.reads_of((led.topic, p)).longest_gap(began, ended) for p in range(PARTITIONS)]
    print(f"\nseconds without reading, by partition: {sorted(round(gap, 1) for gap in gaps)}")
    # Some consumers were removed and have new ids, and one more member leads.
    removed = len(before - after)
    assert removed == 3 if status.figures.protocol == "roundrobin" else 0 < removed < 3
    assert len(after - before) == removed + 1
    assert max(gaps) < TEST_TIMEOUT


def test_waiting_leads_when_the_leader_leaves(shared_three_brokers: Cluster, led: LedGroup) -> None:
    with leading(shared_three_brokers, led.group.id) as leader:
        wait_for_status(leader, lambda each: each.state in ("waiting", "outside"), "it waits")
        if leader.status()[0].state == "outside":
            assert "waiting until the group is empty" in leader.status()[0].reason
            return
        assert "waiting until that leaves" in leader.status()[0].reason
        # New members may be ahead of ours in the brokers' map, so none joins before ours leads.
        for name in ("c1", "b1", "a1"):
            led.stop(name)
        wait_until_leading(leader)
        for name in ("c2", "b2", "a2"):
            led.start(name)
        led.settle()
        assert leader.status()[0].leads


def test_two_that_take_over_do_not_remove_each_other(
    shared_three_brokers: Cluster, led: LedGroup
) -> None:
    with (
        leading(shared_three_brokers, led.group.id, take_over=REMOVE) as first,
        leading(shared_three_brokers, led.group.id, take_over=REMOVE) as second,
    ):
        deadline = time.monotonic() + TEST_TIMEOUT
        while not (first.status()[0].leads or second.status()[0].leads):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        led.settle()
        ids = member_ids(shared_three_brokers, led.group.id)
        time.sleep(2 * REMOVE.cool_down)
        assert member_ids(shared_three_brokers, led.group.id) == ids
        assert [first.status()[0].leads, second.status()[0].leads].count(True) == 1
        follower = second if first.status()[0].leads else first
        leader = first if follower is second else second
        assert follower.status()[0].reason == "another rackward process leads the group"
        leader.close()
        wait_until_leading(follower)
        led.settle()


@pytest.mark.parametrize("client", sorted(STOCK))
def test_a_member_in_waiting_does_no_harm(
    shared_three_brokers: Cluster, topic: str, client: str
) -> None:
    """The consumers' own leader assigns everything, to members that read."""
    expected = {(topic, p) for p in range(PARTITIONS)}
    with ConsumerGroup(shared_three_brokers, topics=[topic], client=STOCK[client]) as group:
        group.start("a1", "a")
        group.settle(expected)
        with leading(shared_three_brokers, group.id) as leader:
            wait_for_status(leader, lambda each: each.state in ("waiting", "outside"), "it waits")
            group.start("b1", "b")
            owned = group.settle(expected)
            assert all(owned.values())
            assert leader.status()[0].state == ("outside" if "roundrobin" in client else "waiting")
