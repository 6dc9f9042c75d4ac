"""A transactional pipeline whose members join, leave, are killed and are stopped.

Each member is this module, run as a program: a read-process-write application. It copies each
record of one topic to another, as "partition:offset", and commits the offsets in the same
transaction. If a transaction cannot be committed, it is aborted and its records are read again.

Its standard output has a line for each event: "ready" for an assignment, "committed N" records,
"refused NAME" for an error of a transaction, "error NAME" for an error message of the consumer.
After the line "hang" on standard input, it stops in its next transaction, with the records written
and the offsets not sent, prints "hanging" and waits for another line. It ends when standard input
is closed.
"""

from __future__ import annotations

import argparse
import queue
import signal
import sys
import threading
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from assignors.confluent import Consumer
from integration.confluent.programs import Program
from integration.support.confluent import RACKWARD, new_group, read_to_end
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import committed, create_topic, described, new_name
from rackward.testing import Cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

PARTITIONS = 12
RECORDS = 100_000
TEST_TIMEOUT = 90.0


class Process(Program):
    """A member of the pipeline."""

    def await_line(self, word: str) -> None:
        wait_until(
            lambda: (
                any(line.split()[:1] == [word] for line in self.lines)
                or self.process.poll() is not None
            ),
            within=TEST_TIMEOUT,
            what=f"a member prints {word!r}; last lines: {self.lines[-3:]}",
        )
        assert self.process.poll() is None, (
            f"the process ended ({self.process.returncode}): {self.lines}"
        )

    def send(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """Close its standard input, so that it closes its consumer, and wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(TEST_TIMEOUT) == 0, self.lines[-5:]


class Members:
    """Starts processes, and kills those that still run."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._all: list[Process] = []

    def start(self, name: str, rack: str) -> Process:
        module = "integration.confluent.test_exactly_once"
        process = Process(module, *self._arguments, f"--name={name}", f"--rack={rack}")
        self._all.append(process)
        process.await_line("ready")
        return process

    def discard(self) -> None:
        for process in self._all:
            process.kill()


def test_each_record_is_written_once(cluster: Cluster) -> None:
    source = create_topic(cluster, new_name("source"), replicas_led_from(evenly(PARTITIONS)))
    target = create_topic(cluster, new_name("target"), replicas_led_from(evenly(PARTITIONS)))
    group = new_group()
    members = Members(
        f"--bootstrap={cluster.bootstrap_servers}",
        f"--group={group}",
        f"--input={source}",
        f"--output={target}",
    )
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5})
    sent = 0

    def send_a_fifth() -> None:
        nonlocal sent
        for _ in range(RECORDS // 5):
            producer.produce(source, b"x" * 100, partition=sent % PARTITIONS)
            producer.poll(0)
            sent += 1
        assert producer.flush(TEST_TIMEOUT) == 0

    def await_copied(count: int) -> None:
        wait_until(
            lambda: sum(committed(cluster, group).values()) >= count,
            within=TEST_TIMEOUT,
            what=f"{count} records are copied",
        )

    try:
        first, second = members.start("first", "a"), members.start("second", "b")
        send_a_fifth()
        await_copied(sent // 2)

        # A member joins, and is killed in a transaction with records.
        third = members.start("third", "c")
        third.send("hang")
        send_a_fifth()
        third.await_line("hanging")
        third.kill()
        send_a_fifth()
        # A new producer with the same transactional id aborts that transaction.
        third = members.start("third", "c")

        # Another member is stopped in a transaction until its session ends, and then continued.
        second.send("hang")
        send_a_fifth()
        second.await_line("hanging")
        second.process.send_signal(signal.SIGSTOP)
        wait_until(
            lambda: "second" not in client_ids(cluster, group),
            within=TEST_TIMEOUT,
            what="the group removes the second member",
        )
        second.process.send_signal(signal.SIGCONT)
        second.send("go on")
        second.await_line("refused")
        send_a_fifth()
        await_copied(RECORDS)
        for member in (first, second, third):
            member.stop()
    finally:
        members.discard()

    copied: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    for record in read_to_end(cluster, target, min_records=RECORDS):
        copied[record.partition()].append(record.value())
    assert sum(map(len, copied.values())) == RECORDS
    for partition, values in copied.items():
        assert values == [f"{partition}:{offset}".encode() for offset in range(len(values))]
    # There are aborted copies, which read_committed has to skip.
    assert len(read_to_end(cluster, target, "read_uncommitted", min_records=RECORDS)) > RECORDS
    assert sum(committed(cluster, group).values()) == RECORDS
    refused = [line for line in second.lines if line.startswith("refused")]
    assert refused[0] in ("refused UNKNOWN_MEMBER_ID", "refused ILLEGAL_GENERATION")


def client_ids(cluster: Cluster, group: str) -> set[str]:
    (description,) = described(cluster, group)
    return {member["client_id"] for member in description["members"]}


# The application, run in its own process: this module as a program.

BATCH = 250


def report(*words: object) -> None:
    print(*words, flush=True)


class Pipeline:
    """A consumer, a producer, and the loop that copies records."""

    def __init__(
        self, consumer: Any, producer: Producer, output: str, commands: queue.Queue[str]
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._output = output
        self._commands = commands

    def run(self) -> None:
        """Copy records until the command "end"."""
        while True:
            command = "" if self._commands.empty() else self._commands.get()
            if command == "end":
                return
            self._copy_batch(hang=command == "hang")

    def _copy_batch(self, hang: bool) -> None:
        """Read one batch, and write it with its offsets in one transaction."""
        records: list[Any] = []
        while not records:
            for message in self._consumer.consume(BATCH, 0.2):
                if message.error() is None:
                    records.append(message)
                else:
                    report("error", message.error().name())
            if not records and not hang:
                return
        self._producer.begin_transaction()
        try:
            self._write(records, hang)
        except KafkaException as error:
            problem: KafkaError = error.args[0]
            report("refused", problem.name())
            if not problem.txn_requires_abort():
                raise
            self._producer.abort_transaction(TEST_TIMEOUT)
            self._rewind()

    def _write(self, records: list[Any], hang: bool) -> None:
        positions: dict[tuple[str, int], int] = {}
        for record in records:
            value = f"{record.partition()}:{record.offset()}"
            self._producer.produce(self._output, value.encode(), partition=record.partition())
            positions[record.topic(), record.partition()] = record.offset() + 1
        metadata = self._consumer.consumer_group_metadata()
        if hang:
            self._producer.flush(TEST_TIMEOUT)
            report("hanging")
            self._commands.get()
        self._producer.send_offsets_to_transaction(
            [TopicPartition(*key, offset) for key, offset in positions.items()],
            metadata,
            TEST_TIMEOUT,
        )
        self._producer.commit_transaction(TEST_TIMEOUT)
        report("committed", len(records))

    def _rewind(self) -> None:
        """Seek the partitions that are still assigned to their committed offsets."""
        for partition in self._consumer.committed(self._consumer.assignment(), TEST_TIMEOUT):
            if partition.offset < 0:
                partition.offset = confluent_kafka.OFFSET_BEGINNING
            try:
                self._consumer.seek(partition)
            except KafkaException as error:
                # No longer assigned.
                report("not rewound", error.args[0].name())


def main(arguments: list[str]) -> None:
    """Copy records until standard input is closed."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "group", "input", "output", "name", "rack"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args(arguments)
    producer = Producer(
        {
            "bootstrap.servers": options.bootstrap,
            "transactional.id": options.name,
            # No transaction times out, even if the machine stalls.
            "transaction.timeout.ms": 300_000,
            "linger.ms": 5,
        }
    )
    producer.init_transactions(TEST_TIMEOUT)
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "client.id": options.name,
            "client.rack": options.rack,
            "partition.assignment.strategy": RACKWARD.cooperative,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
        }
    )
    consumer.subscribe([options.input], on_assign=lambda *_: report("ready"))
    commands: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_commands, args=(commands,), daemon=True).start()
    Pipeline(consumer, producer, options.output, commands).run()
    consumer.close()


def _read_commands(commands: queue.Queue[str]) -> None:
    for line in sys.stdin:
        commands.put(line.strip())
    commands.put("end")


if __name__ == "__main__":
    main(sys.argv[1:])
