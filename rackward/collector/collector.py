"""Takes snapshots of clusters at regular times and writes them to a sink; a thread per cluster.

A cluster that is down does not delay the others: its failures are logged once per kind of error
and retried with a growing delay. Each cluster has a limit of requests per second.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from placement_core import RackwardError
from rackward.collector.config import ClusterSource, SinkError, SourceError, StoppedError
from rackward.collector.sinks import Sink
from rackward.collector.snapshot import HostAddresses, Snapshot, take_snapshot
from rackward.kafka import AdminConnection, AdminError

MAX_BACKOFF_SECONDS = 600.0
SHUTDOWN_SECONDS = 5.0
"""How long ``run`` waits for threads that wait for a cluster's response."""
MAX_LOGGED_FAULTS = 3
JITTER = 0.1
"""The most that a snapshot is delayed, as a share of the interval."""

_POLL_SECONDS = 0.2

log = logging.getLogger("rackward.collector")

OpenCluster = Callable[[ClusterSource], AdminConnection]


@dataclass
class ClusterResult:
    """The results of one cluster so far: snapshots, failed attempts and rows per table.

    faults
        The number of different parts that were missing in snapshots.
    error
        The last failure; None if the last attempt succeeded.
    """

    cluster: str
    snapshots: int = 0
    failures: int = 0
    requests: int = 0
    faults: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    error: str | None = None


class Collector:
    """Collects from ``sources`` into ``sink``.

    ``interval`` is in seconds, see `next_time`. Raises SourceError if it is out of range, or two
    clusters have the same name.
    """

    def __init__(
        self,
        sources: Sequence[ClusterSource],
        sink: Sink,
        open_cluster: OpenCluster,
        *,
        interval: float,
    ) -> None:
        names = [source.name for source in sources]
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            raise SourceError(f"two clusters are named {duplicates[0]!r}: give each its own name")
        if not 0 < interval < math.inf:
            raise SourceError(f"the interval is {interval!r} s: give a number above 0")
        self._sink, self._interval = sink, interval
        self._stop = threading.Event()
        self._bugs: list[BaseException] = []
        self._workers = [
            Worker(source, sink, open_cluster, time.time, self._wait) for source in sources
        ]

    @property
    def results(self) -> list[ClusterResult]:
        """The results so far, in the order of the sources."""
        return [worker.result for worker in self._workers]

    def run(self, *, once: bool = False, duration: float | None = None) -> list[ClusterResult]:
        """Collect until ``stop``, for ``duration`` seconds, or ``once`` from each cluster.

        At the end, also after an error, the write in progress is completed and the sink is flushed
        and closed. Raises SinkError if that fails.
        """
        deadline = None if duration is None else time.monotonic() + duration
        threads = [
            threading.Thread(
                target=self._work,
                args=(worker, once),
                name=f"collect-{worker.source.name}",
                daemon=True,
            )
            for worker in self._workers
        ]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads) and not self._stop.is_set():
                if deadline is not None and time.monotonic() >= deadline:
                    break
                self._stop.wait(_POLL_SECONDS)
        finally:
            self._stop.set()
            until = time.monotonic() + SHUTDOWN_SECONDS
            for thread in threads:
                thread.join(max(0.0, until - time.monotonic()))
                if thread.is_alive():
                    log.warning("%s: abandoned while waiting for a response", thread.name)
            try:
                self._sink.flush()
            finally:
                self._sink.close()
        if self._bugs:
            raise self._bugs[0]
        return self.results

    def stop(self) -> None:
        """Make ``run`` return. Thread-safe."""
        self._stop.set()

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise StoppedError

    def _work(self, worker: Worker, once: bool) -> None:
        try:
            if not once:
                last = self._sink.last(worker.source.name)
                now = time.time()
                self._wait(first_time(now, self._interval, last) - now)
            while not self._stop.is_set():
                worker.run_once()
                if once:
                    return
                now = time.time()
                self._wait(next_time(now, self._interval, worker.failures) - now)
        except StoppedError:
            return
        except BaseException as bug:  # noqa: BLE001 - raised again by run
            self._bugs.append(bug)
            self._stop.set()
        finally:
            worker.close()


class Worker:
    """Takes snapshots of one cluster, in one thread.

    ``clock`` returns seconds since 1970. ``wait`` waits for a number of seconds, and may raise to
    interrupt.
    """

    def __init__(
        self,
        source: ClusterSource,
        sink: Sink,
        open_cluster: OpenCluster,
        clock: Callable[[], float],
        wait: Callable[[float], None],
    ) -> None:
        self.source, self._sink, self._open, self._clock = source, sink, open_cluster, clock
        self.result = ClusterResult(source.name)
        self.failures = 0
        """Failed attempts since the last success."""
        self._limiter = RateLimiter(source.requests_per_second, time.monotonic, wait)
        self._addresses = HostAddresses(time.monotonic)
        self._admin: AdminConnection | None = None
        self._brokers: frozenset[object] = frozenset()
        self._failing_since = 0.0
        self._logged_failure: type[RackwardError] | None = None
        self._logged_faults: set[str] = set()

    def run_once(self) -> bool:
        """Take a snapshot and write it; return whether that succeeded. Failures are logged.

        Raises what ``wait`` raises.
        """
        started, requests = self._clock(), self._limiter.requests
        try:
            if self._admin is None:
                self._admin = self._open(self.source)
            snapshot = take_snapshot(
                self._admin, self.source, self._limiter.acquire, self._addresses
            )
            self._sink.write(snapshot)
        except (AdminError, SinkError) as error:
            self._on_failure(error, started)
            return False
        finally:
            self.result.requests = self._limiter.requests
        self._on_success(snapshot, started, self._limiter.requests - requests)
        return True

    def _on_success(self, snapshot: Snapshot, started: float, requests: int) -> None:
        name = self.source.name
        if self.failures:
            log.info(
                "%s: reachable again: failures=%d seconds=%.0f",
                name,
                self.failures,
                self._clock() - self._failing_since,
            )
        self.failures, self._logged_failure, self.result.error = 0, None, None
        self.result.snapshots += 1
        for table, rows in snapshot.tables.items():
            self.result.rows[table] = self.result.rows.get(table, 0) + len(rows)
        log.info(
            "%s: snapshot: %s requests=%d seconds=%.1f",
            name,
            _counts(snapshot),
            requests,
            self._clock() - started,
        )
        self._log_faults(set(snapshot.faults))
        brokers = frozenset(row[1] for row in snapshot.tables["brokers"])
        if self._brokers and brokers - self._brokers:
            # A new client connects to new brokers at once; an old one only after a while.
            self.close()
        else:
            self._brokers = self._brokers or brokers

    def _on_failure(self, error: RackwardError, started: float) -> None:
        if not self.failures:
            self._failing_since = started
        self.failures += 1
        self.result.failures += 1
        self.result.error = str(error)
        if self._logged_failure is not type(error):
            self._logged_failure = type(error)
            log.warning("%s: snapshot failed: %s", self.source.name, error)
        if isinstance(error, AdminError):
            self.close()

    def _log_faults(self, faults: set[str]) -> None:
        new = sorted(faults - self._logged_faults)
        self._logged_faults = faults
        self.result.faults += len(new)
        for fault in new[:MAX_LOGGED_FAULTS]:
            log.warning("%s: missing in the snapshot: %s", self.source.name, fault)
        if len(new) > MAX_LOGGED_FAULTS:
            rest = len(new) - MAX_LOGGED_FAULTS
            log.warning("%s: missing in the snapshot: %d more", self.source.name, rest)

    def close(self) -> None:
        """Close the connection; the next snapshot opens another."""
        admin, self._admin = self._admin, None
        self._brokers = frozenset()
        if admin is not None:
            admin.close()


def next_time(now: float, interval: float, failures: int = 0) -> float:
    """Return when the next snapshot is due, after a success or after ``failures`` in a row.

    Times are multiples of the interval since 1970, so that a collector that is restarted keeps its
    times, and one that is too slow skips a time instead of falling behind. They are delayed at
    random, by up to JITTER of the interval, so that several collectors spread their requests.
    Failures double the interval, up to MAX_BACKOFF_SECONDS, or the interval if that is longer.
    """
    delay = random.uniform(0, JITTER * interval)
    if failures > 1:
        longest = max(interval, MAX_BACKOFF_SECONDS)
        return now + min(interval * 2.0 ** min(failures - 1, 60), longest) + delay
    return (math.floor(now / interval) + 1) * interval + delay


def first_time(now: float, interval: float, last: float | None) -> float:
    """Return when the first one is due: now, unless ``last`` is less than an interval ago."""
    if last is None or not 0 <= now - last < interval:
        return now
    return next_time(now, interval)


class RateLimiter:
    """Permits ``per_second`` requests per second, evenly.

    ``clock`` returns seconds; ``wait`` waits for a number of seconds, and may raise to interrupt.
    ``requests`` counts the requests. Not thread-safe. Raises SourceError unless ``per_second`` is
    above 0.
    """

    def __init__(
        self, per_second: float, clock: Callable[[], float], wait: Callable[[float], None]
    ) -> None:
        if not per_second > 0:
            raise SourceError(f"requests per second is {per_second!r}: give a number above 0")
        self._seconds, self._clock, self._wait = 1 / per_second, clock, wait
        self._next = clock()
        self.requests = 0

    def acquire(self) -> None:
        """Wait until a request is permitted."""
        self.requests += 1
        now = self._clock()
        if now < self._next:
            self._wait(self._next - now)
        self._next = max(now, self._next) + self._seconds


def _counts(snapshot: Snapshot) -> str:
    rows = {table: len(values) for table, values in snapshot.tables.items()}
    return (
        f"brokers={rows['brokers']} partitions={rows['partitions']} groups={snapshot.groups} "
        f"members={rows['members']} commits={rows['commits']}"
    )
