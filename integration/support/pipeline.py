"""A read-process-write application with transactions, run in its own process.

It copies each record of one topic to another, as "partition:offset", and commits the offsets in the
same transaction. If a transaction cannot be committed, it is aborted and its records are read
again.

Standard output has a line for each event: "ready" for an assignment, "committed N" records,
"refused NAME" for an error of a transaction, "error NAME" for an error message of the consumer.
After the line "hang" on standard input, it stops in its next transaction, with the records written
and the offsets not sent, prints "hanging" and waits for another line. It ends when standard input
is closed.
"""

from __future__ import annotations

import argparse
import queue
import sys
import threading
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from integration.support.confluent import CONFLUENT, RACKWARD

BATCH = 250
TIMEOUT = 90.0


def report(*words: object) -> None:
    print(*words, flush=True)


class Pipeline:
    """One member: a consumer, a producer, and the loop that copies records."""

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
            self._producer.abort_transaction(TIMEOUT)
            self._rewind()

    def _write(self, records: list[Any], hang: bool) -> None:
        positions: dict[tuple[str, int], int] = {}
        for record in records:
            value = f"{record.partition()}:{record.offset()}"
            self._producer.produce(self._output, value.encode(), partition=record.partition())
            positions[record.topic(), record.partition()] = record.offset() + 1
        metadata = self._consumer.consumer_group_metadata()
        if hang:
            self._producer.flush(TIMEOUT)
            report("hanging")
            self._commands.get()
        self._producer.send_offsets_to_transaction(
            [TopicPartition(*key, offset) for key, offset in positions.items()],
            metadata,
            TIMEOUT,
        )
        self._producer.commit_transaction(TIMEOUT)
        report("committed", len(records))

    def _rewind(self) -> None:
        """Seek the partitions that are still assigned to their committed offsets."""
        for partition in self._consumer.committed(self._consumer.assignment(), TIMEOUT):
            if partition.offset < 0:
                partition.offset = confluent_kafka.OFFSET_BEGINNING
            try:
                self._consumer.seek(partition)
            except KafkaException as error:
                # No longer assigned.
                report("not rewound", error.args[0].name())


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    for name in ("variant", "bootstrap", "group", "input", "output", "name", "rack"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args(arguments)
    variant = {each.name: each for each in (CONFLUENT, RACKWARD)}[options.variant]
    producer = Producer(
        {
            "bootstrap.servers": options.bootstrap,
            "transactional.id": options.name,
            # No transaction times out, even if the machine stalls.
            "transaction.timeout.ms": 300_000,
            "linger.ms": 5,
        }
    )
    producer.init_transactions(TIMEOUT)
    consumer = variant.consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "client.id": options.name,
            "client.rack": options.rack,
            "partition.assignment.strategy": variant.cooperative,
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
