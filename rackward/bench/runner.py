"""Runs strategies under workloads on clusters of this machine, and writes a result for each.

Strategies run in batches: at the same time, on the same topics of one cluster, so that they meet
the same leaders. Members of each strategy have listeners of their own, whose bytes the brokers
count. A cluster is used for all batches with the same configuration of its brokers.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from assignors import RefreshPolicy
from placement_core import ClusterView, RackwardError, TopicPartition
from placement_core.leaders import ConsumerDemand, plan_leaders
from rack_traffic.what_if.cases import GroupCase, ScenarioMetrics
from rackward.admin import AdminConnection, connect
from rackward.admin.metadata import read_replica_sizes
from rackward.admin.topics import NewPartitions, create_partitions, wait_for_layout
from rackward.bench import BenchError
from rackward.bench.figures import (
    GroupState,
    bursts,
    divided_at_change,
    group_case,
    optimum,
    predicted,
    read_figures,
    what_if,
)
from rackward.bench.results import Matrix, Options, Result, ResultFolder, StepResult
from rackward.bench.strategies import batches, select_strategies
from rackward.bench.workloads import (
    BROKERS,
    MOVED_SHARE,
    RACKS,
    Event,
    Workload,
    divide,
    events,
    replicas,
    select_workloads,
    traffic_weights,
)
from rackward.clusters import Cluster, LocalCluster
from rackward.lead import GroupLeader, LeadOptions, TakeOver, TakeOverPolicy
from rackward.measurement import MeasurementError
from rackward.measurement.assignments import TrafficMatrix, cross_rack_bytes, moved_partitions
from rackward.measurement.clients import FetchSize
from rackward.measurement.groups import GroupProcess, GroupReport, wait_until_settled
from rackward.measurement.layout import choose_leader_moves
from rackward.measurement.meter import BrokerMeter, client_rack, client_racks
from rackward.measurement.producer import BackgroundProducer
from rackward.measurement.strategies import Strategy

FETCH = FetchSize(min_bytes=65536, max_wait_ms=500)

REFRESH = RefreshPolicy(
    min_gain=0.01, stable_seconds=1.0, unstable_seconds=4.0, min_interval=2.0, check_interval=0.5
)
"""Our assignors rebalance within seconds after leaders have moved, not within minutes."""

TAKE_OVER = TakeOverPolicy(TakeOver.REMOVE, cool_down=2.0, attempts=20)

TICK_SECONDS = 0.5
SAMPLE_SECONDS = 1.0
LEAD_TIMEOUT = 120.0
DRAIN_TIMEOUT = 120.0

BATCH_SECONDS, STRATEGY_SECONDS, STEP_SECONDS = 15.0, 2.0, 3.0
"""About how long a batch, each of its strategies, and each of its steps takes beside reading."""

SELECTOR = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Batch:
    """Strategies that run at the same time, under one workload, for one repetition."""

    workload: Workload
    repetition: int
    strategies: tuple[Strategy, ...]

    @property
    def follower_fetching(self) -> bool:
        """Whether brokers have a replica selector."""
        return any(each.follower_fetching for each in self.strategies)

    @property
    def of_cluster(self) -> tuple[int, bool]:
        """Equal for batches that use the same cluster."""
        return self.repetition, self.follower_fetching

    def expected_seconds(self, options: Options) -> float:
        """Return about how long it takes."""
        steps = len(self.workload.events) + self.workload.seeded_events
        reading = steps * (options.step_seconds + STEP_SECONDS) if steps else options.seconds
        return reading + BATCH_SECONDS + STRATEGY_SECONDS * len(self.strategies)


def plan_batches(options: Options, folder: ResultFolder) -> list[Batch]:
    """Return the batches of all results that are missing, in the order in which they run.

    Each repetition is complete before the next, and those of one kind of cluster are together.
    """
    planned = []
    strategies = select_strategies(options.strategies)
    for workload in select_workloads(options.workloads):
        possible = [each for each in strategies if workload.is_possible(each)]
        size = max(1, options.groups_at_once // len(workload.groups))
        for repetition in range(1, options.repetitions + 1):
            missing = folder.missing(workload.key, possible, repetition)
            planned += [
                Batch(workload, repetition, tuple(batch)) for batch in batches(missing, size)
            ]
    return sorted(planned, key=lambda batch: batch.of_cluster)


def run(options: Options, folder: ResultFolder, logs: Path, log: Log) -> list[str]:
    """Run what is missing in the folder; return what failed, a line each.

    ``logs`` is a folder for the logs of groups. A batch that fails does not end the run. Raises
    errors of the cluster.
    """
    planned = plan_batches(options, folder)
    failures: list[str] = []
    done, began = 0, time.monotonic()
    expected = [batch.expected_seconds(options) for batch in planned]
    for (_, follower_fetching), of_cluster in itertools.groupby(
        planned, key=lambda batch: batch.of_cluster
    ):
        with _cluster(follower_fetching, options.groups_at_once, log) as cluster:
            for batch in of_cluster:
                left = sum(expected[done:])
                if done:
                    left *= (time.monotonic() - began) / sum(expected[:done])
                names = ", ".join(each.key for each in batch.strategies)
                log(
                    f"{done + 1} of {len(planned)}: {batch.workload.key}, repetition "
                    f"{batch.repetition}: {names}; {max(1, round(left / 60))} min left"
                )
                try:
                    folder.add(BatchRunner(cluster, batch, options, logs, log).run())
                except (MeasurementError, BenchError) as error:
                    failures.append(f"{batch.workload.key}, {names}: {error}")
                    log(f"failed: {error}")
                done += 1
    return failures


@contextmanager
def _cluster(follower_fetching: bool, groups: int, log: Log) -> Iterator[Cluster]:
    with LocalCluster(
        [BROKERS[broker] for broker in sorted(BROKERS)],
        client_racks=client_racks(map(_slot, range(groups)), RACKS),
        server_properties={
            # There is a listener per strategy and rack: one network thread each is enough.
            "num.network.threads": "1",
            **(SELECTOR if follower_fetching else {}),
        },
        progress=log,
    ) as cluster:
        yield cluster


def _slot(index: int) -> str:
    """Return the name under which the brokers count a strategy of a batch."""
    return f"s{index}"


@dataclass
class _Run:
    """A strategy in a batch."""

    strategy: Strategy
    slot: str
    groups: list[GroupProcess] = field(default_factory=list)
    topics: list[dict[str, tuple[str, ...]]] = field(default_factory=list)
    """Of each group: member to the topics that it subscribes to."""
    steps: list[StepResult] = field(default_factory=list)
    forecast: dict[str, float] = field(default_factory=dict)
    predicted: list[ScenarioMetrics] = field(default_factory=list)
    """Of each group and sample in this step."""
    spread: float = 1.0


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """The state at the end of a step, or at a sample within it.

    ``sizes`` (bytes) and ``offsets`` are those of the logs, by partition; ``racks`` has the members
    of each group, with their racks.
    """

    view: ClusterView
    sizes: list[int]
    offsets: Sequence[int]
    matrices: Mapping[str, TrafficMatrix]
    reports: Mapping[str, GroupReport]
    racks: Mapping[str, Mapping[str, str]]


class BatchRunner:
    """One batch on a cluster that runs."""

    def __init__(
        self, cluster: Cluster, batch: Batch, options: Options, logs: Path, log: Log
    ) -> None:
        self._cluster = cluster
        self._batch = batch
        self._workload = batch.workload
        self._options = options
        self._logs = logs
        self._log = log
        self._seed = options.seed + batch.repetition - 1
        self._random = Random(f"{self._seed} {batch.workload.key}")
        self._token = f"{batch.workload.key}-{time.time_ns() // 1_000_000}"
        self._partitions: list[TopicPartition] = []
        self._runs: list[_Run] = []
        self._racks = {broker: rack for broker, rack in cluster.racks.items() if rack is not None}
        self._producer: BackgroundProducer
        self._admin: AdminConnection
        self._sampled: _Checkpoint | None = None
        self._sampled_at = 0.0

    def run(self) -> list[Result]:
        """Return a result per strategy. Raises MeasurementError, or errors of the cluster."""
        with ExitStack() as cleanup:
            self._admin = cleanup.enter_context(connect({}, self._cluster.bootstrap_servers))
            self._create_topics()
            self._form_groups(cleanup)
            meter = BrokerMeter(self._cluster, self._racks)
            before = self._sampled = self._checkpoint(meter)
            began = time.time()
            self._producer = cleanup.enter_context(
                closing(
                    BackgroundProducer(
                        self._cluster.bootstrap_servers,
                        self._partitions,
                        self._options.rate * 1e6,
                        traffic_weights(self._workload, len(self._partitions), self._random),
                    )
                )
            )
            steps = [Event.START, *events(self._workload, self._random)]
            first = before
            for number, event in enumerate(steps):
                if len(steps) > 1:
                    self._log(f"  step {number + 1} of {len(steps)}: {event.value}")
                if number:
                    # Changes happen at any time between two snapshots, not just after one.
                    self._read(self._random.uniform(0, SAMPLE_SECONDS))
                self._cause(event)
                self._read(
                    self._options.seconds
                    if self._workload.is_at_rest
                    else self._options.step_seconds
                )
                if number:
                    self._settle()
                if number == len(steps) - 1:
                    self._drain()
                after = self._checkpoint(meter)
                self._sample(after)
                for each in self._runs:
                    self._finish_step(each, event, before, after)
                before = after
            seconds = time.time() - began
            return [self._result(each, first, before, began, seconds) for each in self._runs]

    # ---- Topics and groups.

    def _create_topics(self) -> None:
        shapes = self._workload.topics
        counts = divide(self._options.partitions, [shape.share for shape in shapes])
        requested = [
            NewPartitions(self._topic(shape.name), tuple(replicas(shape, count, self._random)))
            for shape, count in zip(shapes, counts, strict=True)
        ]
        self._partitions = [
            TopicPartition(each.topic, number)
            for each, count in zip(requested, counts, strict=True)
            for number in range(count)
        ]
        for error in create_partitions(self._admin, requested).values():
            raise error
        for problem in wait_for_layout(self._admin, requested).values():
            raise BenchError(f"a topic was created, but {problem}")
        if self._batch.strategies[0].leader_layout:
            self._lay_out_leaders()

    def _topic(self, name: str) -> str:
        return f"{name}-{self._token}"

    def _topics_of(self, names: Sequence[str] | None) -> tuple[str, ...]:
        return tuple(
            self._topic(shape.name)
            for shape in self._workload.topics
            if names is None or shape.name in names
        )

    def _lay_out_leaders(self) -> None:
        """Move leaders as ``rackward leaders plan`` does for these groups."""
        demands = []
        for number, group in enumerate(self._workload.groups):
            subscriptions: dict[tuple[str, ...], dict[str | None, int]] = {}
            for member in group:
                consumers = subscriptions.setdefault(self._topics_of(member.topics), {})
                consumers[member.rack] = consumers.get(member.rack, 0) + 1
            demands += [
                ConsumerDemand(f"{number}-{index}", frozenset(topics), consumers)
                for index, (topics, consumers) in enumerate(subscriptions.items())
            ]
        view = self._view()
        order = plan_leaders(view, demands, only_gains=True).order
        self._cluster.move_leaders(
            {tp: row[0] for tp, row in order.items() if row[0] != view.known_leaders[tp]}
        )

    def _form_groups(self, cleanup: ExitStack) -> None:
        self._start_processes(cleanup)
        for run in self._runs:
            for number, shape in enumerate(self._workload.groups):
                for position, member in enumerate(shape):
                    self._join(run, number, f"{position}", member.rack, member.topics)
        for run in self._runs:
            if run.strategy.led:
                self._lead(run, cleanup)
        self._settle()

    def _start_processes(self, cleanup: ExitStack) -> None:
        """Start a process per group. All at once: each imports for seconds before it responds."""
        for index, strategy in enumerate(self._batch.strategies):
            run = _Run(strategy, _slot(index))
            self._runs.append(run)
            for number in range(len(self._workload.groups)):
                key = f"{strategy.key}-{number}"
                group = GroupProcess(
                    strategy,
                    self._partitions,
                    f"{self._token}-{key}",
                    self._logs / f"{key}.log",
                    fetch=FETCH,
                    refresh=REFRESH,
                    key=key,
                )
                # Members need not leave: their processes, and those of Java, end at once.
                cleanup.callback(group.close, leave_group=False)
                run.groups.append(group)
                run.topics.append({})

    def _join(
        self, run: _Run, number: int, name: str, rack: str, topics: Sequence[str] | None
    ) -> None:
        group = run.groups[number]
        subscribed = self._topics_of(topics)
        bootstrap = self._cluster.bootstrap(client_rack(run.slot, rack))
        group.join(name, rack, bootstrap, subscribed)
        run.topics[number][f"{run.strategy.key}-{name}"] = subscribed

    def _lead(self, run: _Run, cleanup: ExitStack) -> None:
        """Lead the strategy's groups, once each has a member."""
        options = LeadOptions(take_over=TAKE_OVER, refresh=REFRESH)
        properties = {"bootstrap.servers": self._cluster.bootstrap_servers}
        leader = cleanup.enter_context(
            GroupLeader(properties, [group.group for group in run.groups], options)
        )
        deadline = time.monotonic() + LEAD_TIMEOUT
        while not all(status.leads for status in leader.status()):
            if time.monotonic() > deadline:
                reasons = "; ".join(
                    str(status.reason or status.state) for status in leader.status()
                )
                raise MeasurementError(
                    f"{run.strategy.title}: not led within {LEAD_TIMEOUT:g} s: {reasons}"
                )
            time.sleep(TICK_SECONDS)

    # ---- Steps.

    def _cause(self, event: Event) -> None:
        """Let it happen to all strategies alike."""
        if event is Event.LEADERS_MOVE:
            self._move_leaders()
        elif event is Event.MEMBER_LEAVES:
            self._absent = self._random.randrange(len(self._workload.groups[0]))
            for run in self._runs:
                run.groups[0].leave(self._name(run, self._absent))
        elif event is Event.MEMBER_JOINS:
            member = self._workload.groups[0][self._absent]
            for run in self._runs:
                number = len(run.topics[0])
                self._join(run, 0, f"{self._absent}-{number}", member.rack, member.topics)

    def _name(self, run: _Run, position: int) -> str:
        """Return the present name of the member at a position, without its strategy."""
        prefix = f"{run.strategy.key}-"
        names = [name.removeprefix(prefix) for name in run.groups[0].member_racks]
        return next(name for name in names if name.partition("-")[0] == str(position))

    def _move_leaders(self) -> None:
        view = self._view()
        moves = choose_leader_moves(
            [view.replicas[tp] for tp in self._partitions],
            [view.known_leaders[tp] for tp in self._partitions],
            self._racks,
            MOVED_SHARE,
            self._random,
        )
        self._cluster.move_leaders(
            {self._partitions[number]: broker for number, broker in moves.items()}
        )

    def _read(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._tick({})
            for run in self._runs:
                for group in run.groups:
                    group.report()

    def _settle(self) -> None:
        groups = [group for run in self._runs for group in run.groups]
        wait_until_settled(groups, len(self._partitions), self._tick, time.monotonic)

    def _tick(self, _reports: Mapping[str, GroupReport]) -> None:
        time.sleep(TICK_SECONDS)
        if self._sampled is None:
            return
        self._producer.check()
        # Members and leaders change between checkpoints: what is read meanwhile is predicted from
        # positions and snapshots, as the pipeline does from commits and snapshots.
        if not self._workload.is_at_rest and time.monotonic() > self._sampled_at + SAMPLE_SECONDS:
            with suppress(RackwardError):
                self._sample(self._snapshot())

    def _drain(self) -> None:
        """Stop producing and wait until every group has read everything."""
        self._producer.stop()
        offsets = self._producer.offsets()
        deadline = time.monotonic() + DRAIN_TIMEOUT
        while behind := self._behind(offsets):
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"{', '.join(behind)} did not read all records within {DRAIN_TIMEOUT:g} s"
                )
            self._tick({})

    def _behind(self, offsets: Sequence[int]) -> list[str]:
        return [
            group.key
            for run in self._runs
            for group in run.groups
            if any(
                group.report().positions.get(number, 0) < offset
                for number, offset in enumerate(offsets)
            )
        ]

    # ---- What is measured.

    def _view(self) -> ClusterView:
        return self._cluster.view(sorted({tp.topic for tp in self._partitions}))

    def _checkpoint(self, meter: BrokerMeter) -> _Checkpoint:
        snapshot = self._snapshot()
        # Leaders that moved may have begun another rebalance since the groups were settled.
        while not all(each.is_settled(len(self._partitions)) for each in snapshot.reports.values()):
            self._settle()
            snapshot = self._snapshot()
        return replace(snapshot, matrices=meter.read([run.slot for run in self._runs]))

    def _snapshot(self) -> _Checkpoint:
        """Return the present state without the bytes that brokers count."""
        view = self._view()
        sizes = read_replica_sizes(self._admin, list(view.racks()), self._partitions)
        groups = [group for run in self._runs for group in run.groups]
        return _Checkpoint(
            view,
            [
                max(sizes[tp, broker].bytes for broker in view.replicas[tp])
                for tp in self._partitions
            ],
            self._producer.offsets() if self._sampled else [0] * len(self._partitions),
            {},
            {group.key: group.report() for group in groups},
            {group.key: dict(group.member_racks) for group in groups},
        )

    def _sample(self, now: _Checkpoint) -> None:
        """Add what every group has read since the last sample."""
        assert self._sampled is not None
        last = self._sampled
        for run in self._runs:
            for number, group in enumerate(run.groups):
                before, after = last.reports[group.key], now.reports[group.key]
                read = _read_bytes(before.positions, after.positions, now)
                parts = divided_at_change(read, before.assignment, after.assignment)
                run.predicted += [
                    predicted(run.strategy, self._case(run, number, checkpoint, part))
                    for checkpoint, part in zip((last, now), parts, strict=True)
                    if any(part)
                ]
        self._sampled, self._sampled_at = now, time.monotonic()

    def _case(self, run: _Run, number: int, at: _Checkpoint, log_bytes: Sequence[int]) -> GroupCase:
        """Return a group of the strategy as the pipeline's what-if has it."""
        key = run.groups[number].key
        state = GroupState(at.racks[key], run.topics[number], at.reports[key].assignment)
        return group_case(key, run.strategy, state, self._partitions, at.view, log_bytes)

    def _finish_step(
        self, run: _Run, event: Event, before: _Checkpoint, after: _Checkpoint
    ) -> None:
        growth = _growth(before, after)
        cases = [self._case(run, number, after, growth) for number in range(len(run.groups))]
        metrics = [predicted(run.strategy, case) for case in cases]
        total = sum(after.matrices[run.slot].values()) - sum(before.matrices[run.slot].values())
        crossing = cross_rack_bytes(after.matrices[run.slot]) - cross_rack_bytes(
            before.matrices[run.slot]
        )
        fewest, most = max(
            ((each.min_partitions, each.max_partitions) for each in metrics),
            key=lambda loads: loads[1] - loads[0],
        )
        run.steps.append(
            StepResult(
                event=event.value,
                crossing=sum(each.off_rack_partitions for each in metrics),
                optimum=sum(map(optimum, cases)),
                moved=sum(
                    moved_partitions(
                        before.reports[group.key].assignment, after.reports[group.key].assignment
                    )
                    for group in run.groups
                ),
                bytes=total,
                crossing_bytes=crossing,
                predicted_bytes=sum(each.bytes for each in run.predicted),
                predicted_crossing_bytes=sum(each.crossing_bytes for each in run.predicted),
                min_partitions=fewest,
                max_partitions=most,
            )
        )
        run.predicted = []
        for each in metrics:
            if each.mean_bytes:
                run.spread = max(run.spread, each.max_bytes / each.mean_bytes)
        if event is Event.START:
            scenarios = what_if(cases)
            run.forecast = {
                name: round(
                    sum(each[name].crossing_bytes for each in scenarios)
                    / max(1, sum(each[name].bytes for each in scenarios)),
                    6,
                )
                for name in scenarios[0]
            }

    def _result(
        self, run: _Run, first: _Checkpoint, last: _Checkpoint, began: float, seconds: float
    ) -> Result:
        histories = [group.history() for group in run.groups]
        reads = [read_figures(history.reads, self._producer.sent) for history in histories]
        revoked = sum(
            last.reports[group.key].revoked - first.reports[group.key].revoked
            for group in run.groups
        )
        return Result(
            workload=self._workload.key,
            strategy=run.strategy.key,
            repetition=self._batch.repetition,
            seed=self._seed,
            seconds=round(seconds, 3),
            produced_bytes=self._producer.bytes,
            log_bytes=sum(last.sizes) - sum(first.sizes),
            groups=len(run.groups),
            members=sum(map(len, self._workload.groups)),
            partitions=len(self._partitions),
            bytes=_nested(last.matrices[run.slot]),
            steps=run.steps,
            what_if=run.forecast,
            spread=round(run.spread, 4),
            revoked=revoked,
            rebalances=sum(bursts(history.changes, began) for history in histories),
            records_read=sum(each.records_read for each in reads),
            records_again=sum(each.records_again for each in reads),
            longest_pause=round(max(each.longest_pause for each in reads), 3),
            latency_p50=round(max(each.latency_p50 for each in reads), 3),
            latency_p99=round(max(each.latency_p99 for each in reads), 3),
        )


def _growth(before: _Checkpoint, after: _Checkpoint) -> list[int]:
    return [late - early for late, early in zip(after.sizes, before.sizes, strict=True)]


def _read_bytes(before: Mapping[int, int], after: Mapping[int, int], now: _Checkpoint) -> list[int]:
    """Return the bytes between two positions of a group, by partition."""
    return [
        round(max(0, after.get(number, 0) - before.get(number, 0)) * size / offset) if offset else 0
        for number, (size, offset) in enumerate(zip(now.sizes, now.offsets, strict=True))
    ]


def _nested(matrix: TrafficMatrix) -> Matrix:
    nested: Matrix = {}
    for (reader, broker), size in sorted(matrix.items()):
        nested.setdefault(reader, {})[broker] = size
    return nested
