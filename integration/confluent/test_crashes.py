"""Offsets that are committed when a consumer is killed during a call of ``consume``."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from integration.support.confluent import new_group
from integration.support.racks import evenly, replicas_led_from
from integration.support.steady_producer import produce_steadily
from integration.support.topics import committed, create_topic, new_name
from rackward.clusters import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

READERS = ("confluent", "rackward", "confluent-aio", "rackward-aio")
PARTITIONS = 6
CALL_SECONDS = 5.0
"""Timeout of one call of ``consume``, for more records than the topic has."""


class Reader:
    """A process of `integration.support.reader_process`, and the batches that it has reported."""

    def __init__(self, name: str, bootstrap: str, group: str, topic: str) -> None:
        self.group = group
        self.delivered: dict[tuple[str, int], int] = {}
        self.batches = 0
        arguments = [name, bootstrap, group, topic, "1000000", str(CALL_SECONDS)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "integration.support.reader_process", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        self._thread = threading.Thread(target=self._read_reports, daemon=True)
        self._thread.start()

    def _read_reports(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            for topic, partition, end in json.loads(line):
                self.delivered[topic, partition] = end
            self.batches += 1

    def await_commit(self, cluster: Cluster, name: str) -> None:
        wait_until(lambda: self.batches > 0, TEST_TIMEOUT, f"{name} returns a batch")
        wait_until(
            lambda: sum(committed(cluster, self.group).values()) > 0,
            TEST_TIMEOUT,
            f"{name} commits offsets",
        )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def test_records_that_consume_has_not_returned_are_not_committed(cluster: Cluster) -> None:
    topic = create_topic(cluster, new_name("crash"), replicas_led_from(evenly(PARTITIONS)))
    readers: dict[str, Reader] = {}
    with produce_steadily(cluster, topic, PARTITIONS, every=0.005):
        try:
            for name in READERS:
                readers[name] = Reader(name, cluster.bootstrap_servers, new_group(), topic)
            for name, reader in readers.items():
                reader.await_commit(cluster, name)
            # After several commit intervals each is in a call that has collected records.
            time.sleep(CALL_SECONDS / 2)
        finally:
            for reader in readers.values():
                reader.kill()
    lost = {
        name: sum(
            max(0, offset - reader.delivered.get(key, 0))
            for key, offset in committed(cluster, reader.group).items()
        )
        for name, reader in readers.items()
    }
    print("records committed and not returned:", lost)
    assert lost == dict.fromkeys(READERS, 0)
