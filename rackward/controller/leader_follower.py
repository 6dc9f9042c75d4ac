"""Reads the cluster, decides by `rackward.controller.leader_decision`, and moves leaders."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from placement_core import TopicPartition
from placement_core.locators import RackLocator, apply_locator
from rackward.controller.config import FollowConfig
from rackward.controller.leader_decision import (
    Decision,
    History,
    Observation,
    Racks,
    Waiting,
    decide,
)
from rackward.controller.lease import ControllerCluster
from rackward.groups.readers import current_readers, is_stable, may_read_followers
from rackward.groups.reading import (
    ClusterReading,
    ReadRates,
    Sample,
    measured_rates,
    read_cluster,
    read_sample,
)
from rackward.kafka import AdminConnection
from rackward.kafka.groups import Group
from rackward.kafka.tolerant_reader import TolerantReader
from rackward.reassignment import ExecutionOptions, Executor, LiveCluster
from rackward.topics.pending_replicas import ElectionTimes

STALL_SECONDS = 30.0
RATES_SECONDS = 60.0
"""Seconds over which rates are measured; the first ones over the settle time."""
CPU_SHARE = 0.05
"""The cluster is read again when what reading and deciding took is at most this share of the time,
in seconds of CPU. In a small cluster that is each pass."""

log = logging.getLogger("rackward.controller")


@dataclass(frozen=True, slots=True)
class FollowStatus:
    """For metrics: the last ``decision``, None if there is none, and ``elections`` in the hour
    before; decisions and layouts so far, a layout being a decision that moves leaders."""

    decision: Decision | None = None
    elections: int = 0
    decisions: int = 0
    layouts: int = 0

    def document(self) -> dict[str, object]:
        """Return the figures as values for JSON."""
        decision = self.decision or Decision()
        return {
            "decisions": self.decisions,
            "layouts": self.layouts,
            "elections_last_hour": self.elections,
            "waiting": decision.waiting,
            "bytes_per_second": round(decision.total),
            "local_bytes_per_second": round(decision.local),
            "best_local_bytes_per_second": round(decision.best),
        }


class LeaderFollower:
    """The leaders of one controller's cluster.

    ``clock`` counts monotonic seconds, ``wall_clock`` seconds since 1970.
    """

    def __init__(
        self,
        config: FollowConfig,
        locator: RackLocator,
        clock: Callable[[], float],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._config, self._locator, self._clock = config, locator, clock
        self._wall_clock = wall_clock
        self.status = FollowStatus()
        self._history = History()
        self._elections: ElectionTimes | None = None
        self.stand_by()

    def stand_by(self) -> None:
        """Forget what was observed: another controller may move leaders now."""
        self._history = History(elected=self._history.elected)
        self._next = self._next_rates = 0.0
        self._sample: Sample | None = None
        self._rates = ReadRates()
        self._logged: Waiting | None = None
        self.status = replace(self.status, decision=None)

    def run_once(self, admin: AdminConnection, cluster: ControllerCluster) -> Decision | None:
        """Decide and move leaders, if it is time to; return the decision.

        ``cluster`` has the elections of former controllers, which count. Raises RackwardError: also
        what the guard of ``admin`` raises, between two changes.
        """
        if self._clock() < self._next:
            return None
        cpu = time.process_time()
        elections = cluster.elections
        if elections is not None and elections != self._elections:
            # Another controller was active before, or in between.
            self._elections = elections
            self._history = replace(self._history, elected=self._read(elections))
        now = self._observe(admin)
        self._history = self._history.observed(now, self._config)
        decision = decide(now, self._history, self._config)
        # Before the moves, each of which may have been made when an error ends them.
        history = self._history.after(decision, now.at)
        if decision.moves:
            self._elections = self._record(history)
            cluster.write([self._elections])
        self._history = history
        self.status = FollowStatus(
            decision,
            self._history.elections(now.at),
            self.status.decisions + 1,
            self.status.layouts + bool(decision.moves),
        )
        self._log(decision)
        self._next = self._clock() + (time.process_time() - cpu) / CPU_SHARE
        if decision.moves:
            options = ExecutionOptions(stall_timeout=STALL_SECONDS)
            result = Executor(decision.moves, {}, LiveCluster(admin), options, lambda _: None).run()
            for tp, reason in {**result.failed, **result.wrong_leader}.items():
                log.warning("leaders: %s-%d: %s", *tp, reason)
        return decision

    def _read(self, elections: ElectionTimes) -> tuple[tuple[float, TopicPartition], ...]:
        """Return elections with times of this process's clock."""
        now, wall = self._clock(), self._wall_clock()
        return tuple(
            # The clock of another machine may be ahead.
            (now - max(0.0, wall - at), TopicPartition(topic, number))
            for at, topics in elections.elected
            for topic, numbers in topics.items()
            for number in numbers
        )

    def _record(self, history: History) -> ElectionTimes:
        """Return the record of the elections that still count."""
        ahead = self._wall_clock() - self._clock()
        times: dict[float, dict[str, list[int]]] = {}
        for at, tp in history.elected:
            topics = times.setdefault(round(at + ahead, 3), {})
            topics.setdefault(tp.topic, []).append(tp.partition)
        return ElectionTimes(
            tuple(
                (at, {topic: tuple(numbers) for topic, numbers in topics.items()})
                for at, topics in sorted(times.items())
            )
        )

    def _observe(self, admin: AdminConnection) -> Observation:
        reading = read_cluster(admin, self._config.groups, lambda _: None)
        state = replace(reading.state, view=apply_locator(self._locator, reading.state.view))
        if self._clock() >= self._next_rates:
            self._measure(admin, reading)
        owners: dict[str, Racks | None] = {}
        for each in reading.groups:
            group = each.group
            if group is None:
                if each.listed.id in self._history.owners:
                    owners[each.listed.id] = None
            elif group.members and not may_read_followers(group, reading.selectors):
                owners[group.id] = self._racks(group) if is_stable(group) else None
        return Observation(self._clock(), state, owners, self._rates)

    def _racks(self, group: Group) -> Racks:
        readers = current_readers(group, self._config.host_racks)
        return {
            tp: tuple(sorted((reader.rack for reader in each), key=str))
            for tp, each in readers.items()
        }

    def _measure(self, admin: AdminConnection, reading: ClusterReading) -> None:
        sample = read_sample(TolerantReader(admin), reading, lambda _: None)
        if self._sample is not None:
            self._rates = measured_rates(self._sample, sample)
        seconds = self._config.settle if self._sample is None else RATES_SECONDS
        self._sample, self._next_rates = sample, self._clock() + seconds

    def _log(self, decision: Decision) -> None:
        if not decision.moves and decision.waiting is self._logged:
            return
        self._logged = decision.waiting
        log.info(
            "leaders: decision=%s %sbytes_per_second=%.0f local=%.0f local_at_best=%.0f "
            "elections_last_hour=%d",
            "move" if decision.moves else "wait",
            f"moves={len(decision.moves)} gain={decision.gain:.0f} "
            if decision.moves
            else f"reason={decision.waiting} ",
            decision.total,
            decision.local,
            decision.best,
            self.status.elections,
        )
