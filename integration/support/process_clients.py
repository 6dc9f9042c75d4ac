"""Members of a `ConsumerGroup` that run in processes of any client library, and can be killed.

    group.start("k1", "a", client=InProcess("kafka-python", "sticky", group))
    kill(group, "k1")

The group records callbacks and reads with the times of the process in which they happened. A member
is this module, run as a program. The parent writes a JSON object per line to it, and reads one per
line:

    <- {"client": "aiokafka", "assignor": "sticky", "config": {...}, ...}  first
    <- {"subscribe": {"topics": [...], "pattern": null}}
    <- {"close": true}                                                     last
    -> {"at": 12.3, "change": "assigned", "partitions": [["t", 0], ...]}   at each callback
    -> {"at": 12.3, "owned": [["t", 0], ...], "generation": 4}             at each change
    -> {"at": 12.3, "read": [["t", 0, 17, 5], ...], "generation": 4}       five records from 17 on
    -> {"at": 12.3, "closing": true}

With ``"commit_each": true`` in the first line, each record is reported and committed on its own:

    -> {"at": 12.3, "read": [["t", 0, 17, 1]], "generation": 4}
    -> {"at": 12.3, "not_committed": "CommitFailedError"}

``"refresh"`` in the first line has the fields of a RefreshPolicy.

``at`` is the time of the machine's monotonic clock, which all processes share. The process ends
after ``close``, or when its parent has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from assignors import LeaderRackAwareCooperativeSticky, Member, RefreshPolicy
from assignors.leader_moves import DEFAULT_REFRESH_POLICY
from integration.support.clients import (
    KafkaPython,
    MakeClient,
    MemberConfig,
    OnChange,
    PartitionId,
)
from integration.support.groups import Change, ConsumerGroup

SOURCES = Path(__file__).parents[2]
CLOSE_SECONDS = 50.0
"""Shorter than a group waits for a member to stop: this error has the output of the process."""


class ProcessClient:
    """A member in its own process.

    Reads are recorded by the group and not returned by `poll`, since the process may be killed.
    """

    def __init__(self, config: MemberConfig, group: ConsumerGroup, **first: object) -> None:
        """Start the process; ``first`` is what it is sent first, besides ``config``."""
        self.name = config.name
        self._group = group
        self._owned: frozenset[PartitionId] = frozenset()
        self._generation = -1
        self._ending = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process is
        self._process = subprocess.Popen(
            [sys.executable, "-m", "integration.support.process_clients"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=SOURCES,
        )
        self._send(config=asdict(config), **first)
        self._reader = threading.Thread(target=self._read_events, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    @property
    def consumer(self) -> Self:
        """This object: the library's consumer is in the other process."""
        return self

    def subscribe(
        self,
        on_change: OnChange,  # noqa: ARG002 - the process reports changes with their times
        *,
        topics: Sequence[str] = (),
        pattern: str | None = None,
    ) -> None:
        """See `Client`."""
        self._send(subscribe={"topics": list(topics), "pattern": pattern})

    def poll(self, seconds: float) -> Iterable[tuple[PartitionId, int]]:
        """Return no records. Raise RuntimeError with the output of the process if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            if not self._ending:
                raise RuntimeError(f"the process of {self.name} ended:\n{self._output()}")
        return ()

    def owned(self) -> frozenset[PartitionId]:
        """See `Client`."""
        return self._owned

    def generation(self) -> int:
        """See `Client`."""
        return self._generation

    def close(self) -> None:
        """Close the member. If it does not end, kill it and raise RuntimeError with its output."""
        self._ending = True
        with contextlib.suppress(BrokenPipeError):
            self._send(close=True)
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise RuntimeError(
                f"{self.name} did not close in {CLOSE_SECONDS:g} s:\n{self._output()}"
            ) from None
        finally:
            self._reader.join()
            self._errors.close()

    def kill(self) -> None:
        """Kill the process by SIGKILL."""
        self._ending = True
        now = time.monotonic()
        self._process.kill()
        self._process.wait()
        self._reader.join()
        # It may have been assigned partitions in the moment before it ended.
        last = max(
            (each.when for each in self._group.history if each.member == self.name), default=now
        )
        self._group.history.append(Change(max(now, last), self.name, "killed", frozenset()))

    def suspend(self) -> None:
        """Stop the process by SIGSTOP: neither polls nor heartbeats are sent."""
        self._process.send_signal(signal.SIGSTOP)
        self._group.history.append(Change(time.monotonic(), self.name, "suspended", frozenset()))

    def resume(self) -> None:
        """Continue a suspended process by SIGCONT."""
        self._group.history.append(Change(time.monotonic(), self.name, "resumed", frozenset()))
        self._process.send_signal(signal.SIGCONT)

    def _send(self, **command: object) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write((json.dumps(command) + "\n").encode())
        pipe.flush()

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        closing = False
        for line in self._process.stdout:
            if not line.endswith(b"\n"):
                return  # Killed while it wrote.
            event = json.loads(line)
            # The event loop of an aiokafka member that closes may take part in a rebalance for
            # other members that leave. It does not poll any more, so it reads nothing of what it
            # is assigned.
            if closing and event.get("change") == "assigned":
                continue
            closing = closing or "closing" in event
            at = event["at"]
            if "read" in event:
                for topic, number, first, count in event["read"]:
                    self._group.reads_of((topic, number)).record(at, first, self.name, count)
                    self._group.claims.add((event["generation"], (topic, number), self.name))
            elif "not_committed" in event:
                self._group.not_committed.append(event["not_committed"])
            elif "owned" in event:
                self._owned = _partition_ids(event["owned"])
                self._generation = event["generation"]
            else:
                kind = event.get("change", "closing")
                partitions = _partition_ids(event.get("partitions", ()))
                self._group.history.append(Change(at, self.name, kind, partitions))

    def _output(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-3000:]


def _partition_ids(items: Iterable[Sequence[Any]]) -> frozenset[PartitionId]:
    return frozenset((topic, partition) for topic, partition in items)


@dataclass(frozen=True)
class InProcess:
    """Starts members of a client library with one of `ASSIGNORS`."""

    client: str
    assignor: str
    group: ConsumerGroup
    commit_each: bool = False
    """Commit each record on its own, after it has been reported."""
    refresh: RefreshPolicy = DEFAULT_REFRESH_POLICY

    def __call__(self, config: MemberConfig) -> ProcessClient:
        return ProcessClient(
            config,
            self.group,
            client=self.client,
            assignor=self.assignor,
            commit_each=self.commit_each,
            refresh=asdict(self.refresh),
        )


def kill(group: ConsumerGroup, name: str) -> None:
    """Kill a member that is a process, and remove it from the group."""
    member = group.members.pop(name)
    member.consumer.kill()
    member.stop()


# The member: this module as a program.

ASSIGNORS = {
    "range": "LeaderRackAwareRangeAssignor",
    "sticky": "LeaderRackAwareCooperativeStickyAssignor",
}
POLL_SECONDS = 0.1


def make_client(
    client: str, assignor: str, refresh: RefreshPolicy, *, one_record: bool = False
) -> MakeClient:
    """Return what constructs members of a client library with one of `ASSIGNORS`.

    "stock" is confluent's own consumer with librdkafka's assignor of the same protocol. With
    ``one_record``, members of confluent's return no more than that in a poll.
    """
    name = ASSIGNORS[assignor]
    # Besides kafka-python, each process imports only the library of its member.
    if client in ("confluent", "stock"):
        from confluent_kafka import KafkaError

        from integration.support.confluent import CONFLUENT, RACKWARD, Confluent

        variant = RACKWARD if client == "confluent" else CONFLUENT
        strategy = variant.eager if assignor == "range" else variant.cooperative
        batch = {"batch": 1} if one_record else {}
        # The topic was deleted. The consumer waits until it is made again.
        ignored = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART})
        further = {"rackward.refresh": refresh} if client == "confluent" else {}
        return Confluent(
            strategy,
            lambda config: variant.consumer({**config, **further}),
            ignored=ignored,
            **batch,
        )
    if client == "aiokafka":
        import assignors.aiokafka
        from integration.support.aiokafka_clients import AIOKafka

        own_aio = getattr(assignors.aiokafka, name)
        return AIOKafka(lambda rack: [own_aio(rack=rack, refresh=refresh)])
    import assignors.kafka_python

    own = getattr(assignors.kafka_python, name)
    return KafkaPython(lambda rack: [own(rack=rack, refresh=refresh)])


def main() -> None:
    """Run the member until it is closed."""
    first = json.loads(sys.stdin.readline())
    commands: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read_commands, args=(commands,), daemon=True).start()
    commit_each = first["commit_each"]
    refresh = RefreshPolicy(**first["refresh"])
    make = make_client(first["client"], first["assignor"], refresh, one_record=commit_each)
    if first["client"] != "stock":
        _load_solver()
    client = make(MemberConfig(**first["config"]))

    def on_change(kind: str, partitions: Iterable[PartitionId]) -> None:
        _send(change=kind, partitions=sorted(partitions))

    before: object = None
    while True:
        try:
            command = commands.get_nowait()
        except queue.Empty:
            command = {}
        if "close" in command:
            _send(closing=True)
            client.close()
            return
        if "subscribe" in command:
            client.subscribe(on_change, **command["subscribe"])
        records = list(client.poll(POLL_SECONDS))
        if commit_each:
            _commit_each(client, records)
        elif records:
            _send(read=_spans(records), generation=client.generation())
        state = {"owned": sorted(client.owned()), "generation": client.generation()}
        if state != before:
            _send(**state)
            before = state


def _load_solver() -> None:
    """Compute an assignment: the first one of a process loads the solver, 7 to 9 MiB.

    So a member that leads for the first time late in a soak does not seem to leak memory.
    """
    members = [Member(rack, frozenset({"t"}), rack) for rack in "ab"]
    LeaderRackAwareCooperativeSticky().assign(members, {"t": ["a", "b", "a", "b"]})


def _spans(records: Iterable[tuple[PartitionId, int]]) -> list[tuple[str, int, int, int]]:
    """Return topic, partition, first offset and number of consecutive records."""
    spans: list[tuple[str, int, int, int]] = []
    for tp, offset in records:
        if spans and spans[-1][:2] == tp and sum(spans[-1][2:]) == offset:
            spans[-1] = (*spans[-1][:3], spans[-1][3] + 1)
        else:
            spans.append((*tp, offset, 1))
    return spans


def _commit_each(client: Any, records: Iterable[tuple[PartitionId, int]]) -> None:
    for partition, offset in records:
        _send(read=_spans([(partition, offset)]), generation=client.generation())
        try:
            client.commit(partition, offset + 1)
        except Exception as error:  # noqa: BLE001 - of any library; the next commit covers it
            _send(not_committed=f"{type(error).__name__}: {error}"[:200])


def _read_commands(commands: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        commands.put(json.loads(line))
    # The parent has ended. A member that went on would disturb later tests.
    os._exit(1)


def _send(**event: object) -> None:
    # One write per line: callbacks may be called in any thread.
    os.write(sys.stdout.fileno(), (json.dumps({"at": time.monotonic(), **event}) + "\n").encode())


if __name__ == "__main__":
    main()
