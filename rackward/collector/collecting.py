"""Snapshots of several clusters at the same time, each at its own pace, until told to stop."""

from __future__ import annotations

import logging
import random
import threading
import time
import zlib
from collections.abc import Callable, Sequence

from rackward.collector.errors import SourceError, StoppedError
from rackward.collector.schedule import Schedule
from rackward.collector.sink import Sink
from rackward.collector.sources import ClusterSource
from rackward.collector.worker import Open, Outcome, Worker

GRACE_SECONDS = 5.0
"""How long a cluster that is being asked may take to end."""
_LOOK_SECONDS = 0.2

log = logging.getLogger("rackward.collector")


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
