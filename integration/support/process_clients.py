"""Members of a `ConsumerGroup` that are processes of their own, of any client library.

log = Log()
group.start("k1", "a", client=InProcess("kafka-python", "sticky", log))
kill(group, "k1")
assert log.owned_twice() == []
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from integration.support.clients import Joining, Place, Told
from integration.support.groups import Change, ConsumerGroup, Reads

SOURCES = Path(__file__).parents[2]
CLOSE_SECONDS = 50.0
"""Less than a group waits for a member to stop: what the process wrote says more."""


@dataclass
class Log:
    """What several processes did, by a clock that they share: callbacks, ends, and reads."""

    changes: list[Change] = field(default_factory=list)
    reads: dict[Place, Reads] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reads_of(self, place: Place) -> Reads:
        """What was read of a partition so far; of each member in the order in which it read."""
        with self._lock:
            return self.reads.setdefault(place, Reads())

    def owned_twice(self) -> list[tuple[float, Place, str, str]]:
        """When which partition was assigned to whom, while who still owned it: none is right."""
        owners: dict[Place, str] = {}
        found = []
        for change in sorted(self.changes, key=lambda change: change.when):
            if change.kind == "assigned":
                for place in sorted(change.places):
                    owner = owners.setdefault(place, change.member)
                    if owner != change.member:
                        found.append((change.when, place, change.member, owner))
            else:
                # Who closes, or is killed, reads nothing of anything any more.
                gone = change.places if change.kind in ("revoked", "lost") else owners.keys()
                for place in [p for p in gone if owners.get(p) == change.member]:
                    del owners[place]
        return found

    def out_of_order(self) -> list[tuple[Place, str, int, int]]:
        """Partition, member, breaks and assignments, where it read otherwise than one by one.

        A record that does not follow the one before is right only at an assignment's beginning.
        """
        assigned: dict[tuple[Place, str], int] = {}
        for change in self.changes:
            if change.kind == "assigned":
                for place in change.places:
                    assigned[place, change.member] = assigned.get((place, change.member), 0) + 1
        found = []
        for place, reads in self.reads.items():
            for member in {name for _, _, name in reads.seen}:
                offsets = [offset for _, offset, name in reads.seen if name == member]
                breaks = 1 + sum(b != a + 1 for a, b in itertools.pairwise(offsets))
                times = assigned.get((place, member), 0)
                if breaks > times:
                    found.append((place, member, breaks, times))
        return found


class ProcessClient:
    """A member in a process, told what to do and telling what it did:
    `integration.support.member_process`.

    Its reads go to its log, not through `poll`: it may be gone by the time they are asked for.
    """

    def __init__(self, joining: Joining, client: str, assignor: str, log: Log) -> None:
        self.name = joining.name
        self._log = log
        self._owned: frozenset[Place] = frozenset()
        self._generation = -1
        self._told: Told | None = None
        self._ending = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process is
        self._process = subprocess.Popen(
            [sys.executable, "-m", "integration.support.member_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=SOURCES,
        )
        self._say(make=client, assignor=assignor, joining=asdict(joining))
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def consumer(self) -> Self:
        """This: the library's own object is in the other process."""
        return self

    def subscribe(
        self, told: Told, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        """As a `Client` does."""
        self._told = told
        self._say(subscribe={"topics": list(topics), "pattern": pattern})

    def poll(self, seconds: float) -> Iterable[tuple[Place, int]]:
        """Nothing; raises what the process wrote where it ended by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            if not self._ending:
                raise RuntimeError(f"the process of {self.name} ended:\n{self._last_words()}")
        return ()

    def owned(self) -> frozenset[Place]:
        """As a `Client` does."""
        return self._owned

    def generation(self) -> int:
        """As a `Client` does."""
        return self._generation

    def close(self) -> None:
        """Have it leave; where it does not, kill it and raise what it wrote."""
        self._ending = True
        with contextlib.suppress(BrokenPipeError):
            self._say(close=True)
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise RuntimeError(
                f"{self.name} did not close in {CLOSE_SECONDS:g} s:\n{self._last_words()}"
            ) from None
        finally:
            self._listener.join()
            self._errors.close()

    def kill(self) -> None:
        """SIGKILL."""
        self._ending = True
        now = time.monotonic()
        self._process.kill()
        self._process.wait()
        self._listener.join()
        # It lived for a moment longer, and may have been given something in it.
        last = max(
            (each.when for each in self._log.changes if each.member == self.name), default=now
        )
        self._log.changes.append(Change(max(now, last), self.name, "killed", frozenset()))

    def _say(self, **what: object) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write((json.dumps(what) + "\n").encode())
        pipe.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        closing = False
        for line in self._process.stdout:
            if not line.endswith(b"\n"):
                return  # It was killed while it wrote.
            said = json.loads(line)
            # While it closes, others leave as well, and the event loop of an aiokafka member may
            # still take part in their rebalance. It polls no more, so what it gets it never reads.
            if closing and said.get("told") == "assigned":
                continue
            closing = closing or "closing" in said
            at = said["at"]
            if "read" in said:
                for topic, number, offset in said["read"]:
                    self._log.reads_of((topic, number)).seen.append((at, offset, self.name))
            elif "owned" in said:
                self._owned = _places(said["owned"])
                self._generation = said["generation"]
            else:
                kind, places = said.get("told", "closing"), _places(said.get("places", ()))
                self._log.changes.append(Change(at, self.name, kind, places))
                if self._told is not None and "told" in said:
                    self._told(kind, places)

    def _last_words(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-3000:]


def _places(said: Iterable[Sequence[Any]]) -> frozenset[Place]:
    return frozenset((topic, partition) for topic, partition in said)


@dataclass(frozen=True)
class InProcess:
    """Makes members of a client library with an assignor: see
    `integration.support.member_process`."""

    client: str
    assignor: str
    log: Log

    def __call__(self, joining: Joining) -> ProcessClient:
        return ProcessClient(joining, self.client, self.assignor, self.log)


def kill(group: ConsumerGroup, name: str) -> None:
    """Kill a member that is a process, and forget it."""
    member = group.members.pop(name)
    member.consumer.kill()
    member.stop()
