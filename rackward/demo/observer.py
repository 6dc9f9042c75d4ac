"""Sees how the groups stand: who reads what, where the leaders are, what has been sent."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placement_core import ClusterView, RackwardError
from rackward.demo.group_process import GroupReport
from rackward.demo.groups import DemoError, Group, assignment_of, settled
from rackward.demo.measures import Matrix, Standing, StepMeasure, moved_between
from rackward.demo.meters import Meter
from rackward.demo.narrator import Glance, Narrator
from rackward.demo.producer import BackgroundProducer
from rackward.demo.stage import Stage
from rackward.demo.story import Step

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
