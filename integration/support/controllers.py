"""Controller processes, the records that they write, and topics that lack replicas.

As a program, this module is a controller that sends itself a signal at a step of a change, or
without STEP and OPERATION once at each step of each kind of change:

    python -m integration.support.controllers BOOTSTRAP_SERVERS GROUP SIGNAL [STEP OPERATION]

Leaders follow the consumers of GROUP.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self
from unittest.mock import patch

from integration.support.command_line import rackward
from integration.support.topics import records_of, throttle_settings
from placement_core import TopicPartition
from placement_core.locators import MetadataLocator
from placement_core.placers import RackAlternatingPlacer
from rackward.controller.app import Controller, Plugins
from rackward.controller.config import ControllerConfig, FollowConfig, UnderReplicated
from rackward.controller.lease import Lease
from rackward.kafka import ClusterState, connect, read_state
from rackward.testing import Cluster
from rackward.topics.pending_replicas import PENDING_REPLICAS_TOPIC, read_pending_replicas
from rackward.units import Deadline
from tests.support.waiting import TEST_TIMEOUT, wait_until

READY_SECONDS = 120.0
"""A process on a busy machine needs most of it for its imports."""


class RunningController:
    """``rackward controller`` for a cluster; its log is a file in ``folder``.

    ``lead`` and ``leaders`` are sections of its configuration. As a context manager, it kills the
    process at the end if that has not ended.
    """

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        name: str = "controller",
        throttle: str = "50MB",
        lead: Mapping[str, object] | None = None,
        leaders: Mapping[str, object] | None = None,
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
                    "lead": dict(lead or {}),
                    "leaders": dict(leaders or {}),
                }
            )
        )
        self._log = folder / f"{name}.log"
        with self._log.open("a") as log:
            self._log_start = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rackward.cli.main", "controller", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()

    @property
    def log(self) -> str:
        """The log so far, also of earlier controllers of this name."""
        return self._log.read_text()

    @property
    def service(self) -> str:
        """``host:port`` of the placement service."""
        return self._wait_for_log(r"placement service: address=(\S+) tls=off")

    def metrics(self) -> str:
        """Return the body of /metrics."""
        return self._get("metrics")[1]

    def status(self) -> dict[str, Any]:
        """Return the body of /status."""
        return dict(json.loads(self._get("status")[1]))

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of /health/ready."""
        status, body = self._get("health/ready")
        return status, json.loads(body)

    def _get(self, path: str) -> tuple[int, str]:
        """Return the status and the body of a response."""
        address = self._wait_for_log(r"health and metrics: http://(\S+)")
        try:
            with urllib.request.urlopen(f"http://{address}/{path}", timeout=TEST_TIMEOUT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str) -> float:
        """Return the value of a metric; ``name`` is without ``rackward_controller_``."""
        pattern = rf"^rackward_controller_{re.escape(name)} (\S+)$"
        (value,) = re.findall(pattern, self.metrics(), re.MULTILINE)
        return float(value)

    def is_active(self) -> bool:
        """Return whether this controller has the lease."""
        return bool(self.health()[1]["active"])

    def kill(self) -> None:
        """Kill the process and wait until it has ended."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Interrupt the process and return its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(READY_SECONDS)

    def _wait_for_log(self, pattern: str) -> str:
        """Return the last match of the pattern in this process's log."""
        deadline = time.monotonic() + READY_SECONDS
        while not (matches := re.findall(pattern, self.log[self._log_start :])):
            assert self.process.poll() is None, f"the controller ended: {self.log}"
            assert time.monotonic() < deadline, f"{pattern} is not in the log: {self.log}"
            time.sleep(0.1)
        return str(matches[-1])


class FollowedGroups(Protocol):
    """Groups whose readers leaders can follow."""

    @property
    def cluster(self) -> Cluster:
        """Their cluster."""

    @property
    def ids(self) -> list[str]:
        """Their names."""

    def is_followed(self) -> bool:
        """Return whether leaders are where they are read, as far as one leader can be."""


@contextmanager
def followed(
    groups: FollowedGroups, folder: Path, *, settle: str, rest: str, bound: int, within: float
) -> Iterator[RunningController]:
    """Run a controller whose leaders follow the groups, and have done so ``within`` seconds.

    ``bound`` is the number of elections per hour. Its log is printed at the end.
    """
    leaders = {
        "follow": groups.ids,
        "min_rate": 10,
        "settle": settle,
        "rest": rest,
        "elections_per_hour": bound,
        # One of three brokers may lead everything, so that the optimum can always be reached.
        "max_imbalance": 2.0,
    }
    with RunningController(groups.cluster, folder, leaders=leaders) as running:
        try:
            wait_until(groups.is_followed, within, "leaders are where they are read")
            yield running
        finally:
            print(running.log)


def assigned_replicas(cluster: Cluster) -> dict[TopicPartition, set[tuple[int, ...]]]:
    """Return every replica list that any controller has assigned, by partition.

    They are in all records of the topic of pending replicas, which is too small for compaction.
    """
    assigned: dict[TopicPartition, set[tuple[int, ...]]] = {}
    for record in records_of(cluster, PENDING_REPLICAS_TOPIC):
        if record.value is not None:
            content = json.loads(record.value)
            for number, row in content["assigned"].items():
                key = TopicPartition(content["topic"], int(number))
                assigned.setdefault(key, set()).add(tuple(row))
    return assigned


FENCED_SECONDS = 60.0
FILL_SECONDS = 30.0
"""Seconds from the start of a broker until placeholders are filled."""
TAKE_OVER_SECONDS = 180.0
"""Seconds for a controller to start, to join, and to wait for the session of a killed one."""


def cluster_state(cluster: Cluster) -> ClusterState:
    """Return the current state of the cluster."""
    cluster.await_metadata()
    with connect({"bootstrap.servers": cluster.bootstrap_servers}, timeout=TEST_TIMEOUT) as admin:
        return read_state(admin)


def stop_brokers(cluster: Cluster, *brokers: int) -> None:
    """Stop brokers and wait until they are fenced."""
    for broker in brokers:
        cluster.stop_broker(broker)
    wait_until(
        lambda: not cluster_state(cluster).view.racks().keys() & set(brokers),
        FENCED_SECONDS,
        f"brokers {brokers} are fenced",
    )


def wait_for_replicas(cluster: Cluster, *topics: str, within: float = FILL_SECONDS) -> ClusterState:
    """Wait until every partition has three replicas in sync, one per rack."""
    states: list[ClusterState] = []

    def complete() -> bool:
        state = cluster_state(cluster)
        states[:] = [state]
        racks = state.view.racks()
        return not state.reassignments and all(
            len(row) == 3
            and set(state.in_sync[tp]) == set(row)
            and {racks.get(broker) for broker in row} == {"a", "b", "c"}
            for tp, row in state.view.replicas.items()
            if tp.topic in topics
        )

    wait_until(complete, within, f"{topics} have three replicas in sync, one per rack")
    return states[0]


def wait_for_active(*controllers: RunningController) -> RunningController:
    """Wait until one of the controllers is active, and return it."""
    active: list[RunningController] = []

    def one_is_active() -> bool:
        active[:] = [each for each in controllers if each.is_active()]
        return len(active) == 1

    wait_until(one_is_active, TAKE_OVER_SECONDS, "one controller is active")
    return active[0]


def create_under_replicated(cluster: Cluster, topic: str, *options: object) -> None:
    rackward(
        cluster,
        *("topics", "create", topic, "--partitions", 4, "--replication-factor", 3),
        *("--allow-under-replicated", "--config", "min.insync.replicas=2", "--yes", *options),
    )


def pending_keys(cluster: Cluster, topic: str = "") -> list[str]:
    """Return the keys of the records of pending replicas, of one topic or of all."""
    records = read_pending_replicas(
        {"bootstrap.servers": cluster.bootstrap_servers}, TEST_TIMEOUT
    ).records
    return sorted(key for key in records if key.startswith(topic))


def wait_until_complete(cluster: Cluster) -> None:
    """Wait until there is no record of pending replicas, and assert that there is no throttle."""
    wait_until(lambda: pending_keys(cluster) == [], TAKE_OVER_SECONDS, "all records are deleted")
    assert throttle_settings(cluster) == {}, "a throttle is left"


# The controller that sends itself a signal.

SESSION_TIMEOUT_MS = 6000
"""The minimum that brokers allow."""

THROTTLE = 50_000_000


SHORT_SESSION = partial(patch, "rackward.controller.lease.SESSION_TIMEOUT_MS", SESSION_TIMEOUT_MS)


class Step(Enum):
    """Points of a change: before the lease is confirmed, between that and the request, and after
    the response."""

    PLANNED = "planned"
    CONFIRMED = "confirmed"
    DONE = "done"


@contextmanager
def observed_changes(on_step: Callable[[Step, str], None]) -> Iterator[None]:
    """Have each change of a controller in this process call ``on_step`` with its operation."""
    fenced = Lease.fenced

    @contextmanager
    def observed(lease: Lease, operation: str) -> Iterator[Deadline]:
        on_step(Step.PLANNED, operation)
        with fenced(lease, operation) as deadline:
            on_step(Step.CONFIRMED, operation)
            yield deadline
        on_step(Step.DONE, operation)

    with patch.object(Lease, "fenced", observed):
        yield


def signalled_controller(
    cluster: Cluster, group: str, name: str, *at: tuple[Step, str]
) -> list[str]:
    """Return the command line of a controller that gets the signal ``name`` at this step, or once
    at each."""
    module = "integration.support.controllers"
    points = [text for step, operation in at for text in (step.value, operation)]
    return [sys.executable, "-m", module, cluster.bootstrap_servers, group, name, *points]


def main() -> None:
    """Run the controller until the signal."""
    servers, group, name, *point = sys.argv[1:]
    seen: set[tuple[Step, str]] = set()

    def on_step(step: Step, operation: str) -> None:
        if (step, operation) in seen or (point and point != [step.value, operation]):
            return
        seen.add((step, operation))
        print(f"signal at {step.value}: {operation}", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.Signals[name])

    logging.basicConfig(level=logging.INFO)
    config = ControllerConfig(
        {"bootstrap.servers": servers},
        under_replicated=UnderReplicated(throttle=THROTTLE),
        leaders=FollowConfig((group,), min_rate=1.0, settle=1.0, rest=1.0),
    )
    plugins = Plugins(RackAlternatingPlacer, MetadataLocator())
    with SHORT_SESSION(), observed_changes(on_step):
        Controller(config, plugins, timeout=20.0).run()


if __name__ == "__main__":
    main()
