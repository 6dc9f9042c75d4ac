"""What runs on a cluster while it is disturbed: a producer, groups of each client, and their leads.

Every group reads the same topic. The producer is idempotent, waits for all replicas, and numbers
the records of each partition, so that a lost, repeated or exchanged record is found in the log.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import IO, Any

import confluent_kafka

from assignors import RefreshPolicy
from assignors.leader_moves import DEFAULT_REFRESH_POLICY
from integration.chaos.checkers import Sent
from integration.chaos.effects import check_signalled
from integration.support.clients import MakeClient, PartitionId
from integration.support.groups import Change, ConsumerGroup, Reads, everything_is_read
from integration.support.process_clients import SOURCES, InProcess
from integration.support.program_clients import Java
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

RACKS = ("a", "b", "c")
START_SECONDS = 300.0
READ_SECONDS = 300.0
"""Time to read what is left when no more records are sent."""

REFRESH = RefreshPolicy(
    min_gain=0.01, stable_seconds=2, unstable_seconds=6, min_interval=2, check_interval=0.5
)
"""Rebalances within seconds after leaders have moved, so that the final plan must be the best."""

JAVA_POLL_SECONDS = 45

LEAD = "rackward lead"

MIXED = ("kafka-python", "confluent", "aiokafka")


class NumberedProducer:
    """An idempotent producer of ``batch`` records per partition every ``every`` seconds.

    The value of a record is its sequence number in its partition: 0, 1, 2 ..., of ``size`` digits.
    It sends until it is stopped, and catches up if the machine was too busy.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partitions: int,
        every: float,
        *,
        batch: int = 1,
        size: int = 1,
    ) -> None:
        self.began = time.monotonic()
        # By partition, the offset of each sequence number, -1 until it is acknowledged.
        self.offsets = {p: array("q") for p in range(partitions)}
        self.failed: list[str] = []
        self._topic = topic
        self._every = every
        self._batch = batch
        self._size = size
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                # No record is given up, whatever is killed meanwhile.
                "message.timeout.ms": int(READ_SECONDS * 1000),
                # More than are sent while brokers are down.
                "queue.buffering.max.messages": 1_000_000,
                "topic.metadata.refresh.interval.ms": 2000,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def acknowledged(self) -> dict[int, set[int]]:
        """Acknowledged offsets by partition."""
        return {p: set(offsets) - {-1} for p, offsets in list(self.offsets.items())}

    @property
    def sent(self) -> int:
        """The number of records, acknowledged or not."""
        return sum(map(len, list(self.offsets.values())))

    def add_partition(self) -> None:
        """Send to one more partition, which exists."""
        self.offsets[len(self.offsets)] = array("q")

    def stop(self) -> None:
        """Stop, and wait until all records are acknowledged. Raise AssertionError if one is not."""
        self._ending.set()
        self._thread.join()
        waiting = self._producer.flush(TEST_TIMEOUT)
        assert not waiting, f"{waiting} records are not acknowledged"
        assert not self.failed, f"records are not acknowledged: {self.failed[:3]}"

    def discard(self) -> None:
        """Stop without waiting; no effect after `stop`."""
        self._ending.set()
        self._thread.join()
        self._producer.purge()

    def _run(self) -> None:
        due = self.began
        while not self._ending.wait(max(0.0, due - time.monotonic())):
            for partition in list(self.offsets):
                for _ in range(self._batch):
                    self._send(partition)
            self._producer.poll(0)
            due += self._every

    def _send(self, partition: int) -> None:
        sequence = len(self.offsets[partition])

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                # A broker that already has a record that is sent again does not tell its offset.
                # As nobody else writes, it is the number of the record; `lost_in_log` checks that.
                offset = message.offset()
                self.offsets[partition][sequence] = sequence if offset is None else offset
            else:
                self.failed.append(f"{partition}-{sequence}: {error}")

        value = str(sequence).zfill(self._size).encode()
        try:
            self._producer.produce(self._topic, value, partition=partition, on_delivery=delivered)
        except confluent_kafka.KafkaException as error:
            # The metadata may not have a new partition yet: the next record has this sequence.
            if error.args[0].code() != confluent_kafka.KafkaError._UNKNOWN_PARTITION:
                self.failed.append(f"{partition}-{sequence}: {error}")
            return
        self.offsets[partition].append(-1)


def stored_records(cluster: Cluster, topic: str, partitions: int) -> dict[int, Sequence[int]]:
    """Return the sequence number at each offset that the brokers have, by partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found = {p: array("q") for p in range(partitions)}
    unread = set(found)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in found])
        deadline = time.monotonic() + TEST_TIMEOUT
        while unread:
            assert time.monotonic() < deadline, f"{sorted(unread)} of {topic} are not read"
            for message in consumer.consume(10_000, 0.5):
                deadline = time.monotonic() + TEST_TIMEOUT
                error, number, value = message.error(), message.partition(), message.value()
                assert number is not None
                if error is None:
                    assert value is not None
                    assert message.offset() == len(found[number]), "offsets are not consecutive"
                    found[number].append(int(value))
                else:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    unread.discard(number)
    finally:
        consumer.close()
    return dict(found)


def sent_records(cluster: Cluster, topic: str, producer: NumberedProducer, ended: float) -> Sent:
    """Return what a producer that is stopped has sent."""
    return Sent(
        producer.began,
        ended,
        dict(producer.offsets),
        stored_records(cluster, topic, len(producer.offsets)),
    )


@dataclass
class FaultyGroup:
    """A consumer group of one client; each process of a member has a name of its own."""

    client: str
    group: ConsumerGroup
    session_seconds: float
    commit_each: bool
    refresh: RefreshPolicy = DEFAULT_REFRESH_POLICY
    lead: Lead | None = None
    names: dict[int, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def start(self, index: int) -> None:
        """Start the member ``index``, in rack ``index`` modulo their number."""
        client = MIXED[index % len(MIXED)] if self.client == "mixed" else self.client
        self.names[index] = f"{client}-{index}-{next(self._numbers)}"
        self.group.start(
            self.names[index],
            RACKS[index % len(RACKS)],
            client=self._make(client),
            **self._settings(client),
        )

    def _make(self, client: str) -> MakeClient:
        if client == "java":
            return Java()
        return InProcess(client, "sticky", self.group, self.commit_each, self.refresh)

    def _settings(self, client: str) -> dict[str, Any]:
        if client == "java":
            # It waits for so long, at most, until its offsets of a deleted topic are committed.
            return {"max.poll.interval.ms": JAVA_POLL_SECONDS * 1000}
        settings: dict[str, Any] = {"session_timeout_ms": int(self.session_seconds * 1000)}
        if self.commit_each:
            settings["enable_auto_commit"] = False
        if client in ("confluent", "stock"):
            return {name.replace("_", "."): value for name, value in settings.items()}
        return {**settings, "max_poll_records": 1} if self.commit_each else settings

    def kill(self, index: int) -> None:
        """Kill the process of the member ``index``."""
        client = self._client(index)
        member = self.group.members.pop(self.names[index])
        client.kill()
        check_signalled(client.pid, signal.SIGKILL, member.label)
        member.stop()

    def suspend(self, index: int) -> None:
        """Stop the process of the member ``index`` by SIGSTOP."""
        client = self._client(index)
        client.suspend()
        check_signalled(client.pid, signal.SIGSTOP, self.names[index])

    def resume(self, index: int) -> None:
        """Continue the process of the member ``index``."""
        client = self._client(index)
        client.resume()
        check_signalled(client.pid, signal.SIGCONT, self.names[index])

    @property
    def processes(self) -> dict[str, int]:
        """Process ids of the members that have started, and of ``rackward lead``."""
        members = list(self.group.members.items())
        clients: dict[str, Any] = {name: each._client for name, each in members}
        # The process of a Java consumer starts when it subscribes.
        found = {name: each.pid for name, each in clients.items() if each and each.consumer}
        return found if self.lead is None else {**found, LEAD: self.lead.pid}

    def _client(self, index: int) -> Any:
        member = self.group.members[self.names[index]]
        wait_until(lambda: member._client is not None, TEST_TIMEOUT, f"{member.label} is started")
        return member._client

    @property
    def changes(self) -> list[Change]:
        """What was assigned and revoked, and which members were killed or suspended."""
        return list(self.group.history)

    def reads_of(self, tp: PartitionId) -> Reads:
        """Return what was read of a partition so far."""
        return self.group.reads_of(tp)

    @property
    def racks(self) -> dict[str, str | None]:
        """Rack by the name of each running member."""
        return {
            name: RACKS[index % len(RACKS)]
            for index, name in self.names.items()
            if name in self.group.members
        }

    def owned(self) -> dict[str, frozenset[PartitionId]]:
        """Return the current assignment."""
        return {name: member.owned for name, member in self.group.members.items()}

    def read_everything(self, topic: str, producer: NumberedProducer) -> None:
        """Wait until everything that a producer has sent since its start is read."""

        def since_start(tp: PartitionId) -> Reads:
            part = Reads()
            spans = list(self.reads_of(tp).spans)
            part.spans = [each for each in spans if each.at >= producer.began]
            return part

        everything_is_read(since_start, topic, producer, READ_SECONDS)

    def abandon(self) -> None:
        """Kill all members at once, without letting them leave."""
        for index, name in self.names.items():
            if name in self.group.members:
                self.kill(index)


class Lead:
    """``rackward lead`` for one group, in a process that can be killed and suspended."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        refresh = ",".join(f"{name}={value}" for name, value in asdict(REFRESH).items())
        self._command = [
            *(sys.executable, "-m", "rackward.cli.main", "lead", group_id, "--json"),
            *("--bootstrap-server", cluster.bootstrap_servers),
            *("--refresh", refresh, "--take-over", "remove", "--yes"),
        ]
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - until close()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the process."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            cwd=SOURCES,
        )

    def send(self, number: signal.Signals) -> None:
        """Send a signal, and check that it took effect."""
        assert self._process is not None
        self._process.send_signal(number)
        if number is signal.SIGKILL:
            self._process.wait()
        check_signalled(self._process.pid, number, LEAD)

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def times_leading(self) -> int:
        """How often it, or a process before it, has reported that it leads, or that it does not
        take over a group that had nothing to gain when it started."""
        reports = ('"state": "leading"', "waiting until that leaves the group")
        return sum(map(self.output().count, reports))

    def wait_until_leading(self, before: int = 0) -> None:
        """Wait until `times_leading` is more than ``before``. Raise AssertionError otherwise."""
        wait_until(lambda: self.times_leading > before, TEST_TIMEOUT, "rackward lead leads")

    def output(self) -> str:
        """Return what it has printed."""
        # The process writes at the file's own position.
        return os.pread(self._output.fileno(), 1_000_000, 0).decode(errors="replace")

    def close(self) -> None:
        """End the process; it leaves the group."""
        self.send(signal.SIGKILL)
        self._output.close()
