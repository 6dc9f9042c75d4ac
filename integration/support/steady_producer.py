"""Send small records to every partition of a topic at short intervals, from another process.

kafka-python sends all records for a broker in one request; librdkafka sends one per partition.
In its own process, the producer does not slow down the consumers whose pauses are measured.
"""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import KafkaProducer

from rackward.clusters import Cluster
from tests.support.waiting import TEST_TIMEOUT


@contextmanager
def produce_steadily(cluster: Cluster, topic: str, partitions: int, every: float) -> Iterator[None]:
    """Send a record to each partition every ``every`` seconds, until the block ends."""
    arguments = [cluster.bootstrap_servers, topic, str(partitions), str(every)]
    process = subprocess.Popen(
        [sys.executable, "-m", "integration.support.steady_producer", *arguments],
        stdin=subprocess.PIPE,
    )
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(TEST_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> None:
    """Send until standard input is closed."""
    bootstrap, topic, partitions, every = sys.argv[1:]
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), linger_ms=0)
    while not select.select([sys.stdin], [], [], float(every))[0]:
        for partition in range(int(partitions)):
            producer.send(topic, b"x", partition=partition)
    producer.close(timeout=5)


if __name__ == "__main__":
    main()
