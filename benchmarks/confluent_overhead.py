"""Our Consumer beside confluent-kafka's own: ``python -m benchmarks.confluent_overhead``.

Both read the same 500 MB of 1 KiB records from one local cluster, in turn, each time in a process
of its own, with ``consume`` and with ``poll``. What counts is the throughput over all rounds, since
that of one differs from the next, and the median difference of peak memory.

With ``--rest-ms 10`` the readers are as fast as Python lets them. What differs then is Python's
garbage collector, which passes over all that a process has imported each 100,000 records or so,
and that is twice as much where nothing but the two clients is.
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

RECORD = 1024
PARTITIONS = 12
AT_LEAST = 0.95
"""Our throughput over confluent's own (issue 5)."""
AT_MOST = 40e6
"""Bytes of peak memory more than confluent's own (issue 5)."""
PATIENCE = 600.0


def fill(bootstrap: str, topic: str, records: int) -> None:
    """So many records of RECORD bytes, evenly over the partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 65536})
    # Random, so that nothing on the way makes it smaller; one and the same, so that it is cheap.
    value = os.urandom(RECORD)
    for index in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(PATIENCE):
        sys.exit("not every record was taken by the brokers")


def run(
    who: str, how: str, rest_ms: int, bootstrap: str, topic: str, records: int
) -> dict[str, Any]:
    """One reading in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.confluent_reader"]
    done = subprocess.run(
        [*command, who, how, str(rest_ms), bootstrap, topic, str(records)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{who}, {how}: {done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Print a table; exit status 1 where ours is slower or larger than it may be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument(
        "--rest-ms",
        type=int,
        default=1000,
        help="fetch.queue.backoff.ms: for how long librdkafka rests once its queue is full; "
        "with 10 nothing rests, and Python decides",
    )
    options = parser.parse_args()
    records = options.megabytes * 1_000_000 // RECORD
    missed = []
    with LocalCluster(("a", "b", "c")) as cluster:
        fill(cluster.bootstrap_servers, "bench", records + records // WARM_UP)
        # What the brokers read from disk the first time counts for nobody.
        run("own", "consume", 10, cluster.bootstrap_servers, "bench", records)
        for how in ("consume", "poll"):
            seconds = dict.fromkeys(("own", "ours"), 0.0)
            more, cpu = [], []
            for number in range(options.rounds):
                # Who comes first changes from round to round.
                order = ("own", "ours") if number % 2 == 0 else ("ours", "own")
                found = {
                    who: run(who, how, options.rest_ms, cluster.bootstrap_servers, "bench", records)
                    for who in order
                }
                own, ours = (
                    found[who]["bytes"] / 1e6 / found[who]["seconds"] for who in ("own", "ours")
                )
                for who, figures in found.items():
                    seconds[who] += figures["seconds"]
                more.append(found["ours"]["peak"] - found["own"]["peak"])
                cpu.append(found["ours"]["cpu"] / found["own"]["cpu"])
                print(
                    f"{how:8} {own:6.0f} MB/s own, {ours:6.0f} MB/s ours ({ours / own:.1%}),"
                    f" peak {found['own']['peak'] / 1e6:.0f} and"
                    f" {found['ours']['peak'] / 1e6:.0f} MB",
                    flush=True,
                )
            # The same bytes each time.
            ratio, memory = seconds["own"] / seconds["ours"], statistics.median(more)
            print(
                f"{how:8} throughput {ratio:.1%} of confluent's own (at least {AT_LEAST:.0%}),"
                f" peak memory {memory / 1e6:+.0f} MB (at most {AT_MOST / 1e6:+.0f}),"
                f" CPU {statistics.median(cpu):.2f} times"
            )
            if ratio < AT_LEAST or memory > AT_MOST:
                missed.append(how)
    if missed:
        sys.exit(f"missed with {' and '.join(missed)}")


if __name__ == "__main__":
    main()
