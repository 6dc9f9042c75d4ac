"""Taking the lead of groups that run: by waiting, by removing the leader, and not in turns."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
from kafka import errors as kafka_errors

from assignors.consumer_protocol import EMPTY_SUBSCRIPTION
from integration.support.groups import everything_is_read
from integration.support.leading import (
    UNMODIFIED_CLIENTS,
    LedGroup,
    leading,
    led_group,
    live_group,
    member_ids,
    wait_for_status,
    wait_until_leading,
)
from integration.support.topics import SteadyProducer, new_name
from rackward.kafka.groups import leads_for_rackward
from rackward.lead import TakeOver, TakeOverPolicy
from rackward.lead.member import COORDINATOR_ERRORS, GroupMember, LeadConnection
from rackward.lead.take_over import bucket, id_cost, members_ahead
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

REPLICAS = [[(p // 4) % 3] for p in range(12)]
"""Leaders in all racks, four in each; range gives each member partitions of one rack."""

STUCK_SECONDS = 30.0
"""Session time-out of the consumers: the shortest time for which a request that is never answered,
or a member id that nobody uses, holds one of them up."""

REMOVE = TakeOverPolicy(TakeOver.REMOVE, cool_down=5.0)


@pytest.fixture(params=["confluent-cooperative-sticky", "kafka-python-roundrobin", "java-range"])
def led(request: pytest.FixtureRequest, shared_three_brokers: Cluster) -> Iterator[LedGroup]:
    """A running group, led by one of its consumers."""
    with led_group(shared_three_brokers, request.param, REPLICAS) as group:
        group.start("c1", "b1", "a1")
        group.await_owners()
        yield group


def test_the_leader_is_removed_and_nothing_is_lost(
    shared_three_brokers: Cluster, led: LedGroup
) -> None:
    before = member_ids(shared_three_brokers, led.group.id)
    with SteadyProducer(shared_three_brokers, led.topic, led.partitions) as sent:
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
    gaps = [led.group.reads_of(tp).longest_gap(began, ended) for tp in led.tps]
    print(f"\nseconds without reading, by partition: {sorted(round(gap, 1) for gap in gaps)}")
    # Some consumers were removed and have new ids, and one more member leads.
    removed = len(before - after)
    if status.metrics.protocol == "roundrobin":
        assert removed == 3
    else:
        # The leader, and those that would be ahead of rackward's nevertheless.
        (leader_id,) = filter(leads_for_rackward, after)
        assert 1 <= removed <= 1 + len(members_ahead(leader_id, list(before)))
    assert len(after - before) == removed + 1
    assert ended - began < STUCK_SECONDS


def test_members_that_wait_for_their_assignment_are_not_removed(
    shared_three_brokers: Cluster,
) -> None:
    """A broker never answers the SyncGroup request of a member that it removes.

    So members are removed only while the group is stable.
    """
    group = new_name("group")
    properties = {"bootstrap.servers": shared_three_brokers.bootstrap_servers}
    connection = LeadConnection(properties)
    # Of the member ids that brokers give.
    connection.admin.manager.config["client_id"] = "consumer"
    slow, removed = (GroupMember(connection, group) for _ in range(2))
    protocols = [("cooperative-sticky", EMPTY_SUBSCRIPTION)]

    async def join(member: GroupMember) -> bool:
        return (await member.join(protocols, "")).leader == slow.id

    async def form() -> None:
        # The first group of a cluster has no coordinator at first.
        while not slow.id:
            with suppress(*COORDINATOR_ERRORS):
                slow.id = await slow.request_id(protocols)
            slow.forget_coordinator()
            await connection.notifier()(0.1)
        await join(slow)
        await slow.sync({slow.id: b""})
        # With this id, it would lead after the leader, whichever id rackward's has.
        await removed.choose_id(protocols, lambda each: bucket(each, 16), 1000)
        joining = connection.start(lambda: join(removed))
        assert await join(slow)
        assert await joining
        synchronizing = connection.start(removed.sync)
        await slow.sync({slow.id: b"", removed.id: b""})
        await synchronizing

    async def rejoin() -> None:
        try:
            while True:
                await slow.heartbeat()
                await connection.notifier()(0.1)
        except kafka_errors.RebalanceInProgressError:
            pass
        joining = connection.start(lambda: join(removed))
        assert await join(slow)
        assert await joining
        synchronizing = connection.start(removed.sync)
        # Its leader takes a while to assign.
        await connection.notifier()(1.0)
        await slow.sync({slow.id: b"", removed.id: b""})
        await connection.wait(synchronizing, TEST_TIMEOUT / 2)

    async def leave() -> None:
        for member in (slow, removed):
            with suppress(kafka_errors.KafkaError):
                await member.leave("the test ends")

    try:
        connection.run(form)
        with leading(shared_three_brokers, group, take_over=REMOVE) as leader:
            connection.run(rejoin)
            connection.run(leave)
            wait_until_leading(leader)
    finally:
        connection.close()


def test_waiting_leads_when_the_leader_leaves(shared_three_brokers: Cluster, led: LedGroup) -> None:
    with leading(shared_three_brokers, led.group.id) as leader:
        wait_for_status(leader, lambda each: each.state in ("waiting", "outside"), "it waits")
        if leader.status()[0].state == "outside":
            assert "waiting until the group is empty" in leader.status()[0].reason
            return
        assert "waiting until that leaves" in leader.status()[0].reason
        # New members may be ahead of rackward's in the brokers' map: none joins before it leads.
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
        # While the first one leads already, the second may still be about to join.
        wait_until(
            lambda: (
                {each.status()[0].reason for each in (first, second) if not each.status()[0].leads}
                == {"another rackward process leads the group"}
            ),
            TEST_TIMEOUT,
            "one process leads, and the other knows",
        )
        led.settle()
        ids = member_ids(shared_three_brokers, led.group.id)
        time.sleep(2 * REMOVE.cool_down)
        assert member_ids(shared_three_brokers, led.group.id) == ids
        assert [first.status()[0].leads, second.status()[0].leads].count(True) == 1
        follower = second if first.status()[0].leads else first
        leader = first if follower is second else second
        assert follower.status()[0].reason == "another rackward process leads the group"
        leader.stop()
        wait_until_leading(follower)
        led.settle()


def test_a_process_that_has_left_does_not_stop_the_next(
    shared_three_brokers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer leads after the first process has left, and the second knows that it has left.

    Of two processes, the one with the lower member id takes the group over.
    """

    def low(candidate: str, others: Sequence[str], mode: TakeOver) -> int:
        return id_cost(candidate, others, mode) + (candidate[-36] > "7")

    def high_and_last(candidate: str, *_: object) -> int:
        return (bucket(candidate, 16) < 15) + (candidate[-36] < "8")

    monkeypatch.setattr("rackward.lead.led_group.ID_TRIES", 1000)
    monkeypatch.setattr("rackward.lead.led_group.id_cost", low)
    with (
        led_group(shared_three_brokers, replicas=REPLICAS) as led,
        led.leading("c1", "b1", "a1", take_over=REMOVE) as first,
    ):
        monkeypatch.setattr("rackward.lead.led_group.id_cost", high_and_last)
        with leading(shared_three_brokers, led.group.id, take_over=REMOVE) as second:
            wait_for_status(second, lambda each: each.state == "waiting", "it waits")
            first.stop()
            wait_until_leading(second)
            led.settle()


@pytest.mark.parametrize("client", sorted(UNMODIFIED_CLIENTS))
def test_a_member_in_waiting_does_no_harm(shared_three_brokers: Cluster, client: str) -> None:
    """The consumers' own leader assigns everything, to members that read."""
    with led_group(shared_three_brokers, client, REPLICAS) as led:
        led.start("a1")
        led.await_owners()
        with leading(shared_three_brokers, led.group.id) as leader:
            wait_for_status(leader, lambda each: each.state in ("waiting", "outside"), "it waits")
            led.start("b1")
            assert all(led.await_owners().values())
            outside = "roundrobin" in client
            assert leader.status()[0].state == ("outside" if outside else "waiting")
            found = live_group(shared_three_brokers, led.group.id)
            assert (found.leader, len(found.waiting)) == (None, 0 if outside else 1)
            assert len(found.members) == 2
