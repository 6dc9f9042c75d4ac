"""Migrate a led group to ``group.protocol=consumer`` and back under load, and print what it costs.

    python -m integration.lead.migrations --client confluent-cooperative-sticky --members 6
    python -m integration.lead.migrations --plain

A controller leads the group and has leaders follow it, with one configuration for all of the time.
Members are restarted one after the other. ``--plain`` does the same without a controller.

A line per phase: its seconds, the mean share of partitions whose owner is in the rack of their
leader, and the longest time without a record of any partition. Every acknowledged record must have
been read.
"""

from __future__ import annotations

import argparse
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import KafkaError

from integration.support.clients import MakeClient
from integration.support.collecting import new_protocol
from integration.support.confluent import StockConfluent
from integration.support.controllers import READY_SECONDS, RunningController
from integration.support.groups import everything_is_read, read_again
from integration.support.leading import LedGroup, leaders_in_all_racks, led_group
from integration.support.program_clients import COOPERATIVE_STICKY, RANGE, Java
from integration.support.topics import SteadyProducer
from rackward.testing import Cluster, LocalCluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

RACKS = ("a", "b", "c")

_CONVERTED = frozenset({KafkaError.REBALANCE_IN_PROGRESS})
"""What librdkafka returns where brokers convert a group in a rebalance, and then joins again."""

CLIENTS: dict[str, MakeClient] = {
    "confluent-cooperative-sticky": StockConfluent("cooperative-sticky", _CONVERTED),
    "confluent-range": StockConfluent("range", _CONVERTED),
    "java-cooperative-sticky": Java(COOPERATIVE_STICKY),
    "java-range": Java(RANGE),
}
"""Classic consumers, by client and protocol."""

HOLD_SECONDS = 8.0
"""For which a phase without a change is measured."""

RECORD = b"x" * 500
"""A record; each partition gets ten a second."""

FOLLOWED_SECONDS = 90.0
"""In which leaders follow, whose default settle time is 30 s."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What was measured from ``began`` to ``ended``; ``local`` is a share."""

    name: str
    began: float
    ended: float
    local: float
    gap: float

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.ended - self.began:.1f} s, local {self.local:.1%},"
            f" without a record {self.gap:.1f} s at most"
        )


@dataclass
class Migration:
    """A group, and the phases that were measured."""

    led: LedGroup
    phases: list[Phase] = field(default_factory=list)

    def locality(self) -> float:
        """Return the share of the owned partitions whose owner is in the rack of their leader."""
        leaders = self.led.cluster.view([self.led.topic]).leader_racks()[self.led.topic]
        local = [
            leaders[number] == self.led.racks[name]
            for name, member in list(self.led.group.members.items())
            for _, number in member.owned
        ]
        return sum(local) / len(local) if local else 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure what happens in the block."""
        shares: list[float] = []
        ended = threading.Event()

        def sample() -> None:
            while not ended.wait(0.2):
                shares.append(self.locality())

        thread = threading.Thread(target=sample, daemon=True)
        began = time.monotonic()
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        now = time.monotonic()
        gap = max(self.led.group.reads_of(tp).longest_gap(began, now) for tp in self.led.tps)
        self.phases.append(Phase(name, began, now, sum(shares) / len(shares), gap))
        print(self.phases[-1], flush=True)


def migrate(
    cluster: Cluster, client: str, members: int, partitions: int, folder: Path | None
) -> list[Phase]:
    """Migrate a group there and back; return the phases. Without a folder, there is no controller.

    Raises AssertionError if a record is lost, or the group is not led or followed in time.
    """
    java = client.startswith("java")
    with ExitStack() as stack:
        rows = leaders_in_all_racks(3, partitions)
        led = stack.enter_context(led_group(cluster, CLIENTS[client], rows))
        group, topic = led.group, led.topic
        migration = Migration(led)
        led.start(*(f"{rack}{n}" for n, rack in zip(range(members), itertools.cycle(RACKS))))
        led.await_owners()
        sent = stack.enter_context(SteadyProducer(cluster, topic, partitions, value=RECORD))
        running = None
        if folder is not None:
            lead = {"groups": [group.id], "take_over": "remove"}
            leaders = {"follow": [group.id]}
            running = stack.enter_context(
                RunningController(cluster, folder, lead=lead, leaders=leaders)
            )

        def until_local(seconds: float) -> None:
            if running is not None:
                wait_until(lambda: migration.locality() == 1.0, seconds, "all is local")

        if running is not None:
            _wait_for_state(running, "leading")
        until_local(TEST_TIMEOUT)
        with migration.phase("classic"):
            time.sleep(HOLD_SECONDS)
        with migration.phase("to the new protocol"):
            led.restart(Java(None) if java else new_protocol)
        with migration.phase("until all is local"):
            until_local(FOLLOWED_SECONDS)
            time.sleep(0.5)
        if running is not None:
            _wait_for_state(running, "refused")
        with migration.phase("new protocol"):
            time.sleep(HOLD_SECONDS)
        with migration.phase("to the classic protocol"):
            led.restart(CLIENTS[client])
        with migration.phase("until all is local"):
            if running is not None:
                _wait_for_state(running, "leading")
            until_local(TEST_TIMEOUT)
            time.sleep(0.5)
        with migration.phase("classic"):
            time.sleep(HOLD_SECONDS)
        sent.stop()
        everything_is_read(group.reads_of, topic, sent)
        again = sum(read_again(group.reads_of(tp)) for tp in led.tps)
        records = sum(map(len, sent.acknowledged.values()))
        print(f"{records} records, none lost, {again} read again", flush=True)
        if running is not None:
            print(f"elections: {running.status()['leaders']['elections_last_hour']}", flush=True)
    return migration.phases


def _wait_for_state(running: RunningController, state: str) -> None:
    """Wait until the only group has this state."""

    def matches() -> bool:
        groups = running.status()["groups"]
        return bool(groups) and groups[0]["state"] == state

    wait_until(matches, READY_SECONDS, f"the group is {state}")


def main() -> None:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--client", choices=sorted(CLIENTS), default="confluent-cooperative-sticky")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--plain", action="store_true", help="without a controller")
    options = parser.parse_args()
    with LocalCluster(RACKS) as cluster, TemporaryDirectory() as folder:
        migrate(
            cluster,
            options.client,
            options.members,
            options.partitions,
            None if options.plain else Path(folder),
        )


if __name__ == "__main__":
    main()
