"""A read-process-write application with transactions, to be run in a process of its own.

It copies each record of one topic to another, as "partition:offset", with the offsets that it
read to in the same transaction; a batch that cannot be committed is aborted and read again. What
happens is a line of standard output each: "ready" at an assignment, "committed N", "refused
NAME" with the error's name, "told NAME" where poll gives an error. The line "hang" on standard
input makes it stop in its next transaction, with the records written and the offsets not sent:
it says "hanging" and waits for another line. It ends when standard input is closed.
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

_BATCH = 250
_SECONDS = 90.0


def say(*words: object) -> None:
    print(*words, flush=True)


class Pipeline:
    """One member: its consumer, its producer, and the loop."""

    def __init__(
        self, consumer: Any, producer: Producer, output: str, orders: queue.Queue[str]
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._output = output
        self._orders = orders

    def run(self) -> None:
        """Work until there is the order "end"."""
        while True:
            order = "" if self._orders.empty() else self._orders.get()
            if order == "end":
                return
            self._turn(hang=order == "hang")

    def _turn(self, hang: bool) -> None:
        """Read what there is, and write it with its offsets, or not at all."""
        records: list[Any] = []
        while not records:
            for message in self._consumer.consume(_BATCH, 0.2):
                if message.error() is None:
                    records.append(message)
                else:
                    say("told", message.error().name())
            if not records and not hang:
                return
        self._producer.begin_transaction()
        try:
            self._write(records, hang)
        except KafkaException as error:
            problem: KafkaError = error.args[0]
            say("refused", problem.name())
            if not problem.txn_requires_abort():
                raise
            self._producer.abort_transaction(_SECONDS)
            self._rewind()

    def _write(self, records: list[Any], hang: bool) -> None:
        positions: dict[tuple[str, int], int] = {}
        for record in records:
            value = f"{record.partition()}:{record.offset()}"
            self._producer.produce(self._output, value.encode(), partition=record.partition())
            positions[record.topic(), record.partition()] = record.offset() + 1
        metadata = self._consumer.consumer_group_metadata()
        if hang:
            self._producer.flush(_SECONDS)
            say("hanging")
            self._orders.get()
        self._producer.send_offsets_to_transaction(
            [TopicPartition(*place, offset) for place, offset in positions.items()],
            metadata,
            _SECONDS,
        )
        self._producer.commit_transaction(_SECONDS)
        say("committed", len(records))

    def _rewind(self) -> None:
        """Read again what was read since the last commit, where it is still this member's."""
        for at in self._consumer.committed(self._consumer.assignment(), _SECONDS):
            if at.offset < 0:
                at.offset = confluent_kafka.OFFSET_BEGINNING
            try:
                self._consumer.seek(at)
            except KafkaException as error:
                # Taken away meanwhile, so nothing to read again.
                say("not rewound", error.args[0].name())


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
            # No transaction ends by itself, however long the machine makes its member wait.
            "transaction.timeout.ms": 300_000,
            "linger.ms": 5,
        }
    )
    producer.init_transactions(_SECONDS)
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
    consumer.subscribe([options.input], on_assign=lambda *_: say("ready"))
    orders: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    Pipeline(consumer, producer, options.output, orders).run()
    consumer.close()


def _listen(orders: queue.Queue[str]) -> None:
    for line in sys.stdin:
        orders.put(line.strip())
    orders.put("end")


if __name__ == "__main__":
    main(sys.argv[1:])
