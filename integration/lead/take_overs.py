"""Take running groups over, one after the other, and print how long their partitions were not read.

    python -m integration.lead.take_overs --client confluent-cooperative-sticky --count 10
    python -m integration.lead.take_overs --client java-range --members 12 --count 1
    python -m integration.lead.take_overs --by waiting --client java-cooperative-sticky

``--by removal`` removes the leader of each group. ``--by waiting`` restarts the members one after
the other, as a rolling restart does, until rackward leads.

A line per take-over: the number of members that have a new id; the seconds until the assignment was
optimal; the longest time without a record of any partition, and the median of the partitions; the
longest time for which one member owned nothing. Every acknowledged record must have been read.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import statistics
import time
from collections.abc import Callable
from typing import Any

from integration.support.clients import PartitionId
from integration.support.groups import ConsumerGroup, everything_is_read
from integration.support.leading import (
    CLIENTS,
    LedGroup,
    leading,
    led_group,
    member_ids,
    wait_until_leading,
)
from integration.support.topics import SteadyProducer
from rackward.lead import TakeOver, TakeOverPolicy
from rackward.testing import Cluster, LocalCluster

RACKS = ("a", "b", "c")


def main() -> None:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--client", choices=sorted(CLIENTS), default="confluent-cooperative-sticky")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--by", choices=("removal", "waiting"), default="removal")
    parser.add_argument("--heartbeat", type=float, help="seconds between members' heartbeats")
    parser.add_argument("--verbose", action="store_true", help="print the log lines of rackward")
    options = parser.parse_args()
    if options.verbose:
        logging.basicConfig(format="%(asctime)s %(message)s")
        logging.getLogger("rackward").setLevel(logging.INFO)
    with LocalCluster(RACKS) as cluster:
        for number in range(options.count):
            print(f"{number + 1}: {take_over(cluster, options)}", flush=True)


def take_over(cluster: Cluster, options: argparse.Namespace) -> str:
    """Start a group, take it over, check what was read, and return the figures."""
    names = [f"{rack}{n}" for n, rack in zip(range(options.members), itertools.cycle("cba"))]
    settings = {} if options.heartbeat is None else _heartbeat(options.client, options.heartbeat)
    mode = TakeOver.REMOVE if options.by == "removal" else TakeOver.WAIT
    rows = [[(p // 4) % 3] for p in range(options.partitions)]
    with led_group(cluster, options.client, rows, **settings) as led:
        group, topic = led.group, led.topic
        led.start(*names)
        led.await_owners()
        before = member_ids(cluster, group.id)
        with SteadyProducer(cluster, topic, options.partitions) as sent:
            time.sleep(1.0)
            began = time.monotonic()
            with leading(cluster, group.id, take_over=TakeOverPolicy(mode)) as leader:
                if mode is TakeOver.WAIT:
                    _restart_until(lambda: leader.status()[0].leads, led)
                wait_until_leading(leader)
                led.settle()
                ended = time.monotonic()
                new = len(member_ids(cluster, group.id) - before) - 1
                sent.stop()
                everything_is_read(group.reads_of, topic, sent)
        gaps = [group.reads_of(tp).longest_gap(began, ended) for tp in led.tps]
        idle = max(_longest_without(group, name, began, ended) for name in names)
    return (
        f"new ids {new}, optimal after {ended - began:.1f} s, without a record"
        f" {max(gaps):.1f} s at most, {statistics.median(gaps):.1f} s median,"
        f" a member without partitions {idle:.1f} s"
    )


def _restart_until(leads: Callable[[], bool], led: LedGroup) -> None:
    """Restart the members one after the other, as a rolling restart does, until rackward leads."""
    for name in list(led.racks):
        if leads():
            return
        led.stop(name)
        led.start(name)
        led.await_owners()


def _heartbeat(client: str, seconds: float) -> dict[str, Any]:
    """Return the setting of a client for the time between two heartbeats."""
    dots = client.startswith(("confluent", "java"))
    return {"heartbeat.interval.ms" if dots else "heartbeat_interval_ms": int(seconds * 1000)}


def _longest_without(group: ConsumerGroup, name: str, began: float, ended: float) -> float:
    """Return the longest time for which a member owned no partition, in seconds."""
    owned: set[PartitionId] = set()
    longest, since = 0.0, None
    for change in [each for each in group.history if each.member == name]:
        owned = (
            owned | change.partitions if change.kind == "assigned" else owned - change.partitions
        )
        at = max(change.when, began)
        if not owned and since is None:
            since = at
        elif owned and since is not None:
            longest, since = max(longest, at - since), None
    return max(longest, ended - since) if since is not None else longest


if __name__ == "__main__":
    main()
