"""A controller that is suspended in the middle of each kind of work while another takes over."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as KafkaTopicPartition

from integration.support.controllers import (
    SHORT_SESSION,
    TAKE_OVER_SECONDS,
    Step,
    cluster_state,
    create_under_replicated,
    pending_keys,
    signalled_controller,
    stop_brokers,
)
from integration.support.groups import ConsumerGroup
from integration.support.topics import (
    SteadyProducer,
    create_topic,
    delete_topic,
    throttle_settings,
)
from rackward.controller.lease import WRITING_RECORDS, Lease
from rackward.testing import Cluster
from rackward.testing.pytest_plugin import UniqueName
from rackward.topics.pending_replicas import PENDING_REPLICAS_TOPIC
from tests.support.waiting import TEST_TIMEOUT, wait_until

OPERATIONS = (
    WRITING_RECORDS,
    "throttling replication",
    "reassigning partitions",
    "removing the replication throttle",
    "electing preferred leaders",
)
QUIET_SECONDS = 3.0
"""How long the cluster is observed after the suspended controller stands by: more than a pass."""


class SuspendedController:
    """A controller that suspends itself once at each step of each kind of change."""

    def __init__(self, cluster: Cluster, group: str, log: Path) -> None:
        self._log = log
        with log.open("w") as file:
            command = signalled_controller(cluster, group, "SIGSTOP")
            self.process = subprocess.Popen(command, stderr=file)

    @property
    def steps(self) -> list[str]:
        """The steps at which it was suspended so far."""
        return re.findall(r"^signal at (.+)$", self._log.read_text(), re.MULTILINE)

    def is_suspended(self, after: int) -> bool:
        """Return whether it is suspended at a step, after so many others."""
        assert self.process.poll() is None, self._log.read_text()
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return len(self.steps) > after and stat.rpartition(")")[2].split()[0] == "T"

    def resume(self) -> None:
        """Resume the process, also at further steps, and wait until it stands by."""
        before = self._log.read_text().count("standing by")
        suspended = len(self.steps)
        self.process.send_signal(signal.SIGCONT)

        def stands_by() -> bool:
            nonlocal suspended
            if self.is_suspended(suspended):
                suspended = len(self.steps)
                self.process.send_signal(signal.SIGCONT)
            return self._log.read_text().count("standing by") > before

        wait_until(stands_by, TAKE_OVER_SECONDS, "the suspended controller stands by")

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()


@contextmanager
def successor(cluster: Cluster) -> Iterator[None]:
    """Own the lease within the context, as another controller that finds nothing to do.

    Kafka gives the partition to the member whose id is the first, this one.
    """
    properties = {"bootstrap.servers": cluster.bootstrap_servers}
    with SHORT_SESSION():
        lease = Lease(properties, "+successor")
    owned, ended = threading.Event(), threading.Event()

    def own() -> None:
        while not ended.is_set():
            lease.poll(0.2)
            if lease.verify_ownership():
                owned.set()

    thread = threading.Thread(target=own)
    thread.start()
    try:
        assert owned.wait(TAKE_OVER_SECONDS), "the successor has no lease"
        yield
    finally:
        ended.set()
        thread.join()
        lease.close()


def everything(cluster: Cluster) -> dict[str, Any]:
    """Return all that a controller can change: layout, leaders, throttle and records."""
    state = cluster_state(cluster)
    records = KafkaTopicPartition(PENDING_REPLICAS_TOPIC, 0)
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers.split(","), group_id=None)
    try:
        end = consumer.end_offsets([records])[records]
    finally:
        consumer.close()
    return {
        "replicas": dict(state.view.replicas),
        "leaders": dict(state.view.known_leaders),
        "reassignments": dict(state.reassignments),
        "throttle": throttle_settings(cluster),
        "records": end,
    }


def wait_until_settled(cluster: Cluster) -> dict[str, Any]:
    """Wait until the cluster has done what was requested of it, and return its state."""

    def settled() -> bool:
        state = cluster_state(cluster)
        return not state.reassignments and all(
            set(state.in_sync[tp]) == set(row) for tp, row in state.view.replicas.items()
        )

    wait_until(settled, TEST_TIMEOUT, "all replicas are in sync")
    return everything(cluster)


def changed_by(cluster: Cluster, controller: SuspendedController) -> list[str]:
    """Return what the controller changes after another has taken over meanwhile."""
    with successor(cluster):
        before = wait_until_settled(cluster)
        controller.resume()
        time.sleep(QUIET_SECONDS)
        after = everything(cluster)
    return [key for key in before if before[key] != after[key]]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_suspended_controller_changes_nothing_afterwards(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    """Prints a line for each step."""
    topic, read = unique_name("suspended"), unique_name("read")
    stop_brokers(cluster, 2)
    create_under_replicated(cluster, topic)
    cluster.start_broker(2)
    create_topic(cluster, read, [[0, 1], [2, 1], [0, 1], [2, 1]])
    expected = {f"{step.value}: {operation}" for operation in OPERATIONS for step in Step}
    changes: dict[str, list[str]] = {}
    with ConsumerGroup(cluster, topics=[read]) as group, SteadyProducer(cluster, read, 4):
        group.start("b1", "b")
        group.settle({(read, number) for number in range(4)})
        controller = SuspendedController(cluster, group.id, tmp_path / "log")
        try:
            while changes.keys() != expected:
                wait_until(
                    lambda: controller.is_suspended(len(changes)),
                    TAKE_OVER_SECONDS,
                    f"the controller is suspended at another step than {changes.keys()}",
                )
                changed = changed_by(cluster, controller)
                for step in controller.steps[len(changes) :]:
                    changes[step] = changed
                    print(f"{step}: changed after SIGCONT: {', '.join(changed) or 'nothing'}")
        finally:
            controller.end()
    delete_topic(cluster, read)
    assert changes == {step: [] for step in expected}
    assert pending_keys(cluster) == []
