"""Compare our Consumer with confluent-kafka's: ``python -m benchmarks.confluent_overhead``.

Both read the same 500 MB of 1 KiB records from one local cluster, in turn, each time in a process
of its own, with ``consume`` and with ``poll``. The results are the throughput over all rounds,
because single rounds vary, and the median difference of peak memory.

With ``--queue-backoff-ms 10`` Python limits the readers, not librdkafka. Then Python's garbage
collector makes a difference: every 100,000 records or so it visits all that the process has
imported, and the second client library doubles that.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.confluent_reader import WARM_UP
from rackward.clusters import LocalCluster

RECORD_BYTES = 1024
PARTITIONS = 12
MIN_THROUGHPUT = 0.95
"""Throughput of rackward's consumer as a ratio of confluent's."""
MAX_MEMORY = 40e6
"""Bytes of peak memory in addition to those of confluent's consumer."""
TIMEOUT = 600.0


def fill(bootstrap: str, topic: str, records: int) -> None:
    """Write ``records`` records of RECORD_BYTES bytes, evenly over the partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 65536})
    # Random bytes cannot be compressed. All records share them, because generating them is slow.
    value = os.urandom(RECORD_BYTES)
    for index in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(TIMEOUT):
        sys.exit(f"the brokers did not acknowledge all records within {TIMEOUT:g} s")


def run(
    client: str, method: str, queue_backoff_ms: int, bootstrap: str, topic: str, records: int
) -> dict[str, Any]:
    """Run `benchmarks.confluent_reader` once, and return its result."""
    command = [sys.executable, "-m", "benchmarks.confluent_reader"]
    done = subprocess.run(
        [*command, client, method, str(queue_backoff_ms), bootstrap, topic, str(records)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{client}, {method}: {done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Print a table. Exit with status 1 if our consumer misses a limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=500, help="size of the topic")
    parser.add_argument("--rounds", type=int, default=12, help="rounds per method")
    parser.add_argument(
        "--queue-backoff-ms",
        type=int,
        default=1000,
        help="fetch.queue.backoff.ms: librdkafka's pause when its queue is full; with 10 Python"
        " limits the throughput",
    )
    options = parser.parse_args()
    records = options.megabytes * 1_000_000 // RECORD_BYTES
    missed = []
    with LocalCluster(("a", "b", "c")) as cluster:
        bootstrap = cluster.bootstrap_servers
        fill(bootstrap, "bench", records + records // WARM_UP)
        # The first reading fills the page cache of the brokers, and is not counted.
        run("confluent", "consume", 10, bootstrap, "bench", records)
        for method in ("consume", "poll"):
            seconds = {"confluent": 0.0, "rackward": 0.0}
            memory, cpu = [], []
            for number in range(options.rounds):
                order = sorted(seconds, reverse=number % 2 == 1)
                results = {
                    client: run(
                        client, method, options.queue_backoff_ms, bootstrap, "bench", records
                    )
                    for client in order
                }
                confluent, rackward = results["confluent"], results["rackward"]
                for client, result in results.items():
                    seconds[client] += result["seconds"]
                memory.append(rackward["peak"] - confluent["peak"])
                cpu.append(rackward["cpu"] / confluent["cpu"])
                print(
                    f"{method:8} {_megabytes_per_second(confluent):6.0f} MB/s confluent,"
                    f" {_megabytes_per_second(rackward):6.0f} MB/s rackward"
                    f" ({confluent['seconds'] / rackward['seconds']:.1%}),"
                    f" peak {confluent['peak'] / 1e6:.0f} and {rackward['peak'] / 1e6:.0f} MB",
                    flush=True,
                )
            # Every round reads the same bytes.
            ratio = seconds["confluent"] / seconds["rackward"]
            more = statistics.median(memory)
            print(
                f"{method:8} throughput {ratio:.1%} of confluent's (limit {MIN_THROUGHPUT:.0%}),"
                f" peak memory {more / 1e6:+.0f} MB (limit {MAX_MEMORY / 1e6:+.0f}),"
                f" CPU {statistics.median(cpu):.2f} times"
            )
            if ratio < MIN_THROUGHPUT or more > MAX_MEMORY:
                missed.append(method)
    if missed:
        sys.exit(f"over a limit with {' and '.join(missed)}")


def _megabytes_per_second(result: dict[str, Any]) -> float:
    return float(result["bytes"] / 1e6 / result["seconds"])


if __name__ == "__main__":
    main()
