"""Compare rackward's Consumer with confluent-kafka's: ``python -m benchmarks.confluent_overhead``.

Both read the same records of 1 KiB from one local cluster, in turn, each time in a process of its
own, with ``poll`` and with ``consume``. The result is the CPU time per record of the whole process,
librdkafka's threads included, which other processes disturb less than the throughput. It is the
median over all rounds, as is the peak memory.

The reader is not the leader of its group: another member, which reads nothing, has joined before.
With ``--leads`` the reader is alone, and leads. Of the members of a group only one needs the
assignors and numpy.

Python's garbage collector makes a difference for an application that holds 700 records or more,
its threshold: after some 100,000 records it visits all objects of all modules, and a second client
library has many. So the limit does not apply to larger batches, except with ``--freeze``: that
calls ``gc.freeze()`` before the measurement, as an application may do after its imports.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.confluent_reader import WARM_UP, make_consumer
from rackward.testing import LocalCluster

RECORD_BYTES = 1024
PARTITIONS = 12
CLIENTS = ("confluent", "rackward")
METHODS = {"poll": "poll(1)", "500": "consume(500)", "1000": "consume(1000)"}
"""The argument of the reader, and the call."""
TOPIC, LEADERS_TOPIC = "bench", "leaders"
MIN_SPEED = 0.98
"""Records per CPU second of rackward's consumer as a ratio of confluent's."""
MAX_MEMORY = 16e6
"""Bytes of peak memory of a consumer that does not lead, in addition to confluent's."""
TIMEOUT = 600.0
"""Seconds for one run, and for writing the records."""
JOIN_TIMEOUT = 60.0
"""Seconds in which the leader of a group gets its first assignment."""


def fill(bootstrap: str, records: int) -> None:
    """Write ``records`` records of RECORD_BYTES bytes, evenly over the partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(TOPIC, PARTITIONS, 1), NewTopic(LEADERS_TOPIC, 1, 1)]
    for created in admin.create_topics(topics).values():
        created.result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 65536})
    # Random bytes cannot be compressed. All records share them, because generating them is slow.
    value = os.urandom(RECORD_BYTES)
    for index in range(records):
        while True:
            try:
                producer.produce(TOPIC, value, partition=index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(TIMEOUT):
        sys.exit(f"the brokers did not acknowledge all records within {TIMEOUT:g} s")


@contextmanager
def group_leader(client: str, bootstrap: str, group: str) -> Iterator[None]:
    """Have another consumer lead ``group``: the first member does, until it leaves."""
    consumer, finished = make_consumer(client, bootstrap, group), threading.Event()
    consumer.subscribe([LEADERS_TOPIC])
    deadline = time.monotonic() + JOIN_TIMEOUT
    while not consumer.assignment():
        if time.monotonic() > deadline:
            sys.exit(f"no assignment for the leader of the group within {JOIN_TIMEOUT:g} s")
        consumer.poll(0.1)

    def poll() -> None:
        while not finished.is_set():
            consumer.poll(0.2)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
        consumer.close()


def run(
    client: str, method: str, bootstrap: str, records: int, *, leads: bool, freeze: bool
) -> dict[str, float]:
    """Run `benchmarks.confluent_reader` once, and return its result."""
    group = f"bench-{uuid.uuid4().hex[:8]}"
    arguments = [client, method, bootstrap, group, TOPIC, str(records), str(int(freeze))]
    with nullcontext() if leads else group_leader(client, bootstrap, group):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.confluent_reader", *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    if done.returncode:
        sys.exit(f"{client}, {method}: {done.stderr}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {**result, "microseconds": result["cpu"] / records * 1e6}


def main() -> None:
    """Print a line per run and method. Exit with status 1 if rackward's misses a limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=500, help="size of the topic")
    parser.add_argument("--rounds", type=int, default=12, help="rounds per method")
    parser.add_argument("--leads", action="store_true", help="the reader leads its group")
    parser.add_argument("--freeze", action="store_true", help="call gc.freeze() before reading")
    options = parser.parse_args()
    records = options.megabytes * 1_000_000 // RECORD_BYTES
    how: dict[str, Any] = {"leads": options.leads, "freeze": options.freeze}
    missed = []
    with LocalCluster(("a", "b", "c")) as cluster:
        bootstrap = cluster.bootstrap_servers
        fill(bootstrap, records + records // WARM_UP)
        # The first reading fills the page cache of the brokers, and is not counted.
        run("confluent", "1000", bootstrap, records, **how)
        for method, call in METHODS.items():
            results: dict[str, list[dict[str, float]]] = {client: [] for client in CLIENTS}
            for number in range(options.rounds):
                for client in sorted(CLIENTS, reverse=number % 2 == 1):
                    results[client].append(run(client, method, bootstrap, records, **how))
                print(f"{call:13} {_describe(results, slice(-1, None))}", flush=True)
            stock, wrapped = (_medians(results[client]) for client in CLIENTS)
            speed = stock["microseconds"] / wrapped["microseconds"]
            memory = wrapped["memory"] - stock["memory"]
            print(
                f"{call:13} {_describe(results, slice(None))}\n"
                f"{call:13} {speed:.1%} of confluent's records per CPU second (at least"
                f" {MIN_SPEED:.0%}), memory {memory / 1e6:+.1f} MB"
                f" (at most {MAX_MEMORY / 1e6:+.0f} if it does not lead)",
                flush=True,
            )
            is_slow = speed < MIN_SPEED and (options.freeze or method != "1000")
            if is_slow or (memory > MAX_MEMORY and not options.leads):
                missed.append(call)
    if missed:
        sys.exit(f"over a limit with {' and '.join(missed)}")


def _medians(results: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(each[name] for each in results) for name in results[0]}


def _describe(results: dict[str, list[dict[str, float]]], rounds: slice) -> str:
    """Return the medians of some rounds as text."""
    parts = []
    for client, each in results.items():
        medians = _medians(each[rounds])
        parts.append(
            f"{client} {medians['microseconds']:.3f} µs of CPU per record,"
            f" {medians['memory'] / 1e6:.1f} MB, {medians['seconds']:.1f} s"
        )
    return "; ".join(parts)


if __name__ == "__main__":
    main()
