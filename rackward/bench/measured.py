"""What is measured of a strategy, up to a `Result`, and how its progress is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from placement_core import ClusterView, TopicPartition
from rack_traffic.what_if.cases import GroupCase, ScenarioMetrics
from rackward.bench.figures import (
    MemberInfo,
    bursts,
    bytes_by_racks,
    cross_rack_bytes,
    divided_at_change,
    forecast,
    group_case,
    moved_partitions,
    nested,
    optimum,
    predicted,
    read_figures,
)
from rackward.bench.groups import GroupProcess, GroupReport
from rackward.bench.results import Result, StepResult, widest
from rackward.bench.strategies import Strategy
from rackward.bench.traffic import BackgroundProducer, TrafficMatrix
from rackward.bench.workloads import Batch, Event


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state at the end of a step, or at a sample within it.

    ``sizes`` (bytes) and ``offsets`` are those of the logs, by partition. ``reports`` are by the
    key of a group. ``matrices`` are the bytes since the start, by the slot of a strategy; a sample
    has none.
    """

    view: ClusterView
    sizes: Sequence[int]
    offsets: Sequence[int]
    reports: Mapping[str, GroupReport]
    matrices: Mapping[str, TrafficMatrix] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The groups of a strategy at one moment.

    ``local_partitions`` of all ``partitions`` are read in the rack of their leader, or of the
    replica that is read; None while a group rebalances.
    """

    strategy: Strategy
    members: int
    partitions: int
    local_partitions: int | None
    bytes: TrafficMatrix


class Progress:
    """Writes a line for every event, with the seconds since the start."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._write = write
        self._clock = clock
        self._start = clock()

    def log(self, text: str) -> None:
        """Report an event."""
        self._write(f"{self._clock() - self._start:5.0f} s  {text}")

    def status(self, text: str, detail: str = "") -> None:
        """Report what is going on from now; ``detail`` is about its progress."""
        self.log(f"  {detail} ..." if detail else f"{text} ...")

    def update(self, statuses: Callable[[], Sequence[GroupStatus]]) -> None:
        """Show the present state of the strategies, which only a live display does."""


class StrategyRun:
    """A strategy in a batch: its groups, and what was measured so far.

    ``slot`` is the name under which the brokers count its bytes. ``members`` has, for each group,
    all that have ever been a member, by name.
    """

    def __init__(
        self,
        strategy: Strategy,
        slot: str,
        groups: Sequence[GroupProcess],
        members: Sequence[Mapping[str, MemberInfo]],
        partitions: Sequence[TopicPartition],
    ) -> None:
        self.strategy = strategy
        self.slot = slot
        self.groups = groups
        self.steps: list[StepResult] = []
        self.estimated: Counter[tuple[str, str]] = Counter()
        """Bytes read from leaders so far, by racks, as `sample` finds them."""
        self._members = members
        self._partitions = partitions
        self._predicted: list[ScenarioMetrics] = []
        self._forecast: dict[str, float] = {}
        self._spread = 1.0

    def sample(self, last: Checkpoint, now: Checkpoint) -> None:
        """Add what every group has read since the last sample."""
        for number, group in enumerate(self.groups):
            before, after = last.reports[group.key], now.reports[group.key]
            read = _read_bytes(before.positions, after.positions, now)
            parts = divided_at_change(read, before.assignment, after.assignment)
            for checkpoint, part in zip((last, now), parts, strict=True):
                if any(part):
                    case = self._case(number, checkpoint, part)
                    self._predicted.append(predicted(self.strategy, case))
                    self.estimated.update(bytes_by_racks(case))

    def finish_step(self, event: Event, before: Checkpoint, after: Checkpoint) -> None:
        """Add the step between two checkpoints."""
        growth = [late - early for late, early in zip(after.sizes, before.sizes, strict=True)]
        cases = self._cases(after, growth)
        metrics = [predicted(self.strategy, case) for case in cases]
        matrices = before.matrices[self.slot], after.matrices[self.slot]
        bytes_before, bytes_after = (sum(matrix.values()) for matrix in matrices)
        crossing_before, crossing_after = map(cross_rack_bytes, matrices)
        fewest, most = widest((group.min_partitions, group.max_partitions) for group in metrics)
        self.steps.append(
            StepResult(
                event=event.value,
                crossing=sum(group.off_rack_partitions for group in metrics),
                optimum=sum(map(optimum, cases)),
                moved=sum(
                    moved_partitions(
                        before.reports[group.key].assignment, after.reports[group.key].assignment
                    )
                    for group in self.groups
                ),
                bytes=bytes_after - bytes_before,
                crossing_bytes=crossing_after - crossing_before,
                predicted_bytes=sum(part.bytes for part in self._predicted),
                predicted_crossing_bytes=sum(part.crossing_bytes for part in self._predicted),
                min_partitions=fewest,
                max_partitions=most,
            )
        )
        self._predicted = []
        for group in metrics:
            if group.mean_bytes:
                self._spread = max(self._spread, group.max_bytes / group.mean_bytes)
        if event is Event.START:
            self._forecast = forecast(cases)

    def status(self, at: Checkpoint | None, matrix: TrafficMatrix) -> GroupStatus:
        """Return the present state for a display; leaders are those of the last sample."""
        reports = [group.report() for group in self.groups]
        partitions = len(self._partitions)
        local = None
        if at is not None and all(report.is_settled(partitions) for report in reports):
            metrics = [predicted(self.strategy, case) for case in self._cases(at, at.sizes)]
            local = sum(partitions - group.off_rack_partitions for group in metrics)
        return GroupStatus(
            strategy=self.strategy,
            members=sum(len(report.members) for report in reports),
            partitions=partitions * len(self.groups),
            local_partitions=local,
            bytes=matrix,
        )

    def result(
        self,
        batch: Batch,
        seed: int,
        producer: BackgroundProducer,
        first: Checkpoint,
        last: Checkpoint,
        period: tuple[float, float],
    ) -> Result:
        """Return the result of all steps; ``period`` is in seconds since the epoch."""
        began, ended = period
        sent = dict(zip(self._partitions, producer.sent, strict=True))
        histories = [group.history() for group in self.groups]
        reads = [read_figures(history.reads, sent) for history in histories]
        return Result(
            workload=batch.workload.key,
            strategy=self.strategy.key,
            repetition=batch.repetition,
            seed=seed,
            seconds=round(ended - began, 3),
            produced_bytes=producer.bytes,
            log_bytes=sum(last.sizes) - sum(first.sizes),
            groups=len(self.groups),
            members=sum(map(len, batch.workload.groups)),
            partitions=len(self._partitions),
            bytes=nested(last.matrices[self.slot]),
            steps=self.steps,
            what_if=self._forecast,
            spread=round(self._spread, 4),
            revoked=sum(
                last.reports[group.key].revoked - first.reports[group.key].revoked
                for group in self.groups
            ),
            rebalances=sum(bursts(history.changes, began) for history in histories),
            records_read=sum(figures.records_read for figures in reads),
            records_again=sum(figures.records_again for figures in reads),
            longest_pause=round(max(figures.longest_pause for figures in reads), 3),
            latency_p50=round(max(figures.latency_p50 for figures in reads), 3),
            latency_p99=round(max(figures.latency_p99 for figures in reads), 3),
        )

    def _cases(self, at: Checkpoint, log_bytes: Sequence[int]) -> list[GroupCase]:
        return [self._case(number, at, log_bytes) for number in range(len(self.groups))]

    def _case(self, number: int, at: Checkpoint, log_bytes: Sequence[int]) -> GroupCase:
        """Return a group as the pipeline's what-if has it."""
        key = self.groups[number].key
        return group_case(
            key,
            self.strategy,
            self._members[number],
            at.reports[key].assignment,
            self._partitions,
            at.view,
            log_bytes,
        )


def _read_bytes(before: Mapping[int, int], after: Mapping[int, int], now: Checkpoint) -> list[int]:
    """Return the bytes between two positions of a group, by partition."""
    return [
        round(max(0, after.get(number, 0) - before.get(number, 0)) * size / offset) if offset else 0
        for number, (size, offset) in enumerate(zip(now.sizes, now.offsets, strict=True))
    ]
