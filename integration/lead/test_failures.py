"""What a led group does when the process that leads it fails, and when the cluster changes."""

from __future__ import annotations

import json
import logging
import signal
import time
from collections.abc import Mapping
from urllib.request import urlopen

import confluent_kafka
import pytest
from kafka import KafkaAdminClient
from kafka import errors as kafka_errors

from integration.support.command_line import running
from integration.support.groups import everything_is_read
from integration.support.leading import (
    MAPPING,
    SHORT_SESSION_SECONDS,
    LedGroup,
    leading,
    member_ids,
    membership_times,
    wait_for_status,
    wait_until_leading,
)
from integration.support.proxy import Proxy
from integration.support.topics import SteadyProducer, create_topic, new_name, with_admin
from rackward.lead import GroupLeader, LeadOptions, TakeOver, TakeOverPolicy
from rackward.lead.member import SESSION_SECONDS, GroupMember, LeadConnection
from rackward.testing import Cluster
from rackward.testing.broker_config import free_ports
from tests.support.waiting import TEST_TIMEOUT, wait_until


def test_another_process_takes_over_from_one_that_is_killed(
    shared_three_brokers: Cluster, led: LedGroup
) -> None:
    health = f"127.0.0.1:{free_ports(1)[0]}"
    command = ("lead", led.group.id, "--yes", "--json", "--health", health)
    with running(shared_three_brokers, *command) as first:
        first.until(lambda line: json.loads(line)["state"] == "leading")
        led.start("c1", "b1", "a1")
        led.settle()
        with urlopen(f"http://{health}/metrics", timeout=TEST_TIMEOUT) as response:
            metrics = response.read().decode()
        assert f'rackward_lead_leading{{group="{led.group.id}"}} 1.0' in metrics
        assert f'rackward_lead_partitions{{group="{led.group.id}"}} 12.0' in metrics
        with (
            # In one of six such groups a consumer is ahead of it in the brokers' map, and leads.
            leading(
                shared_three_brokers, led.group.id, take_over=TakeOverPolicy(TakeOver.REMOVE)
            ) as second,
            SteadyProducer(shared_three_brokers, led.topic, led.partitions) as sent,
        ):
            wait_for_status(second, lambda each: each.state == "waiting", "it waits")
            assert second.status()[0].reason == "another rackward process leads the group"
            first.process.kill()
            began = time.monotonic()
            wait_until_leading(second)
            seconds = time.monotonic() - began
            led.settle()
            sent.stop()
            everything_is_read(led.group.reads_of, led.topic, sent)
            print(f"\nseconds until another process led: {seconds:.1f}")
            assert seconds < SESSION_SECONDS + TEST_TIMEOUT / 2


def test_the_group_goes_on_without_a_suspended_process(
    shared_three_brokers: Cluster, led: LedGroup
) -> None:
    with running(shared_three_brokers, "lead", led.group.id, "--yes", "--json") as leader:
        leader.until(lambda line: json.loads(line)["state"] == "leading")
        led.start("c1", "b1")
        led.settle()
        leader.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        try:
            # A rebalance that only ends without the process.
            led.start("a1")
            led.await_owners()
            print(f"\nseconds until the group went on: {time.monotonic() - began:.1f}")
        finally:
            leader.process.send_signal(signal.SIGCONT)
        leader.until(lambda line: json.loads(line)["state"] == "waiting")


def test_a_process_that_was_cut_off_leads_again(
    shared_three_brokers: Cluster,
    led: LedGroup,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While a rebalance waits for it: the worst moment."""
    caplog.set_level(logging.INFO, "rackward.lead")
    policy = TakeOverPolicy(TakeOver.REMOVE)
    with membership_times(), Proxy() as proxy:
        with monkeypatch.context() as patched:
            patched.setitem(KafkaAdminClient.DEFAULT_CONFIG, "proxy_url", proxy.url)
            leader = GroupLeader(
                {"bootstrap.servers": shared_three_brokers.bootstrap_servers},
                [led.group.id],
                LeadOptions(host_racks=MAPPING, take_over=policy),
            )
        with leader, SteadyProducer(shared_three_brokers, led.topic, led.partitions) as sent:
            wait_until_leading(leader)
            led.start("c1", "b1")
            led.settle()
            proxy.cut()
            began = time.monotonic()
            led.start("a1")
            led.await_owners()
            went_on = time.monotonic() - began
            wait_for_status(leader, lambda each: not each.leads, "it knows that it does not lead")
            proxy.mend()
            began = time.monotonic()
            wait_until_leading(leader)
            led.settle()
            sent.stop()
            everything_is_read(led.group.reads_of, led.topic, sent)
            print(
                f"\nseconds until the group went on: {went_on:.1f},"
                f" until it was led again: {time.monotonic() - began:.1f}"
            )
            # A line per change, not per attempt.
            assert caplog.text.count("retrying after") <= 2
            assert "the coordinator responds again" in caplog.text
            assert went_on < SHORT_SESSION_SECONDS + TEST_TIMEOUT / 2


def test_an_assignment_that_is_lost_on_its_way_is_made_again(
    led: LedGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers would wait for it for the rebalance time-out of the members: 300 s by default."""
    sync = GroupMember.sync
    lost: list[int] = []

    async def lose_first(
        member: GroupMember, assignments: Mapping[str, bytes] | None = None
    ) -> bytes:
        if len(assignments or ()) > 1 and not lost:
            lost.append(member.generation)
            raise kafka_errors.KafkaConnectionError("injected")
        return await sync(member, assignments)

    monkeypatch.setattr(GroupMember, "sync", lose_first)
    with led.leading("a1", "b1", "c1") as leader:
        assert lost
        wait_until_leading(leader)


def test_heartbeats_do_not_wait_for_metadata(
    shared_three_brokers: Cluster, led: LedGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that does not answer, and does not coordinate the group, costs no membership."""

    async def never(connection: LeadConnection, *_: object) -> None:
        await connection.notifier()(TEST_TIMEOUT)

    with led.leading("a1", "b1", "c1") as leader:
        before = member_ids(shared_three_brokers, led.group.id)
        monkeypatch.setattr(LeadConnection, "read_topics", never)
        time.sleep(SHORT_SESSION_SECONDS + 2.0)
        assert leader.status()[0].leads
        assert member_ids(shared_three_brokers, led.group.id) == before


def test_partitions_that_are_added_are_assigned(
    shared_three_brokers: Cluster, led: LedGroup
) -> None:
    with led.leading("a1", "b1", "c1") as leader:
        with_admin(
            shared_three_brokers,
            lambda admin: admin.create_partitions(
                {led.topic: {"count": 15, "assignments": [[0], [1], [2]]}}
            ),
        )
        led.partitions = 15
        led.settle()
        wait_for_status(leader, lambda each: each.metrics.partitions == 15, "it has 15 partitions")


@pytest.mark.new_protocol
def test_groups_that_cannot_be_led_are_refused(shared_three_brokers: Cluster) -> None:
    topic = create_topic(shared_three_brokers, new_name("led"), [[0]])
    group = new_name("group")
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": shared_three_brokers.bootstrap_servers,
            "group.id": group,
            "group.protocol": "consumer",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        wait_until(
            lambda: consumer.poll(0.1) is None and bool(consumer.assignment()),
            TEST_TIMEOUT,
            "the consumer has partitions",
        )
        with leading(shared_three_brokers, group) as leader:
            status = wait_for_status(leader, lambda each: each.state == "refused", "it is refused")
            assert "rackward leaders plan" in status.reason
    finally:
        consumer.close()
