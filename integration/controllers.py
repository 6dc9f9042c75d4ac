"""Controllers as processes of their own, what they say of themselves, and what they wrote."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer
from kafka.structs import TopicPartition as Place

from integration.waiting import PATIENCE
from placement_core import TopicPartition
from rackward.clusters import Cluster
from rackward.intents import INTENTS_TOPIC

READY_SECONDS = 120.0
"""Most of it is for the imports of a process, on a machine that has a lot to do."""


class RunningController:
    """``rackward controller`` for a cluster; its log is a file in ``folder``."""

    def __init__(
        self, cluster: Cluster, folder: Path, name: str = "controller", throttle: str = "50MB"
    ) -> None:
        config = folder / f"{name}.json"
        config.write_text(
            json.dumps(
                {
                    "cluster": {"bootstrap_servers": cluster.bootstrap_servers},
                    "placement": {"properties": {"seed": 3}},
                    "under_replicated": {"allowed": True, "throttle": throttle},
                    "service": {"listen": "127.0.0.1:0"},
                    "health": {"listen": "127.0.0.1:0"},
                }
            )
        )
        self._log = folder / f"{name}.log"
        with self._log.open("a") as log:
            self._began = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rackward.cli", "controller", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    @property
    def log(self) -> str:
        """What it has said so far, and those of its name before it."""
        return self._log.read_text()

    @property
    def service(self) -> str:
        """``host:port`` of its placement service."""
        return self._said(r"placement service listens at (\S+), without TLS")

    def health(self) -> tuple[int, dict[str, Any]]:
        """The status and the answer of /health/ready."""
        address = self._said(r"health and metrics are at http://(\S+)")
        try:
            with urllib.request.urlopen(
                f"http://{address}/health/ready", timeout=PATIENCE
            ) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def holds(self) -> bool:
        """Whether it keeps the intents."""
        return bool(self.health()[1]["keeps_intents"])

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ctrl-C; its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(READY_SECONDS)

    def _said(self, pattern: str) -> str:
        deadline = time.monotonic() + READY_SECONDS
        # A port that one before it had may be somebody else's by now.
        while not (found := re.findall(pattern, self.log[self._began :])):
            assert self.process.poll() is None, f"the controller ended: {self.log}"
            assert time.monotonic() < deadline, f"it never said {pattern}: {self.log}"
            time.sleep(0.1)
        return str(found[-1])


@contextmanager
def controller(
    cluster: Cluster, folder: Path, name: str = "controller", throttle: str = "50MB"
) -> Iterator[RunningController]:
    """Start one; whatever is left of it at the end of the block is killed."""
    running = RunningController(cluster, folder, name, throttle)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()


def fills(cluster: Cluster) -> dict[TopicPartition, set[tuple[int, ...]]]:
    """Every replica list that some controller ever decided on, by partition.

    Read off all records of the topic of intents, which is too small to have been compacted.
    """
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers.split(","), group_id=None)
    found: dict[TopicPartition, set[tuple[int, ...]]] = {}
    try:
        place = Place(INTENTS_TOPIC, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        deadline = time.monotonic() + PATIENCE
        while consumer.position(place) < end:
            assert time.monotonic() < deadline, "the intents could not be read"
            for records in consumer.poll(timeout_ms=200).values():
                for record in records:
                    if record.value is None:
                        continue
                    told = json.loads(record.value)
                    for number, row in told["filling"].items():
                        key = TopicPartition(told["topic"], int(number))
                        found.setdefault(key, set()).add(tuple(row))
    finally:
        consumer.close()
    return found
