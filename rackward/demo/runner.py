"""Plays the story to every strategy at once and measures what happens.

All groups read the same topic of the same cluster at the same time, so that every one of
them meets the same leaders, moves and deaths. A step is an event, then (where the event
makes groups rebalance) the wait until all of them are at rest, then a while of steady
reading; what was sent from the event to the end of that while is the step's. Producing
begins when the groups have formed, and goes on through every step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from placement_core import ClusterView, RackwardError, TopicPartition
from rackward.demo.environment import Meter, Stage, move_some_leaders, spread_replicas
from rackward.demo.groups import (
    DemoError,
    Group,
    GroupReport,
    assignment_of,
    settled,
    wait_until_settled,
)
from rackward.demo.metrics import (
    DemoResult,
    Matrix,
    Standing,
    StepMeasure,
    StrategyResult,
    moved_between,
)
from rackward.demo.output import Glance, Narrator
from rackward.demo.producer import BackgroundProducer
from rackward.demo.steps import STRATEGIES, Event, Step, left_out, told

# ---- Sees how the groups stand: who reads what, where the leaders are, what has been sent.

TICK_SECONDS = 0.5
LOOK_SECONDS = 2.0
"""How old what is known of the leaders may be between the ends of steps."""
PATIENCE_SECONDS = 60.0
"""How long a cluster on a busy machine may fail to answer what a step's end needs to know."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a strategy stood when a step ended; the next step is measured from here."""

    standing: Standing
    interrupted: int
    bytes: Matrix


def measure(step: Step, before: Mark, after: Mark, seconds: float) -> StepMeasure:
    """What a step did, between the mark before it and the one at its end."""
    cells = {*before.bytes, *after.bytes}
    return StepMeasure(
        step=step,
        standing=after.standing,
        moved=moved_between(before.standing.assignment, after.standing.assignment),
        interrupted=after.interrupted - before.interrupted,
        bytes={cell: after.bytes.get(cell, 0) - before.bytes.get(cell, 0) for cell in cells},
        seconds=seconds,
    )


class Observer:
    """Watches ``groups`` read ``topic`` once it is being produced to."""

    def __init__(
        self,
        stage: Stage,
        topic: str,
        partitions: int,
        groups: Sequence[Group],
        meter: Meter,
        producer: BackgroundProducer,
        narrator: Narrator,
    ) -> None:
        self._stage = stage
        self._topic = topic
        self._partitions = partitions
        self._groups = groups
        self._meter = meter
        self._producer = producer
        self._narrator = narrator
        self._view = self.look()

    def look(self) -> ClusterView:
        """The topic's replicas and leaders as of now."""
        self._view = self._stage.view(self._topic)
        self._looked = time.monotonic()
        return self._view

    def reports(self) -> dict[str, GroupReport]:
        """Every strategy's key to what its group says of itself."""
        return {group.strategy.key: group.report() for group in self._groups}

    def tick(self, reports: Mapping[str, GroupReport]) -> None:
        """Half a second passes; show how things stand. Raises where the producer failed."""
        time.sleep(TICK_SECONDS)
        if self._producer.failure is not None:
            raise DemoError(f"the producer failed: {self._producer.failure}")
        try:
            if time.monotonic() > self._looked + LOOK_SECONDS:
                self.look()
            standings = self._standings(reports)
            matrices = self._meter.read(standings)
        except RackwardError:
            return  # Only the picture is a little older for it; a step's end asks again.
        self._narrator.glance(
            [
                Glance(
                    strategy=group.strategy,
                    members=len(reports[group.strategy.key].members),
                    standing=standings[group.strategy.key]
                    if settled(reports[group.strategy.key], self._partitions)
                    else None,
                    bytes=matrices[group.strategy.key],
                )
                for group in self._groups
            ]
        )

    def marks(self) -> dict[str, Mark]:
        """Where every strategy stands now."""
        reports = self.reports()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.look()
                standings = self._standings(reports)
                matrices = self._meter.read(standings)
                break
            except RackwardError:
                if time.monotonic() > deadline:
                    raise
        return {
            key: Mark(standings[key], report.interrupted, matrices[key])
            for key, report in reports.items()
        }

    def late(self, due: Sequence[int]) -> list[str]:
        """The groups that have not read every partition as far as ``due``."""
        reports = self.reports()
        return [
            group.strategy.title
            for group in self._groups
            if any(
                reports[group.strategy.key].positions.get(partition, 0) < offset
                for partition, offset in enumerate(due)
            )
        ]

    def led_without(self, broker: int | None) -> bool:
        """Whether every partition has a leader, and ``broker`` is none of them."""
        leaders = self._view.leaders
        return len(leaders) == self._partitions and broker not in leaders.values()

    def _standings(self, reports: Mapping[str, GroupReport]) -> dict[str, Standing]:
        rows: Sequence[str | None] = self._view.leader_racks().get(self._topic, [])
        return {
            group.strategy.key: Standing(
                dict(group.racks), assignment_of(reports[group.strategy.key]), rows
            )
            for group in self._groups
        }


MEMBERS_PER_RACK = 2
MOVING_SHARE = 0.1
RESUME_SECONDS = 120.0
"""How long readers may take to catch up after a broker's death."""
DRAIN_SECONDS = 60.0
"""How long they may take to read to the end. Seconds on an idle machine, both."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a run may vary. ``rate`` is in bytes per second, ``logs`` a folder that exists."""

    partitions: int
    rate: float
    step_seconds: float
    seed: int
    price_per_gb: float
    logs: Path


class Director:
    """One run of the demo on ``stage``."""

    def __init__(self, stage: Stage, options: Options, narrator: Narrator) -> None:
        self._stage = stage
        self._options = options
        self._narrator = narrator
        self._random = Random(options.seed)
        self._topic = f"rackward-demo-{options.seed}-{int(time.time())}"
        self._steps = told(own_cluster=stage.cluster is not None)
        self._victim: int | None = None
        self._before_death: dict[TopicPartition, int] = {}
        self._groups: list[Group] = []
        self._meter: Meter
        self._observer: Observer
        self._producer: BackgroundProducer

    def run(self) -> DemoResult:
        """The whole story. Raises DemoError, or the cluster's errors, where it breaks off."""
        with ExitStack() as undo:
            self._prepare(undo)
            self._form_groups()
            self._meter = undo.enter_context(
                closing(self._stage.meter(self._topic, self._options.partitions))
            )
            self._producer = undo.enter_context(
                closing(
                    BackgroundProducer(
                        self._stage.bootstrap_servers,
                        self._topic,
                        self._options.partitions,
                        self._options.rate,
                    )
                )
            )
            self._observer = Observer(
                self._stage,
                self._topic,
                self._options.partitions,
                self._groups,
                self._meter,
                self._producer,
                self._narrator,
            )
            return self._play()

    def _prepare(self, undo: ExitStack) -> None:
        """Create the topic and start the groups' processes."""
        count = self._options.partitions
        self._narrator.now(f"Creating a topic of {count} partitions, leaders shuffled evenly")
        self._stage.create_topic(
            self._topic, spread_replicas(self._stage.racks, count, self._random)
        )
        names = {strategy.key: f"{self._topic}-{strategy.key}" for strategy in STRATEGIES}
        if self._stage.cluster is None:
            undo.callback(self._stage.remove, self._topic, list(names.values()))
        for strategy in STRATEGIES:
            log = self._options.logs / f"{strategy.key}.log"
            group = Group(strategy, self._topic, names[strategy.key], log)
            # Our own brokers are about to end as well: nobody is left to say good-bye to.
            undo.callback(group.close, politely=self._stage.cluster is None)
            self._groups.append(group)

    def _form_groups(self) -> None:
        racks = self._stage.rack_names
        count = len(racks) * MEMBERS_PER_RACK
        self._narrator.now(
            f"{len(self._groups)} groups of {count} members form, {MEMBERS_PER_RACK} per rack"
        )
        for number in range(1, MEMBERS_PER_RACK + 1):
            for rack in racks:
                self._join(f"{rack}-{number}", rack)
        wait_until_settled(
            self._groups, self._options.partitions, self._while_forming, time.monotonic
        )

    def _join(self, member: str, rack: str) -> None:
        for group in self._groups:
            group.join(member, rack, self._stage.bootstrap(group.strategy.key, rack))

    def _play(self) -> DemoResult:
        start = time.monotonic()
        marks = self._observer.marks()
        measures: dict[str, list[StepMeasure]] = {mark: [] for mark in marks}
        for number, step in enumerate(self._steps, start=1):
            began = time.monotonic()
            self._act(step, f"Step {number} of {len(self._steps)}: {step.title}")
            if step is self._steps[-1]:
                self._drain()
            after = self._observer.marks()
            seconds = time.monotonic() - began
            for key, mark in after.items():
                measures[key].append(measure(step, marks[key], mark, seconds))
            marks = after
            self._narrator.note(_told(step, self._groups, marks))
        reports = self._observer.reports()
        return DemoResult(
            strategies=tuple(
                StrategyResult(
                    strategy=group.strategy,
                    steps=tuple(measures[group.strategy.key]),
                    records=reports[group.strategy.key].records,
                )
                for group in self._groups
            ),
            racks=self._stage.rack_names,
            cluster=self._stage.name,
            brokers=len(self._stage.racks),
            partitions=self._options.partitions,
            counted=self._stage.cluster is not None,
            seed=self._options.seed,
            seconds=time.monotonic() - start,
            produced_bytes=self._producer.bytes,
            produced_records=self._producer.records,
            price_per_gb=self._options.price_per_gb,
            left_out=left_out(self._steps),
        )

    def _act(self, step: Step, title: str) -> None:
        """Make the event happen, wait until readers have come to terms with it, read on."""
        self._narrator.now(title)
        leaver_rack = self._stage.rack_names[-1]
        if step.event is Event.LEADERS_MOVE:
            self._move_leaders()
        elif step.event is Event.MEMBER_LEAVES:
            for group in self._groups:
                group.leave(f"{leaver_rack}-{MEMBERS_PER_RACK}")
        elif step.event is Event.MEMBER_JOINS:
            self._join(f"{leaver_rack}-{MEMBERS_PER_RACK + 1}", leaver_rack)
        elif step.event is Event.BROKER_DIES:
            self._kill_broker()
            self._wait_until_read(title)
        elif step.event is Event.BROKER_RETURNS:
            self._return_broker()
        if step.rebalances:
            wait_until_settled(
                self._groups, self._options.partitions, self._observer.tick, time.monotonic
            )
        self._narrator.now(title, f"reading for {self._options.step_seconds:g} s")
        end = time.monotonic() + self._options.step_seconds
        while time.monotonic() < end:
            self._observer.tick(self._observer.reports())

    def _move_leaders(self) -> None:
        assert self._stage.cluster is not None
        view = self._observer.look()
        partitions = range(self._options.partitions)
        places = [TopicPartition(self._topic, partition) for partition in partitions]
        moves = move_some_leaders(
            [view.replicas[place] for place in places],
            [view.leaders[place] for place in places],
            self._stage.racks,
            MOVING_SHARE,
            self._random,
        )
        self._stage.cluster.move_leaders(
            {places[partition]: broker for partition, broker in moves.items()}
        )

    def _kill_broker(self) -> None:
        assert self._stage.cluster is not None
        view = self._observer.look()
        self._victim = self._random.choice(sorted(self._stage.racks))
        self._before_death = {
            place: broker for place, broker in view.leaders.items() if broker == self._victim
        }
        # Its counters end with it: what they say now is the last that can be had.
        self._observer.marks()
        self._stage.cluster.kill_broker(self._victim)
        self._meter.forget(self._victim)

    def _return_broker(self) -> None:
        """Start it again and give it back its leaders, as Kafka itself does in time."""
        assert self._stage.cluster is not None
        assert self._victim is not None
        self._stage.cluster.start_broker(self._victim)
        self._stage.cluster.move_leaders(self._before_death)

    def _wait_until_read(self, title: str) -> None:
        """Return when every partition is led, written and read again, in every group."""
        self._narrator.now(title, "until every partition is read again")
        deadline = time.monotonic() + RESUME_SECONDS
        # One mark to reach: on a busy machine readers may be seconds behind all the time.
        due: Sequence[int] | None = None
        while due is None or self._observer.late(due):
            if due is None and self._observer.led_without(self._victim):
                # Of each partition one more than there is: it is written again, too.
                due = [offset + 1 for offset in self._producer.written()]
            if time.monotonic() > deadline:
                late = () if due is None else self._observer.late(due)
                raise DemoError(
                    f"{RESUME_SECONDS:.0f} s after broker {self._victim} died some partitions "
                    f"are not read again by {', '.join(late) or 'anyone'}; see --keep-logs"
                )
            self._observer.tick(self._observer.reports())

    def _drain(self) -> None:
        """Stop producing and let every group read to the end."""
        self._narrator.now("Reading what is left")
        self._producer.stop()
        deadline = time.monotonic() + DRAIN_SECONDS
        while late := self._observer.late(self._producer.written()):
            if time.monotonic() > deadline:
                raise DemoError(f"not read to the end: {', '.join(late)}; see --keep-logs")
            self._observer.tick(self._observer.reports())

    def _while_forming(self, reports: Mapping[str, GroupReport]) -> None:
        time.sleep(TICK_SECONDS)
        self._narrator.glance(
            [
                Glance(group.strategy, len(reports[group.strategy.key].members), None, {})
                for group in self._groups
            ]
        )


def _told(step: Step, groups: Sequence[Group], marks: Mapping[str, Mark]) -> str:
    """One line on how a step ended."""
    off: dict[bool, list[str]] = {False: [], True: []}
    for group in groups:
        standing = marks[group.strategy.key].standing
        off[group.strategy.ours].append(str(standing.off_rack))
    return (
        f"{step.title}: off-rack of {len(standing.leader_racks)}: "
        f"kafka-python {', '.join(off[False])}; rackward {', '.join(off[True])}"
    )
