"""One cluster's turns: connect, take a snapshot, hand it on, say so; and what is said when not."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from placement_core import RackwardError
from rackward.admin import AdminConnection, AdminError
from rackward.collector.client_reports import TABLE, ClientReports
from rackward.collector.config import ClusterSource
from rackward.collector.errors import SinkError, SourceError, StoppedError
from rackward.collector.rows import Sink, Snapshot
from rackward.collector.snapshot_reader import take_snapshot

# ---- When the next snapshot of a cluster is due.

LONGEST_BACK_OFF = 600.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Every ``interval`` seconds, and up to ``jitter`` (a share of it) later.

    Times are on a grid of the clock, seconds since 1970, so that a collector that is started
    again goes on in step, and one that is too slow leaves a time out in place of falling
    behind. The jitter keeps clusters, and collectors, from asking all at once; it comes out of
    ``rng``. Raises SourceError where a value is out of range.
    """

    interval: float
    jitter: float
    rng: random.Random

    def __post_init__(self) -> None:
        if not 0 < self.interval < math.inf:
            raise SourceError(f"the interval is {self.interval!r} s: give a positive number")
        if not 0 <= self.jitter <= 1:
            raise SourceError(f"the jitter is {self.jitter!r}: give a share from 0 to 1")

    def first(self, now: float, last: float | None) -> float:
        """When to begin: now, unless the snapshot at ``last`` is no interval old."""
        if last is None or not 0 <= now - last < self.interval:
            return now
        return self.after(now)

    def after(self, now: float, failures: int = 0) -> float:
        """The next time after one that was done, or has failed ``failures`` times on end.

        Failures double the interval up to ten minutes (or the interval, if that is longer).
        """
        late = self.rng.uniform(0, self.jitter * self.interval)
        if failures > 1:
            longest = max(self.interval, LONGEST_BACK_OFF)
            return now + min(self.interval * 2.0 ** min(failures - 1, 60), longest) + late
        ticks = math.floor(now / self.interval) + 1
        return ticks * self.interval + late


# ---- Not more requests per second than a cluster is to be asked.


@dataclass
class Pace:
    """A bucket of tokens, one for each request; it fills at ``per_second`` and holds ``burst``.

    ``clock`` counts seconds, ``wait`` waits so many and may raise to break off. ``taken`` is
    how many requests there were. Not for several threads at once. Raises SourceError where
    ``per_second`` is not positive.
    """

    per_second: float
    clock: Callable[[], float]
    wait: Callable[[float], None]
    burst: float = 1.0
    taken: int = 0
    _tokens: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        if not self.per_second > 0:
            raise SourceError(f"requests per second is {self.per_second!r}: give a positive number")
        self._tokens, self._at = self.burst, self.clock()

    def __call__(self) -> None:
        """Take a token; wait until there is one."""
        self.taken += 1
        self._fill()
        if self._tokens < 1:
            self.wait((1 - self._tokens) / self.per_second)
            self._fill()
        self._tokens -= 1

    def _fill(self) -> None:
        now = self.clock()
        self._tokens = min(self.burst, self._tokens + (now - self._at) * self.per_second)
        self._at = now


FAULTS_SHOWN = 3

log = logging.getLogger("rackward.collector")

Open = Callable[[ClusterSource], AdminConnection]
Take = Callable[..., Snapshot]
"""`take_snapshot`, or what stands in for it."""


@dataclass
class Outcome:
    """What became of one cluster: whole snapshots, attempts that failed, rows per table.

    ``faults`` is how many different ones there were; ``error`` the last failure, None where
    the last attempt was a success.
    """

    cluster: str
    snapshots: int = 0
    failures: int = 0
    requests: int = 0
    faults: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    error: str | None = None


class Worker:
    """Takes snapshots of one cluster, one at each `turn`, in one thread.

    ``clock`` is the time in seconds since 1970; ``wait`` waits so many seconds and may raise
    to break off; ``open_cluster`` connects.
    """

    def __init__(
        self,
        source: ClusterSource,
        sink: Sink,
        open_cluster: Open,
        clock: Callable[[], float],
        wait: Callable[[float], None],
        take: Take = take_snapshot,
    ) -> None:
        self.source, self._sink, self._open, self._clock = source, sink, open_cluster, clock
        self._take_snapshot = take
        self.outcome = Outcome(source.name)
        self.failures = 0
        """Since the last success."""
        self._pace = Pace(source.requests_per_second, time.monotonic, wait)
        self._admin: AdminConnection | None = None
        self._brokers: frozenset[object] = frozenset()
        self._reports = (
            ClientReports(source.properties, source.reports_topic, source.name)
            if source.reports_topic
            else None
        )
        self._down_since = 0.0
        self._said: type[RackwardError] | None = None
        self._known_faults: set[str] = set()

    def turn(self) -> bool:
        """One snapshot, taken and kept; False where that failed, which is said once.

        Raises what ``wait`` does, and nothing else but bugs.
        """
        began, asked = self._clock(), self._pace.taken
        try:
            snapshot = self._with_reports(self._take())
            kept = self._sink.write(snapshot)
            if kept and self._reports is not None:
                self._reports.keep()
        except (AdminError, SinkError) as error:
            self._failed(error, began)
            return False
        finally:
            self.outcome.requests = self._pace.taken
        self._succeeded(snapshot, began, self._pace.taken - asked)
        return True

    def close(self) -> None:
        """Close the connections."""
        self._disconnect()
        if self._reports is not None:
            self._reports.close()

    def _take(self) -> Snapshot:
        if self._admin is None:
            self._admin = self._open(self.source)
        return self._take_snapshot(
            self._admin,
            self.source.name,
            self.source.selection,
            self.source.racks,
            self._pace,
            lambda: datetime.fromtimestamp(self._clock(), UTC),
        )

    def _with_reports(self, snapshot: Snapshot) -> Snapshot:
        if self._reports is None:
            return snapshot
        try:
            rows, faults = self._reports.read()
        except AdminError as error:
            return replace(snapshot, faults=(*snapshot.faults, str(error)))
        return replace(
            snapshot,
            tables={**snapshot.tables, TABLE: rows},
            faults=(*snapshot.faults, *dict.fromkeys(faults)),
        )

    def _succeeded(self, snapshot: Snapshot, began: float, requests: int) -> None:
        name = self.source.name
        if self.failures:
            log.info(
                "%s: is back after %d failed attempts and %.0f s",
                name,
                self.failures,
                self._clock() - self._down_since,
            )
        self.failures, self._said, self.outcome.error = 0, None, None
        self.outcome.snapshots += 1
        for table, rows in snapshot.tables.items():
            self.outcome.rows[table] = self.outcome.rows.get(table, 0) + len(rows)
        log.info(
            "%s: %s; %d requests in %.1f s",
            name,
            _counted(snapshot),
            requests,
            self._clock() - began,
        )
        self._tell_faults(set(snapshot.faults))
        brokers = frozenset(row[1] for row in snapshot.tables["brokers"])
        if self._brokers and brokers - self._brokers:
            # The client hears of new brokers in its own good time; a new one knows them now.
            self._disconnect()
        else:
            self._brokers = self._brokers or brokers

    def _failed(self, error: RackwardError, began: float) -> None:
        if not self.failures:
            self._down_since = began
        self.failures += 1
        self.outcome.failures += 1
        self.outcome.error = str(error)
        if self._said is not type(error):
            self._said = type(error)
            log.warning("%s: no snapshot: %s", self.source.name, error)
        if isinstance(error, AdminError):
            self._disconnect()
        if self._reports is not None:
            # What was read is not kept: it is read again from the committed position.
            self._reports.close()

    def _tell_faults(self, faults: set[str]) -> None:
        new = sorted(faults - self._known_faults)
        self._known_faults = faults
        self.outcome.faults += len(new)
        for fault in new[:FAULTS_SHOWN]:
            log.warning("%s: left out: %s", self.source.name, fault)
        if len(new) > FAULTS_SHOWN:
            log.warning("%s: and %d more of these", self.source.name, len(new) - FAULTS_SHOWN)

    def _disconnect(self) -> None:
        admin, self._admin = self._admin, None
        self._brokers = frozenset()
        if admin is not None:
            admin.close()


def _counted(snapshot: Snapshot) -> str:
    rows: Mapping[str, int] = {table: len(each) for table, each in snapshot.tables.items()}
    told = (
        f"{rows['brokers']} brokers, {rows['partitions']} partitions, {snapshot.groups} groups, "
        f"{rows['members']} rows of members, {rows['commits']} committed offsets"
    )
    return told + (f", {rows[TABLE]} client reports" if TABLE in rows else "")


# ---- Snapshots of several clusters at the same time, each at its own pace, until told to stop.

GRACE_SECONDS = 5.0
"""How long a cluster that is being asked may take to end."""
_LOOK_SECONDS = 0.2


class Collector:
    """Collects from ``sources`` into ``sink``; a thread for each cluster.

    One that is down holds up none of the others. ``interval`` is in seconds, ``jitter`` a
    share of it that comes out of ``seed``, ``clock`` the time in seconds since 1970. Raises
    SourceError where an option is out of range, or two clusters have one name.
    """

    def __init__(
        self,
        sources: Sequence[ClusterSource],
        sink: Sink,
        open_cluster: Open,
        *,
        interval: float,
        jitter: float = 0.1,
        seed: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        names = [source.name for source in sources]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise SourceError(f"two clusters are called {twice[0]!r}: give each a name of its own")
        self._sink, self._clock = sink, clock
        self._stopping = threading.Event()
        self._bugs: list[BaseException] = []
        self._workers = [
            Worker(source, sink, open_cluster, clock, self._wait) for source in sources
        ]
        self._schedules = [
            Schedule(interval, jitter, _rng(seed, source.name)) for source in sources
        ]

    @property
    def outcomes(self) -> list[Outcome]:
        """What became of each cluster so far."""
        return [worker.outcome for worker in self._workers]

    def run(self, *, once: bool = False, duration: float | None = None) -> list[Outcome]:
        """Collect until ``stop``, for ``duration`` seconds, or ``once`` from each cluster.

        However it ends, the write that is under way is finished and what the sink still
        holds is kept. Raises SinkError where that fails.
        """
        deadline = None if duration is None else time.monotonic() + duration
        threads = [
            threading.Thread(
                target=self._work,
                args=(worker, schedule, once),
                name=f"collect-{worker.source.name}",
                daemon=True,
            )
            for worker, schedule in zip(self._workers, self._schedules, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads) and not self._stopping.is_set():
                if deadline is not None and time.monotonic() >= deadline:
                    break
                self._stopping.wait(_LOOK_SECONDS)
        finally:
            self._stopping.set()
            until = time.monotonic() + GRACE_SECONDS
            for thread in threads:
                thread.join(max(0.0, until - time.monotonic()))
                if thread.is_alive():
                    log.warning("%s: gave up an answer that was awaited", thread.name)
            try:
                self._sink.flush()
            finally:
                self._sink.close()
        if self._bugs:
            raise self._bugs[0]
        return self.outcomes

    def stop(self) -> None:
        """Have ``run`` end, from any thread."""
        self._stopping.set()

    def _wait(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise StoppedError

    def _work(self, worker: Worker, schedule: Schedule, once: bool) -> None:
        try:
            if not once:
                last = self._sink.last(worker.source.name)
                self._wait(schedule.first(self._clock(), last) - self._clock())
            while not self._stopping.is_set():
                worker.turn()
                if once:
                    return
                self._wait(schedule.after(self._clock(), worker.failures) - self._clock())
        except StoppedError:
            return
        except BaseException as bug:  # noqa: BLE001 - raised again by run
            self._bugs.append(bug)
            self._stopping.set()
        finally:
            worker.close()


def _rng(seed: int | None, name: str) -> random.Random:
    """Randomness of its own for each cluster, the same for the same seed and name."""
    return random.Random(None if seed is None else seed ^ zlib.crc32(name.encode()))
