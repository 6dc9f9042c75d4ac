"""Compare the rate of asynchronous commits with confluent's: ``python -m benchmarks.commits``.

Each consumer calls ``commit(offsets=[...])`` 5,000 times for one partition, and polls until
``on_commit`` has been called for each. The result is the ratio of the two rates in one run. The
partition must still be assigned at the end.
"""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import assignors.confluent
from rackward.testing import LocalCluster

TIMEOUT = 120.0
TOPIC = "commits"
CONSUMERS: dict[str, tuple[Any, str]] = {
    "confluent": (confluent_kafka.Consumer, "cooperative-sticky"),
    "rackward": (assignors.confluent.Consumer, "leader-rack-aware-cooperative-sticky"),
}


def commit_rate(bootstrap: str, name: str, commits: int) -> float:
    """Return the acknowledged commits per second, from the first call to the last result."""
    errors: list[Any] = []
    make, strategy = CONSUMERS[name]
    consumer = make(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "client.rack": "a",
            "enable.auto.commit": False,
            "partition.assignment.strategy": strategy,
            "on_commit": lambda error, _: errors.append(error),
        }
    )
    try:
        consumer.subscribe([TOPIC])
        deadline = time.monotonic() + TIMEOUT
        while not consumer.assignment():
            consumer.poll(0.1)
            if time.monotonic() > deadline:
                sys.exit(f"{name}: no assignment within {TIMEOUT:g} s")
        started = time.monotonic()
        for offset in range(commits):
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)])
        while len(errors) < commits and time.monotonic() < started + TIMEOUT:
            consumer.poll(0.1)
        seconds = time.monotonic() - started
        failed = sum(error is not None for error in errors)
        acknowledged = len(errors) - failed
        print(
            f"{name:9} {acknowledged} of {commits} acknowledged in {seconds:.1f} s,"
            f" {failed} failed, {len(consumer.assignment())} partition(s) still assigned",
            flush=True,
        )
        return acknowledged / seconds
    finally:
        consumer.close()


def main() -> None:
    """Print a line for each consumer, and the ratio. Exit with status 1 if rackward's is slower."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=5000, help="number of commits")
    options = parser.parse_args()
    with LocalCluster(("a", "b", "c")) as cluster:
        bootstrap = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(60)
        rates = {name: commit_rate(bootstrap, name, options.commits) for name in CONSUMERS}
    ratio = rates["rackward"] / rates["confluent"]
    print(f"rackward: {ratio:.1f} times confluent's rate (limit 1)")
    if ratio < 1:
        sys.exit(1)


if __name__ == "__main__":
    main()
