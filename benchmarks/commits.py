"""Asynchronous commits a second, ours beside confluent's own: ``python -m benchmarks.commits``.

Each consumer calls ``commit(offsets=[...])`` 5,000 times for one partition and polls until
``on_commit`` has been called for each. What counts is the ratio of the two in one run, and that
the partitions are still its own at the end.
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
from rackward.clusters import LocalCluster

SECONDS = 120.0
CONSUMERS: dict[str, tuple[Any, str]] = {
    "confluent": (confluent_kafka.Consumer, "cooperative-sticky"),
    "rackward": (assignors.confluent.Consumer, "leader-rack-aware-cooperative-sticky"),
}


def rate(bootstrap: str, name: str, commits: int) -> float:
    """Commits that were acknowledged in a second, from the first call to the last answer."""
    answers: list[Any] = []
    make, strategy = CONSUMERS[name]
    consumer = make(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "client.rack": "a",
            "enable.auto.commit": False,
            "partition.assignment.strategy": strategy,
            "on_commit": lambda error, _: answers.append(error),
        }
    )
    try:
        consumer.subscribe(["commits"])
        deadline = time.monotonic() + SECONDS
        while not consumer.assignment():
            consumer.poll(0.1)
            if time.monotonic() > deadline:
                sys.exit(f"{name} was assigned nothing in {SECONDS:g} s")
        begun = time.monotonic()
        for offset in range(commits):
            consumer.commit(offsets=[TopicPartition("commits", 0, offset)])
        while len(answers) < commits and time.monotonic() < begun + SECONDS:
            consumer.poll(0.1)
        seconds = time.monotonic() - begun
        failed = sum(error is not None for error in answers)
        print(
            f"{name:9} {len(answers) - failed} of {commits} acknowledged in {seconds:.1f} s,"
            f" {failed} failed, {len(consumer.assignment())} partition(s) kept",
            flush=True,
        )
        return (len(answers) - failed) / seconds
    finally:
        consumer.close()


def main() -> None:
    """Print a line for each, and the ratio; exit status 1 where ours is slower."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=5000)
    options = parser.parse_args()
    with LocalCluster(("a", "b", "c")) as cluster:
        bootstrap = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("commits", 1, 1)])["commits"].result(60)
        rates = {name: rate(bootstrap, name, options.commits) for name in CONSUMERS}
    ratio = rates["rackward"] / rates["confluent"]
    print(f"ours: {ratio:.1f} times the rate of confluent's own (at least 1)")
    if ratio < 1:
        sys.exit(1)


if __name__ == "__main__":
    main()
