"""Runs the steps of the demo with all strategies at once, and measures each step.

All groups read the same topic of the same cluster at the same time, so they all meet the same
leaders, leader moves and broker deaths. A step is an event, then (if the event makes groups
rebalance) a wait until all groups have settled, then a period of steady reading. The bytes sent
from the event until the end of the period are the step's. The producer starts when the groups
have formed, and runs through all steps.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from placement_core import ClusterView, RackwardError, TopicPartition
from rackward.demo import DemoError
from rackward.demo.environment import Environment, TrafficMeter
from rackward.demo.metrics import (
    STRATEGIES,
    DemoResult,
    Event,
    Step,
    StepResult,
    StrategyResult,
    skipped_steps,
    steps_for,
)
from rackward.demo.output import ProgressReporter, StrategyStatus
from rackward.measurement.assignments import AssignmentSnapshot, TrafficMatrix, moved_partitions
from rackward.measurement.clients import FetchSize
from rackward.measurement.groups import GroupProcess, GroupReport, wait_until_settled
from rackward.measurement.layout import choose_leader_moves, spread_replicas
from rackward.measurement.producer import BackgroundProducer

MEMBERS_PER_RACK = 2
MOVED_LEADERS_SHARE = 0.1
FETCH = FetchSize(min_bytes=1024 * 1024, max_wait_ms=1000)
"""One fetch response per broker and second. With one per produced batch, two dozen consumers, the
brokers and the producer would use both of two cores."""
TICK_SECONDS = 0.5
VIEW_MAX_AGE = 2.0
"""Seconds after which leaders are read again for the display."""
CHECKPOINT_TIMEOUT = 60.0
"""Seconds that the cluster may fail to answer at the end of a step."""
RESUME_TIMEOUT = 120.0
"""Seconds until every partition must be read again after a broker's death."""
DRAIN_TIMEOUT = 60.0
"""Seconds until the groups must have read everything. Both take seconds on an idle machine."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run. ``rate`` is in bytes per second; the folder ``logs`` exists."""

    partitions: int
    rate: float
    step_seconds: float
    seed: int
    price_per_gb: float
    logs: Path


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a strategy at the end of a step, with sums since the start."""

    snapshot: AssignmentSnapshot
    revoked: int
    bytes: TrafficMatrix


def step_result(step: Step, before: Checkpoint, after: Checkpoint, seconds: float) -> StepResult:
    """Return the difference of the checkpoints before and after a step."""
    cells = {*before.bytes, *after.bytes}
    return StepResult(
        step=step,
        snapshot=after.snapshot,
        moved=moved_partitions(before.snapshot.assignment, after.snapshot.assignment),
        revoked=after.revoked - before.revoked,
        bytes={cell: after.bytes.get(cell, 0) - before.bytes.get(cell, 0) for cell in cells},
        seconds=seconds,
    )


class DemoRunner:
    """One run of the demo.

    Starts the processes of the groups, which import for seconds: meanwhile a cluster can be
    started. `close` ends them.
    """

    def __init__(self, options: Options, progress: ProgressReporter) -> None:
        self._options = options
        self._progress = progress
        self._random = Random(options.seed)
        self._topic = f"rackward-demo-{options.seed}-{int(time.time())}"
        self._partitions = [TopicPartition(self._topic, i) for i in range(options.partitions)]
        self._groups = [
            GroupProcess(
                strategy,
                self._partitions,
                f"{self._topic}-{strategy.key}",
                options.logs / f"{strategy.key}.log",
                fetch=FETCH,
            )
            for strategy in STRATEGIES
        ]
        self._killed_broker: int | None = None
        self._leaders_of_killed_broker: dict[TopicPartition, int] = {}
        self._environment: Environment
        self._steps: Sequence[Step]
        self._meter: TrafficMeter
        self._producer: BackgroundProducer
        self._view: ClusterView

    def close(self, *, leave_groups: bool = False) -> None:
        """End the processes of the groups, with ``leave_groups`` after members have left."""
        for group in self._groups:
            group.close(leave_group=leave_groups)

    def run(self, environment: Environment) -> DemoResult:
        """Run all steps. Raises DemoError, or errors of the cluster, if a step fails."""
        self._environment = environment
        self._steps = steps_for(own_cluster=environment.cluster is not None)
        with ExitStack() as cleanup:
            self._create_topic(cleanup)
            self._form_groups()
            self._meter = cleanup.enter_context(
                closing(self._environment.traffic_meter(self._topic, self._options.partitions))
            )
            self._producer = cleanup.enter_context(
                closing(
                    BackgroundProducer(
                        self._environment.bootstrap_servers,
                        self._partitions,
                        self._options.rate,
                    )
                )
            )
            return self._run_steps()

    def _create_topic(self, cleanup: ExitStack) -> None:
        count = self._options.partitions
        self._progress.status(f"Creating a topic of {count} partitions with shuffled leaders")
        replicas = spread_replicas(self._environment.racks, count, self._random)
        self._environment.create_topic(self._topic, replicas)
        is_existing = self._environment.cluster is None
        if is_existing:
            groups = [group.group for group in self._groups]
            cleanup.callback(self._environment.delete, self._topic, groups)
        # Members need not leave the groups of a cluster that is about to be removed.
        cleanup.callback(self.close, leave_groups=is_existing)

    def _form_groups(self) -> None:
        racks = self._environment.rack_names
        count = len(racks) * MEMBERS_PER_RACK
        self._progress.status(
            f"Forming {len(self._groups)} consumer groups of {count} members each, "
            f"{MEMBERS_PER_RACK} per rack"
        )
        for number in range(1, MEMBERS_PER_RACK + 1):
            for rack in racks:
                self._join(f"{rack}-{number}", rack)
        wait_until_settled(
            self._groups, self._options.partitions, self._tick_while_forming, time.monotonic
        )

    def _join(self, member: str, rack: str) -> None:
        for group in self._groups:
            group.join(member, rack, self._environment.bootstrap(group.strategy.key, rack))

    def _run_steps(self) -> DemoResult:
        start = time.monotonic()
        checkpoints = self._checkpoints()
        results: dict[str, list[StepResult]] = {key: [] for key in checkpoints}
        for number, step in enumerate(self._steps, start=1):
            step_start = time.monotonic()
            self._run_step(step, f"Step {number} of {len(self._steps)}: {step.title}")
            if step is self._steps[-1]:
                self._drain()
            after = self._checkpoints()
            seconds = time.monotonic() - step_start
            for key, checkpoint in after.items():
                results[key].append(step_result(step, checkpoints[key], checkpoint, seconds))
            checkpoints = after
            self._progress.log(_step_summary(step, self._groups, checkpoints))
        reports = self._reports()
        return DemoResult(
            strategies=tuple(
                StrategyResult(
                    strategy=group.strategy,
                    steps=tuple(results[group.strategy.key]),
                    records_read=reports[group.strategy.key].records,
                )
                for group in self._groups
            ),
            racks=self._environment.rack_names,
            cluster=self._environment.description,
            brokers=len(self._environment.racks),
            partitions=self._options.partitions,
            bytes_counted=self._environment.cluster is not None,
            seed=self._options.seed,
            seconds=time.monotonic() - start,
            produced_bytes=self._producer.bytes,
            produced_records=self._producer.records,
            price_per_gb=self._options.price_per_gb,
            skipped_steps=skipped_steps(self._steps),
        )

    def _run_step(self, step: Step, title: str) -> None:
        """Cause the event, wait until the groups have handled it, and let them read."""
        self._progress.status(title)
        rack = self._environment.rack_names[-1]
        match step.event:
            case Event.LEADERS_MOVE:
                self._move_leaders()
            case Event.MEMBER_LEAVES:
                for group in self._groups:
                    group.leave(f"{rack}-{MEMBERS_PER_RACK}")
            case Event.MEMBER_JOINS:
                self._join(f"{rack}-{MEMBERS_PER_RACK + 1}", rack)
            case Event.BROKER_DIES:
                self._kill_broker()
                self._wait_until_all_partitions_are_read(title)
            case Event.BROKER_RETURNS:
                self._restart_broker()
        if step.rebalances:
            wait_until_settled(self._groups, self._options.partitions, self._tick, time.monotonic)
        self._progress.status(title, f"reading for {self._options.step_seconds:g} s")
        end = time.monotonic() + self._options.step_seconds
        while time.monotonic() < end:
            self._tick(self._reports())

    def _move_leaders(self) -> None:
        assert self._environment.cluster is not None
        view = self._read_view()
        partitions = self._partitions
        moves = choose_leader_moves(
            [view.replicas[partition] for partition in partitions],
            [view.known_leaders[partition] for partition in partitions],
            self._environment.racks,
            MOVED_LEADERS_SHARE,
            self._random,
        )
        self._environment.cluster.move_leaders(
            {partitions[index]: broker for index, broker in moves.items()}
        )

    def _kill_broker(self) -> None:
        assert self._environment.cluster is not None
        broker = self._random.choice(sorted(self._environment.racks))
        self._killed_broker = broker
        leaders = self._read_view().known_leaders
        self._leaders_of_killed_broker = {
            partition: leader for partition, leader in leaders.items() if leader == broker
        }
        # The meter must read the broker's counters before they are lost.
        self._checkpoints()
        self._environment.cluster.kill_broker(broker)
        self._meter.reset_broker(broker)

    def _restart_broker(self) -> None:
        """Start the broker and elect it for its former partitions, as Kafka would in time."""
        assert self._environment.cluster is not None
        assert self._killed_broker is not None
        self._environment.cluster.start_broker(self._killed_broker)
        self._environment.cluster.move_leaders(self._leaders_of_killed_broker)

    def _wait_until_all_partitions_are_read(self, title: str) -> None:
        """Wait until every partition has a new leader, and new records that all groups have read.

        Raises DemoError after RESUME_TIMEOUT seconds.
        """
        self._progress.status(title, "waiting until every partition is read again")
        deadline = time.monotonic() + RESUME_TIMEOUT
        # The offsets are determined once: on a busy machine readers may always lag by seconds.
        offsets: Sequence[int] | None = None
        while offsets is None or self._groups_behind(offsets):
            if offsets is None and self._has_leaders_without(self._killed_broker):
                # One more record than there is, so that writing is possible again, too.
                offsets = [offset + 1 for offset in self._producer.offsets()]
            if time.monotonic() > deadline:
                behind = [] if offsets is None else self._groups_behind(offsets)
                raise DemoError(
                    f"{RESUME_TIMEOUT:.0f} s after broker {self._killed_broker} was killed, some "
                    f"partitions are not read again ({', '.join(behind) or 'no new leader'}): see "
                    "the logs of groups and brokers (--keep-logs)"
                )
            self._tick(self._reports())

    def _drain(self) -> None:
        """Stop producing and wait until every group has read everything."""
        self._progress.status("Reading the remaining records")
        self._producer.stop()
        deadline = time.monotonic() + DRAIN_TIMEOUT
        while behind := self._groups_behind(self._producer.offsets()):
            if time.monotonic() > deadline:
                raise DemoError(
                    f"{', '.join(behind)} did not read all records within {DRAIN_TIMEOUT:.0f} s: "
                    "see the logs of groups and brokers (--keep-logs)"
                )
            self._tick(self._reports())

    def _tick_while_forming(self, reports: Mapping[str, GroupReport]) -> None:
        time.sleep(TICK_SECONDS)
        self._progress.update(
            [
                StrategyStatus(group.strategy, len(reports[group.strategy.key].members), None, {})
                for group in self._groups
            ]
        )

    def _tick(self, reports: Mapping[str, GroupReport]) -> None:
        """Wait TICK_SECONDS and update the display. Raises MeasurementError if the producer has."""
        time.sleep(TICK_SECONDS)
        self._producer.check()
        try:
            if time.monotonic() > self._view_time + VIEW_MAX_AGE:
                self._read_view()
            snapshots = self._snapshots(reports)
            matrices = self._meter.read(snapshots)
        except RackwardError:
            return  # Only the display is delayed; the end of a step reads again.
        statuses = []
        for group in self._groups:
            key = group.strategy.key
            is_settled = reports[key].is_settled(self._options.partitions)
            snapshot = snapshots[key] if is_settled else None
            members = len(reports[key].members)
            statuses.append(StrategyStatus(group.strategy, members, snapshot, matrices[key]))
        self._progress.update(statuses)

    def _checkpoints(self) -> dict[str, Checkpoint]:
        """Return the present state by strategy key."""
        reports = self._reports()
        deadline = time.monotonic() + CHECKPOINT_TIMEOUT
        while True:
            try:
                self._read_view()
                snapshots = self._snapshots(reports)
                matrices = self._meter.read(snapshots)
                break
            except RackwardError:
                if time.monotonic() > deadline:
                    raise
        return {
            key: Checkpoint(snapshots[key], report.revoked, matrices[key])
            for key, report in reports.items()
        }

    def _reports(self) -> dict[str, GroupReport]:
        return {group.strategy.key: group.report() for group in self._groups}

    def _read_view(self) -> ClusterView:
        self._view = self._environment.view(self._topic)
        self._view_time = time.monotonic()
        return self._view

    def _snapshots(self, reports: Mapping[str, GroupReport]) -> dict[str, AssignmentSnapshot]:
        leader_racks: Sequence[str | None] = self._view.leader_racks().get(self._topic, [])
        return {
            group.strategy.key: AssignmentSnapshot(
                dict(group.member_racks), reports[group.strategy.key].assignment, leader_racks
            )
            for group in self._groups
        }

    def _groups_behind(self, offsets: Sequence[int]) -> list[str]:
        """Return the titles of groups that have not read every partition up to ``offsets``."""
        reports = self._reports()
        return [
            group.strategy.title
            for group in self._groups
            if any(
                reports[group.strategy.key].positions.get(partition, 0) < offset
                for partition, offset in enumerate(offsets)
            )
        ]

    def _has_leaders_without(self, broker: int | None) -> bool:
        """Whether every partition has a leader other than ``broker``."""
        leaders = self._view.known_leaders
        return len(leaders) == self._options.partitions and broker not in leaders.values()


def _step_summary(
    step: Step, groups: Sequence[GroupProcess], checkpoints: Mapping[str, Checkpoint]
) -> str:
    """Return one line with the partitions that each group reads from another rack."""
    off_rack: dict[bool, list[str]] = {False: [], True: []}
    for group in groups:
        snapshot = checkpoints[group.strategy.key].snapshot
        off_rack[group.strategy.is_rackward].append(str(snapshot.off_rack))
    return (
        f"{step.title}: read across racks are {' and '.join(off_rack[False])} of "
        f"{len(snapshot.leader_racks)} partitions with kafka-python, "
        f"{' and '.join(off_rack[True])} with rackward"
    )
