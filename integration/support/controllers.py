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

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition as Place

from integration.support.command_line import rackward
from integration.support.topics import throttle_settings
from placement_core import TopicPartition
from rackward.admin import ClusterState, connect, read_state
from rackward.clusters import Cluster
from rackward.controller.pending_replicas import INTENTS_TOPIC, read_intents
from tests.support.waiting import PATIENCE, wait_until

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
                [sys.executable, "-m", "rackward.cli.main", "controller", "--config", str(config)],
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


# ---- Topics that wait for replicas: making them, and waiting until they have them.

FENCED_SECONDS = 60.0
FILL_SECONDS = 30.0
"""What the issue allows, from the broker's return on."""
TAKE_OVER_SECONDS = 180.0
"""A controller starts, joins, and waits for the session of one that was killed."""


def look(cluster: Cluster) -> ClusterState:
    """The cluster now, whichever broker tells it."""
    cluster.await_metadata()
    with connect({"bootstrap.servers": cluster.bootstrap_servers}, timeout=PATIENCE) as admin:
        return read_state(admin)


def stop(cluster: Cluster, *brokers: int) -> None:
    """Shut brokers down; returns when the cluster knows."""
    for broker in brokers:
        cluster.stop_broker(broker)
    wait_until(
        lambda: not look(cluster).view.racks().keys() & set(brokers),
        FENCED_SECONDS,
        f"brokers {brokers} are fenced",
    )


def await_full(cluster: Cluster, *topics: str, within: float = FILL_SECONDS) -> ClusterState:
    """Wait until every partition has three replicas in sync, one per rack."""
    found: list[ClusterState] = []

    def full() -> bool:
        found[:] = [look(cluster)]
        (state,) = found
        racks = state.view.racks()
        return not state.ongoing and all(
            len(row) == 3
            and set(state.in_sync[place]) == set(row)
            and {racks.get(broker) for broker in row} == {"a", "b", "c"}
            for place, row in state.view.replicas.items()
            if place.topic in topics
        )

    wait_until(full, within, f"{topics} have three replicas in sync, one per rack")
    return found[0]


def await_holder(*controllers: RunningController) -> RunningController:
    """The one that keeps the intents."""
    holding: list[RunningController] = []

    def one_holds() -> bool:
        holding[:] = [each for each in controllers if each.holds()]
        return len(holding) == 1

    wait_until(one_holds, TAKE_OVER_SECONDS, "one controller keeps the intents")
    return holding[0]


def create(cluster: Cluster, topic: str, *more: object) -> None:
    rackward(
        cluster,
        *("topics", "create", topic, "--partitions", 4, "--replication-factor", 3),
        *("--allow-under-replicated", "--config", "min.insync.replicas=2", "--yes", *more),
    )


def produce(cluster: Cluster, topic: str, partitions: int) -> int:
    """A record for each partition, acknowledged by all replicas in sync; how many there were."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all")
    try:
        sent = [producer.send(topic, b"x", partition=number) for number in range(partitions)]
        return sum(each.get(timeout=PATIENCE).offset == 0 for each in sent)
    finally:
        producer.close()


def intents_left(cluster: Cluster, topic: str = "") -> list[str]:
    """The keys of the intents that there are, of one topic or of all."""
    found = read_intents({"bootstrap.servers": cluster.bootstrap_servers}, PATIENCE).intents
    return sorted(key for key in found if key.startswith(topic))


def await_kept(cluster: Cluster) -> None:
    """Wait until no intent is left, and nothing of a throttle."""
    wait_until(lambda: intents_left(cluster) == [], TAKE_OVER_SECONDS, "no intent is left")
    # It was lifted before.
    assert throttle_settings(cluster) == {}, "a throttle is left"
