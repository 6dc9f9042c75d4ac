"""Processes that divide groups: handing over in one rebalance, and after a process was killed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any
from urllib.request import urlopen

import pytest

from integration.support.command_line import Running, running
from integration.support.leading import (
    MAPPING_OPTION,
    LedGroup,
    leaders_in_all_racks,
    leading,
    led_group,
    member_ids,
    wait_until_leading,
)
from integration.support.topics import new_name
from rackward.kafka.groups import leads_for_rackward
from rackward.lead.member import SESSION_SECONDS
from rackward.lead.take_over import bucket
from rackward.lead.workers import owner_of
from rackward.testing import Cluster
from rackward.testing.broker_config import free_ports
from tests.support.waiting import TEST_TIMEOUT, wait_until

REPLICAS = leaders_in_all_racks(partitions=6)
BUCKETS = 16
"""Of the brokers' map of a small group."""
CANDIDATES = 20
GROUPS_PER_PROCESS = 2


def group_of(stack: ExitStack, cluster: Cluster, name: str, client: str) -> LedGroup:
    """Return a group of that name without members yet."""
    # librdkafka's own cooperative-sticky assignor, which leads first, can swap two partitions for
    # ever if members send racks.
    led = stack.enter_context(led_group(cluster, client, REPLICAS, sends_racks=False))
    led.group.id = name
    return led


def has_early_consumer(cluster: Cluster, group: str) -> bool:
    """Return whether one is so early in the brokers' map that a process may not get ahead of it."""
    consumers = [each for each in member_ids(cluster, group) if not leads_for_rackward(each)]
    return min(bucket(each, BUCKETS) for each in consumers) < BUCKETS / 4


def test_a_group_goes_over_in_one_rebalance(
    shared_three_brokers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a process that starts, and from one that ends."""
    workers = new_name("workers")
    one, two = (f"rackward-lead-{workers}/{number}" for number in ("one", "two"))
    name = next(n for n in iter(lambda: new_name("led"), "") if owner_of(n, [one, two]) == two)
    names = iter((one, two))
    monkeypatch.setattr("rackward.lead.leader.worker_client_id", lambda *_: next(names))
    with ExitStack() as stack:
        led = group_of(stack, shared_three_brokers, name, "confluent-range")
        first = stack.enter_context(leading(shared_three_brokers, name, worker_group=workers))
        wait_until_leading(first)
        led.start("a1", "b1")
        led.settle()
        while has_early_consumer(shared_three_brokers, name):
            for member in ("a1", "b1"):
                led.stop(member)
                led.start(member)
            led.settle()
        generation = first.status()[0].metrics.generation
        with leading(shared_three_brokers, name, worker_group=workers) as second:
            wait_until(lambda: bool(second.status()), TEST_TIMEOUT, "the group is the second's")
            wait_until_leading(second)
            wait_until(lambda: not first.status(), TEST_TIMEOUT, "the first has let it go")
            for leader in (first, second):
                assert leader.workers is not None
                assert leader.workers.names == (one, two)
            assert second.status()[0].metrics.generation == generation + 1
            led.settle()
        wait_until(lambda: bool(first.status()), TEST_TIMEOUT, "the group is the first's again")
        wait_until_leading(first)
        assert first.status()[0].metrics.generation == generation + 2
        led.settle()


class Process:
    """``rackward lead`` with a group of workers, and what its health port says."""

    def __init__(self, stack: ExitStack, cluster: Cluster, workers: str, *groups: str) -> None:
        self._health = f"127.0.0.1:{free_ports(1)[0]}"
        options = ("--worker-group", workers, "--mapping", MAPPING_OPTION, "--health", self._health)
        # A consumer that is the first in the brokers' map leads a group that its process has left.
        remove = ("--take-over", "remove", "--yes")
        self.command: Running = stack.enter_context(
            running(cluster, "lead", *groups, *options, *remove)
        )

    def status(self) -> Mapping[str, Any]:
        """Return /status; nothing while it starts."""
        try:
            with urlopen(f"http://{self._health}/status", timeout=TEST_TIMEOUT) as response:
                return dict(json.load(response))
        except OSError:
            return {"groups": [], "workers": {"name": "", "names": []}}

    def leads(self) -> set[str]:
        """Return the groups that it leads."""
        return {each["group"] for each in self.status()["groups"] if each["state"] == "leading"}


def test_the_groups_of_a_killed_process_are_led_by_the_other(
    shared_three_brokers: Cluster,
) -> None:
    workers, stem = new_name("workers"), new_name("led")
    names = [f"{stem}-{number}" for number in range(CANDIDATES)]

    def start() -> Process:
        return Process(stack, shared_three_brokers, workers, *names)

    with ExitStack() as stack:
        first, second = start(), start()
        both = (first, second)
        wait_until(
            lambda: all(len(each.status()["workers"]["names"]) == 2 for each in both),
            2 * TEST_TIMEOUT,
            "the processes know each other",
        )
        known = first.status()["workers"]["names"]
        mine = {worker: [n for n in names if owner_of(n, known) == worker] for worker in known}
        chosen = [name for owned in mine.values() for name in owned[:GROUPS_PER_PROCESS]]
        groups = [
            group_of(stack, shared_three_brokers, name, "confluent-cooperative-sticky")
            for name in chosen
        ]
        for group in groups:
            group.start("a1", "b1")
        wait_until(
            lambda: first.leads() | second.leads() >= set(chosen), 2 * TEST_TIMEOUT, "all are led"
        )
        for group in groups:
            group.settle()
        assert first.leads() & set(chosen) == set(mine[first.status()["workers"]["name"]]) & set(
            chosen
        )
        first.command.process.kill()
        began = time.monotonic()
        wait_until(
            lambda: second.leads() >= set(chosen),
            SESSION_SECONDS + TEST_TIMEOUT,
            "the other process leads all groups",
        )
        print(f"\nseconds until the other led all groups: {time.monotonic() - began:.1f}")
        third = start()
        began = time.monotonic()
        wait_until(
            lambda: len(third.status()["workers"]["names"]) == 2, 2 * TEST_TIMEOUT, "it is known"
        )
        known = third.status()["workers"]["names"]
        name = third.status()["workers"]["name"]
        share = {each for each in chosen if owner_of(each, known) == name}
        wait_until(
            lambda: (
                third.leads() & set(chosen) == share
                and second.leads() & set(chosen) == set(chosen) - share
            ),
            2 * TEST_TIMEOUT,
            "the groups are divided again",
        )
        print(f"seconds until they were divided again: {time.monotonic() - began:.1f}")
        for group in groups:
            group.settle()
