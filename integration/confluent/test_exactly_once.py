"""A pipeline of transactions whose members come, go, are killed and are left for dead."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Producer, TopicPartition

from integration.support.confluent import RACKWARD, Variant, new_group
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import committed, create_topic, described, new_name
from rackward.clusters import Cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

PARTITIONS = 12
RECORDS = 100_000
PATIENCE = 90.0


class Process:
    """A member of the pipeline; its lines are kept."""

    def __init__(self, arguments: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "integration.support.pipeline", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        self.said: list[str] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.strip())

    def await_word(self, word: str) -> None:
        wait_until(
            lambda: (
                any(line.split()[:1] == [word] for line in self.said)
                or self._process.poll() is not None
            ),
            within=PATIENCE,
            what=f"a member says {word!r}; it said {self.said[-3:]}",
        )
        assert self._process.poll() is None, f"it ended ({self._process.returncode}): {self.said}"

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def tell(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)

    def end(self) -> None:
        """Close its input, so that it closes its consumer."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(PATIENCE) == 0, self.said[-5:]

    def discard(self) -> None:
        if self._process.poll() is None:
            self.kill()
        self._thread.join(PATIENCE)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


class Members:
    """Starts processes, and ends those that are left."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._all: list[Process] = []

    def start(self, name: str, rack: str) -> Process:
        process = Process([*self._arguments, f"--name={name}", f"--rack={rack}"])
        self._all.append(process)
        process.await_word("ready")
        return process

    def discard(self) -> None:
        for process in self._all:
            process.discard()


def test_each_record_is_written_once(cluster: Cluster) -> None:
    copied_exactly_once(cluster, RACKWARD)


def copied_exactly_once(cluster: Cluster, variant: Variant) -> None:
    source = create_topic(cluster, new_name("source"), replicas_led_from(evenly(PARTITIONS)))
    target = create_topic(cluster, new_name("target"), replicas_led_from(evenly(PARTITIONS)))
    group = new_group()
    members = Members(
        f"--variant={variant.name}",
        f"--bootstrap={cluster.bootstrap_servers}",
        f"--group={group}",
        f"--input={source}",
        f"--output={target}",
    )
    feed = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5})
    fed = 0

    def feed_a_fifth() -> None:
        nonlocal fed
        for _ in range(RECORDS // 5):
            feed.produce(source, b"x" * 100, partition=fed % PARTITIONS)
            feed.poll(0)
            fed += 1
        assert feed.flush(PATIENCE) == 0

    def await_copied(count: int) -> None:
        wait_until(
            lambda: sum(committed(cluster, group).values()) >= count,
            within=PATIENCE,
            what=f"{count} records are copied",
        )

    try:
        first, second = members.start("first", "a"), members.start("second", "b")
        feed_a_fifth()
        await_copied(fed // 2)

        # A member joins, and is killed in a transaction that it has written records in.
        third = members.start("third", "c")
        third.tell("hang")
        feed_a_fifth()
        third.await_word("hanging")
        third.kill()
        feed_a_fifth()
        # Its successor ends that transaction; the records in it are copied by whoever reads them.
        third = members.start("third", "c")

        # Another one is taken for dead in a transaction, and then goes on with it.
        second.tell("hang")
        feed_a_fifth()
        second.await_word("hanging")
        second.signal(signal.SIGSTOP)
        wait_until(
            lambda: "second" not in clients(cluster, group),
            within=PATIENCE,
            what="the group gives up the second member",
        )
        second.signal(signal.SIGCONT)
        second.tell("go on")
        second.await_word("refused")
        feed_a_fifth()
        await_copied(RECORDS)
        for member in (first, second, third):
            member.end()
    finally:
        members.discard()

    copied = read(cluster, target, "read_committed", at_least=RECORDS)
    assert sum(map(len, copied.values())) == RECORDS
    for partition, values in copied.items():
        assert values == [f"{partition}:{offset}".encode() for offset in range(len(values))]
    # That it was not for want of trying: aborted copies are there, and are not read.
    everything = read(cluster, target, "read_uncommitted", at_least=RECORDS)
    assert sum(map(len, everything.values())) > RECORDS
    assert sum(committed(cluster, group).values()) == RECORDS
    refused = [line for line in second.said if line.startswith("refused")]
    assert refused[0] in ("refused UNKNOWN_MEMBER_ID", "refused ILLEGAL_GENERATION")


def clients(cluster: Cluster, group: str) -> set[str]:
    (found,) = described(cluster, group)
    return {member["client_id"] for member in found["members"]}


def read(cluster: Cluster, topic: str, isolation: str, at_least: int) -> dict[int, list[bytes]]:
    """The values in each partition, in order.

    A transaction that is decided has its markers in one partition after another, and what it
    wrote is behind the end till then: so this reads on until there are ``at_least`` so many.
    """
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": new_group(),
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign(
        [TopicPartition(topic, p, confluent_kafka.OFFSET_BEGINNING) for p in range(PARTITIONS)]
    )
    found: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    open_ends = set(range(PARTITIONS))
    deadline = time.monotonic() + PATIENCE
    while open_ends or sum(map(len, found.values())) < at_least:
        counted = sum(map(len, found.values()))
        assert time.monotonic() < deadline, f"{counted} records, no end of {open_ends}"
        for message in consumer.consume(5000, 0.2):
            error, partition, value = message.error(), message.partition(), message.value()
            assert partition is not None
            if error is None:
                assert value is not None
                found[partition].append(value)
                open_ends.add(partition)
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                open_ends.discard(partition)
    consumer.close()
    return found
