"""The programs of docs/frameworks.md read locally once they are led, and process every record;
of Faust's, the last record of each partition is checked.

Each test needs its framework: ``python .ci/client_versions.py NAME`` installs it into a temporary
folder and runs its tests. A program prints the values of the records that it processes.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.support.clients import MemberConfig, PartitionId, partitions_of
from integration.support.command_line import running
from integration.support.groups import (
    ConsumerGroup,
    everything_is_committed,
    everything_is_read,
    read_again,
)
from integration.support.leading import live_group
from integration.support.program_clients import ProgramClient
from integration.support.racks import off_rack, shortfall
from integration.support.topics import SteadyProducer, create_topic, new_name
from rackward.groups.readers import is_stable
from rackward.kafka.groups import Group
from rackward.testing import Cluster, LocalCluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text()
RACKS = ("az1", "az2", "az3")
RACK_OF_OWNER = {rack: rack for rack in RACKS}
LEADERS = (2, 0, 1, 1, 0, 0, 2, 1, 0, 2, 2, 1)
"""Broker of each leader: neither range nor roundrobin assigns a member those of one rack only. The
other brokers have replicas, because librdkafka's range prefers members in the racks of replicas."""
SECONDS_AFTER = 1.0
"""For which records are sent after the last rebalance."""

Owned = dict[str, frozenset[PartitionId]]
"""Partitions by the rack of their only member."""


def needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        importlib.util.find_spec(module) is None,
        reason=f"needs {module}, which .ci/client_versions.py installs",
    )


def filled(text: str, servers: str, group: str, topic: str) -> str:
    """Return a program or command of the page with these names in place of its own."""
    server, _, _ = servers.partition(",")
    return (
        text.replace("kafka-1:9092", server)
        .replace('"orders"', f'"{topic}"')
        .replace("billing", group)
    )


@dataclass(frozen=True)
class Program:
    """The program below a heading of the page, as a member of a group."""

    heading: str
    topic: str
    arguments: tuple[str, ...] = ()

    def block(self, language: str) -> str:
        """Return the first block of that language below the heading."""
        section = PAGE[PAGE.index(f"## {self.heading}\n") :]
        return section.partition(f"```{language}\n")[2].partition("```\n")[0]

    def __call__(self, config: MemberConfig) -> ProgramClient:
        def command(_: Sequence[str], folder: Path) -> list[str]:
            path = folder / "program.py"
            text = filled(self.block("python"), config.bootstrap, config.group_id, self.topic)
            path.write_text(text)
            python = [sys.executable, "-u", str(path), *self.arguments]
            # Faust logs what is printed, to stderr.
            merged = ["sh", "-c", 'exec "$@" 2>&1', "sh"] if self.arguments else []
            return ["env", f"RACK={config.rack}", *merged, *python]

        return ProgramClient(command, self._parse)

    def _parse(self, line: str) -> dict[str, Any] | None:
        """Return the record of a line that is a value of `SteadyProducer`."""
        found = re.fullmatch(r"(?:\[.*\] )?(\d+) (\d+) ?\n", line)
        if found is None:
            return None
        partition, offset = map(int, found.groups())
        return {
            "name": "record_data",
            "topic": self.topic,
            "partition": partition,
            "offset": offset,
        }


@dataclass
class Running:
    """A program that runs once per rack, on a topic to which records are sent."""

    cluster: Cluster
    program: Program
    group: ConsumerGroup
    sent: SteadyProducer

    def settle(self, *, at_best: bool = False) -> int:
        """Wait until every partition is assigned once; return how many are off-rack.

        Of all topics of the group. With ``at_best`` wait until the assignment is the best one.
        """
        what = "every partition is assigned once" + ", at best" * at_best
        last: Owned = {}

        def settled() -> bool:
            nonlocal last
            self.group.raise_errors()
            last = self._owned()
            racks = self.cluster.view({topic for tps in last.values() for topic, _ in tps})
            leader_racks = racks.leader_racks()
            return (
                len(last) == len(RACKS)
                and sum(map(len, last.values())) == sum(map(len, leader_racks.values()))
                and not (at_best and shortfall(last, RACK_OF_OWNER, leader_racks))
            )

        try:
            wait_until(settled, TEST_TIMEOUT, what)
        except AssertionError as error:
            raise AssertionError(f"{error}, but {last}") from error
        return off_rack(self.cluster, last, RACK_OF_OWNER)

    def restart_until_led(self) -> None:
        """Restart the members one after the other, once ``rackward lead`` waits."""

        def described() -> Group:
            return live_group(self.cluster, self.group.id)

        wait_until(lambda: bool(described().waiting), TEST_TIMEOUT, "rackward lead waits")
        self.settle()
        for rack in 2 * RACKS:
            self.group.stop(rack)
            self.group.start(rack, rack)
            self.settle()
            if described().leader is not None:
                return

    def _owned(self) -> Owned:
        """Return what brokers say that members own; nothing while the group rebalances."""
        try:
            group = live_group(self.cluster, self.group.id)
        except KeyError:
            return {}
        if not is_stable(group):
            return {}
        return {
            member.rack or member.client_id[-len(RACKS[0]) :]: frozenset(
                (topic, p) for topic, partitions in member.assignment.items() for p in partitions
            )
            for member in group.members
        }

    def finish(self, *, may_skip: bool) -> int:
        """Wait until all records are processed and committed; return how many were more than once.

        With ``may_skip`` only the last record of each partition has to be processed.
        """
        time.sleep(SECONDS_AFTER)
        self.sent.stop()
        topic = self.program.topic
        reads = {tp: self.group.reads_of(tp) for tp in partitions_of(topic, len(LEADERS))}
        if may_skip:
            ends = {(topic, p): max(offsets) for p, offsets in self.sent.acknowledged.items()}
            wait_until(
                lambda: all(end in reads[tp].offsets() for tp, end in ends.items()),
                TEST_TIMEOUT,
                "the last records are processed",
            )
        else:
            everything_is_read(self.group.reads_of, topic, self.sent)
        everything_is_committed(self.cluster, self.group.id, self.sent)
        if may_skip:
            return sum(each.count - len(each.offsets()) for each in reads.values())
        return sum(map(read_again, reads.values()))


@pytest.fixture(scope="module")
def zones() -> Iterator[Cluster]:
    with LocalCluster(RACKS) as cluster:
        yield cluster


@contextmanager
def started(cluster: Cluster, heading: str, *arguments: str) -> Iterator[Running]:
    """Start the program once per rack."""
    topic = create_topic(
        cluster, new_name("orders"), [[(b + n) % 3 for n in range(3)] for b in LEADERS]
    )
    program = Program(heading, topic, arguments)
    with (
        ConsumerGroup(cluster, topics=[topic], client=program) as group,
        SteadyProducer(cluster, topic, len(LEADERS)) as sent,
    ):
        for rack in RACKS:
            group.start(rack, rack)
        yield Running(cluster, program, group, sent)


def check_led(cluster: Cluster, heading: str, *arguments: str, may_skip: bool = False) -> None:
    """Start the program, lead it with the command of the page, and check what it reads."""
    with started(cluster, heading, *arguments) as run:
        before = run.settle()
        command = run.program.block("sh").replace("\\\n", "")
        words = shlex.split(filled(command, cluster.bootstrap_servers, run.group.id, ""))
        began = time.monotonic()
        with running(cluster, *words[1:], "--yes") as lead:
            try:
                if "--take-over" not in words:
                    run.restart_until_led()
                after = run.settle(at_best=True)
                ended = time.monotonic()
                again = run.finish(may_skip=may_skip)
            except AssertionError as error:
                raise AssertionError(f"{error}: {lead.send(signal.SIGINT).err}") from error
        tps = partitions_of(run.program.topic, len(LEADERS))
        gap = max(run.group.reads_of(tp).longest_gap(began, ended) for tp in tps)
    assert before > 0
    assert after == 0
    print(
        f"\n{heading}: off-rack {before} -> {after}, at best after {ended - began:.1f} s,"
        f" without a record for {gap:.1f} s at most, {again} records processed again"
    )


@needs("faststream")
def test_faststream_with_aiokafka(zones: Cluster) -> None:
    check_led(zones, "FastStream with aiokafka")


@needs("faststream")
def test_faststream_with_confluent(zones: Cluster) -> None:
    check_led(zones, "FastStream with confluent-kafka")


@needs("faststream")
def test_faststream_with_rackwards_assignor(zones: Cluster, tmp_path: Path) -> None:
    with started(zones, "FastStream with rackward's assignor") as run:
        assert run.settle(at_best=True) == 0
        run.finish(may_skip=False)
    path = tmp_path / "program.py"
    path.write_text(run.program.block("python"))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", path],
        capture_output=True,
        check=False,
        text=True,
        cwd=tmp_path,
        timeout=TEST_TIMEOUT,
    )
    assert checked.returncode == 0, checked.stdout


@needs("quixstreams")
def test_quix_streams(zones: Cluster) -> None:
    check_led(zones, "Quix Streams")


@needs("faust")
def test_faust(zones: Cluster) -> None:
    # Faust skipped records in some rebalances, also without rackward; the cause is not known.
    check_led(zones, "Faust", "worker", "--without-web", may_skip=True)
