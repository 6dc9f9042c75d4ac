"""Runs strategies under workloads: batches of groups that read the same topics of one cluster.

So all groups of a batch meet the same leaders and the same events. Members of each strategy have
listeners of their own, whose bytes the brokers count. The producer starts when the groups have
formed, and runs through all steps. A step is an event, a wait until all groups have settled, and a
period of steady reading; what is sent from the event until the end of the period belongs to it.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from assignors import RefreshPolicy
from assignors.leader_moves import DEFAULT_REFRESH_POLICY
from partitioners.kafka_python import RackAwarePartitioner
from placement_core import ClusterView, RackwardError, TopicPartition
from placement_core.leaders import ConsumerDemand, WriterDemand, plan_leaders
from rack_traffic.what_if.cases import GroupCase, ScenarioMetrics
from rackward.bench import BenchError
from rackward.bench.clients import MemberSpec
from rackward.bench.figures import (
    MemberInfo,
    bursts,
    divided_at_change,
    group_case,
    moved_partitions,
    optimum,
    predicted,
    predicted_writes,
    read_figures,
)
from rackward.bench.groups import GroupProcess, GroupReport
from rackward.bench.java import JavaProducer
from rackward.bench.results import (
    Matrix,
    Options,
    Result,
    ResultFolder,
    StepResult,
    crossing_of,
    total_of,
    widest,
)
from rackward.bench.strategies import Producers, Strategy, select_strategies
from rackward.bench.traffic import (
    RECORD_BYTES,
    BackgroundProducer,
    BrokerMeter,
    Sent,
    client_rack,
    client_racks,
)
from rackward.bench.workloads import (
    MOVED_SHARE,
    Event,
    MemberShape,
    Workload,
    choose_leader_moves,
    divide,
    events,
    replicas,
    select_workloads,
    traffic_weights,
)
from rackward.kafka import AdminConnection, connect
from rackward.kafka.metadata import LATEST, read_log_offsets, read_replica_sizes
from rackward.kafka.topics import NewPartitions, create_partitions, wait_for_layout
from rackward.lead import GroupLeader, LeadOptions, TakeOver, TakeOverPolicy
from rackward.testing import Cluster, DockerCluster, LocalCluster

REFRESH = RefreshPolicy(
    min_gain=0.01, stable_seconds=1.0, unstable_seconds=4.0, min_interval=2.0, check_interval=0.5
)
"""rackward's assignors rebalance within seconds after leaders have moved, not within minutes."""
TAKE_OVER = TakeOverPolicy(TakeOver.REMOVE, cool_down=2.0, attempts=20)

SERVER_PROPERTIES = {
    # There is a listener per strategy and rack: one network thread each is enough.
    "num.network.threads": "1",
    # The members of a group start within a second, so they form it in one rebalance.
    "group.initial.rebalance.delay.ms": "1000",
    # By default 9 s pass until the partitions of a dead broker get new leaders.
    "broker.session.timeout.ms": "6000",
}
SELECTOR = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}

TICK_SECONDS = 0.5
SAMPLE_SECONDS = 1.0
LEAD_TIMEOUT = 120.0
SETTLE_TIMEOUT = 180.0
RESUME_TIMEOUT = 120.0
"""Seconds until every partition must be read again after a broker's death."""
DRAIN_TIMEOUT = 120.0
"""Seconds until the groups must have read everything."""
CHECKPOINT_TIMEOUT = 60.0
"""Seconds that the cluster may fail to answer at the end of a step."""

PRODUCER = "producer"
"""The name under which brokers count the bytes of producers that choose partitions."""

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Batch:
    """Strategies that run at the same time, under one workload, for one repetition."""

    workload: Workload
    repetition: int
    strategies: tuple[Strategy, ...]

    @property
    def follower_fetching(self) -> bool:
        """Whether brokers need a replica selector."""
        return self.strategies[0].follower_fetching


def timed(write: Log) -> Log:
    """Return a log whose lines have the seconds since now."""
    start = time.monotonic()
    return lambda text: write(f"{time.monotonic() - start:5.0f} s  {text}")


# ---- All batches of a run.


def run_all(options: Options, folder: ResultFolder, logs: Path, log: Log) -> list[str]:
    """Run what is missing in the folder; return what failed, a line each.

    ``logs`` is a folder for the logs of groups and brokers. A cluster serves all batches with the
    same configuration of brokers. A batch that fails does not end the run. Raises errors of the
    cluster.
    """
    planned = plan_batches(options, folder)
    failures: list[str] = []
    numbers = itertools.count(1)
    for (_, follower_fetching, racks), of_cluster in itertools.groupby(planned, key=_of_cluster):
        properties = SELECTOR if follower_fetching else {}
        with counting_cluster(
            racks, options.groups_at_once, logs, log, server_properties=properties
        ) as cluster:
            for batch in of_cluster:
                names = ", ".join(strategy.key for strategy in batch.strategies)
                title = f"{batch.workload.key}, repetition {batch.repetition}: {names}"
                log(f"{next(numbers)} of {len(planned)}: {title}")
                try:
                    with closing(BatchRunner(batch, options, logs, log, REFRESH)) as runner:
                        folder.add(runner.run(cluster))
                except BenchError as error:
                    failures.append(f"{title}: {error}")
                    log(f"failed: {error}")
    return failures


def plan_batches(options: Options, folder: ResultFolder) -> list[Batch]:
    """Return the batches of all results that are missing, in the order in which they run.

    Each repetition is complete before the next, and those of one kind of cluster are together.
    Strategies that need other leaders, or other brokers, run apart.
    """
    planned = []
    for workload in select_workloads(options.workloads):
        size = max(1, options.groups_at_once // len(workload.groups))
        for repetition in range(1, options.repetitions + 1):
            kinds: dict[tuple[bool, bool, str], list[Strategy]] = {}
            for strategy in select_strategies(options.strategies):
                if workload.is_possible(strategy) and not folder.has(
                    workload.key, strategy.key, repetition
                ):
                    # Producers that choose partitions write for one strategy only.
                    alone = "" if strategy.producers is Producers.FIXED else strategy.key
                    kind = strategy.follower_fetching, strategy.leader_layout, alone
                    kinds.setdefault(kind, []).append(strategy)
            for missing in kinds.values():
                number = -(-len(missing) // size)
                # Every number-th, so that processes of Java are spread over batches.
                planned += [
                    Batch(workload, repetition, tuple(missing[start::number]))
                    for start in range(number)
                ]
    return sorted(planned, key=_of_cluster)


def _of_cluster(batch: Batch) -> tuple[int, bool, tuple[str, ...]]:
    """Return what is equal for batches that use the same cluster."""
    return batch.repetition, batch.follower_fetching, batch.workload.racks


@contextmanager
def counting_cluster(
    racks: Sequence[str],
    slots: int,
    logs: Path,
    log: Log,
    *,
    docker: bool = False,
    server_properties: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Start a cluster with a broker per item of ``racks``, which counts ``slots`` strategies apart.

    At the end, the logs of the brokers are appended to files in ``logs``.
    """
    log("Starting Kafka ...")
    with (DockerCluster if docker else LocalCluster)(
        racks,
        client_racks=client_racks((*map(slot_name, range(slots)), PRODUCER), sorted(set(racks))),
        server_properties={**SERVER_PROPERTIES, **(server_properties or {})},
        progress=log,
    ) as cluster:
        try:
            yield cluster
        finally:
            for broker in cluster.racks:
                with (logs / f"broker-{broker}.log").open("a", encoding="utf-8") as file:
                    file.write(cluster.log(broker))


@contextmanager
def log_folder(keep: Path | None) -> Iterator[Path]:
    """Yield the folder for logs: ``keep``, or a temporary folder that is removed at the end."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="rackward-logs-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def slot_name(index: int) -> str:
    """Return the name under which brokers count the bytes of a strategy."""
    return f"s{index}"


# ---- What is measured of a strategy.


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
    matrices: Mapping[str, Matrix] = field(default_factory=dict)


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
        self._members = members
        self._partitions = partitions
        self._predicted: list[ScenarioMetrics] = []
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

    def finish_step(self, event: Event, before: Checkpoint, after: Checkpoint) -> None:
        """Add the step between two checkpoints."""
        growth = [late - early for late, early in zip(after.sizes, before.sizes, strict=True)]
        cases = [self._case(number, after, growth) for number in range(len(self.groups))]
        metrics = [predicted(self.strategy, case) for case in cases]
        matrices = before.matrices[self.slot], after.matrices[self.slot]
        bytes_before, bytes_after = map(total_of, matrices)
        crossing_before, crossing_after = map(crossing_of, matrices)
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

    def result(
        self,
        batch: Batch,
        seed: int,
        sent: Sent,
        first: Checkpoint,
        last: Checkpoint,
        period: tuple[float, float],
        predicted_written_share: float,
    ) -> Result:
        """Return the result of all steps; ``period`` is in seconds since the epoch."""
        began, ended = period
        sent_by_partition = dict(zip(self._partitions, sent, strict=True))
        histories = [group.history() for group in self.groups]
        reads = [read_figures(history.reads, sent_by_partition) for history in histories]
        return Result(
            workload=batch.workload.key,
            strategy=self.strategy.key,
            repetition=batch.repetition,
            seed=seed,
            seconds=round(ended - began, 3),
            produced_bytes=(sum(last.offsets) - sum(first.offsets)) * RECORD_BYTES,
            log_bytes=sum(last.sizes) - sum(first.sizes),
            groups=len(self.groups),
            members=sum(map(len, batch.workload.groups)),
            partitions=len(self._partitions),
            bytes=last.matrices[self.slot],
            steps=self.steps,
            spread=round(self._spread, 4),
            revoked=sum(
                last.reports[group.key].revoked - first.reports[group.key].revoked
                for group in self.groups
            ),
            rebalances=sum(bursts(history.changes, began) for history in histories),
            records_read=sum(records for records, _ in reads),
            longest_pause=round(max(pause for _, pause in reads), 3),
            written=last.matrices.get(PRODUCER, {}),
            predicted_written_share=round(predicted_written_share, 4),
        )

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


# ---- A batch.


class BatchRunner:
    """A batch. Starts the processes of its groups, which import for seconds; `close` ends them.

    ``refresh`` is when rackward's assignors rebalance after leaders have moved.
    """

    def __init__(
        self,
        batch: Batch,
        options: Options,
        logs: Path,
        log: Log,
        refresh: RefreshPolicy = DEFAULT_REFRESH_POLICY,
    ) -> None:
        self._batch = batch
        self._workload = batch.workload
        self._options = options
        self._log = log
        self._refresh = refresh
        self._seed = options.seed + batch.repetition - 1
        self._random = Random(f"{self._seed} {batch.workload.key}")
        self._token = f"rackward-{batch.workload.key}-{time.time_ns() // 1_000_000}"
        shapes = self._workload.topics
        self._counts = divide(options.partitions, [shape.share for shape in shapes])
        self._partitions = [
            TopicPartition(self._topic(shape.name), number)
            for shape, count in zip(shapes, self._counts, strict=True)
            for number in range(count)
        ]
        self._members = [
            {
                f"member-{position}": MemberInfo(member.rack, self._topics_of(member))
                for position, member in enumerate(group)
            }
            for group in self._workload.groups
        ]
        self._runs = [
            StrategyRun(
                strategy,
                slot_name(index),
                [
                    GroupProcess(key, strategy, self._partitions, f"{self._token}-{key}", logs)
                    for number in range(len(self._workload.groups))
                    for key in (f"{strategy.key}-{number}",)
                ],
                self._members,
                self._partitions,
            )
            for index, strategy in enumerate(batch.strategies)
        ]
        self._groups = [group for run in self._runs for group in run.groups]
        self._cluster: Cluster
        self._racks: dict[int, str]
        self._admin: AdminConnection
        self._meter: BrokerMeter
        self._producers: list[BackgroundProducer | JavaProducer] = []
        self._sent: Sent = [{} for _ in self._partitions]
        self._sampled: Checkpoint | None = None
        self._sampled_at = 0.0
        self._absent: MemberInfo
        self._dead_broker: int | None = None
        self._leaders_of_dead_broker: dict[TopicPartition, int] = {}

    def close(self) -> None:
        """End the processes of the groups. Members do not leave them first."""
        for group in self._groups:
            group.close()

    def run(self, cluster: Cluster) -> list[Result]:
        """Return a result per strategy. Raises BenchError, or errors of the cluster."""
        self._cluster = cluster
        self._racks = {broker: rack for broker, rack in cluster.racks.items() if rack is not None}
        steps = [Event.START, *events(self._workload, self._random)]
        with ExitStack() as cleanup:
            self._admin = cleanup.enter_context(connect({}, cluster.bootstrap_servers))
            cleanup.callback(self.close)
            self._create_topics()
            self._form_groups(cleanup)
            slots = [run.slot for run in self._runs]
            first = before = replace(self._checkpoint(), matrices={slot: {} for slot in slots})
            self._meter = BrokerMeter(cluster.bytes_out, self._racks)
            written = BrokerMeter(cluster.bytes_in, self._racks)
            began = time.time()
            self._start_producers(cleanup)
            for number, event in enumerate(steps, start=1):
                self._log(f"Step {number} of {len(steps)}: {event.title}")
                self._run_step(event)
                if number == len(steps):
                    for producer in self._producers:
                        producer.stop()
                    self._wait_until_read(self._log_offsets(self._view()), DRAIN_TIMEOUT)
                # The state first: what is sent while the groups settle belongs to this step.
                after = self._checkpoint()
                matrices = self._meter.read(slots)
                if self._workload.writers:
                    matrices |= written.read([PRODUCER])
                after = replace(after, matrices=matrices)
                for run in self._runs:
                    run.finish_step(event, before, after)
                self._log(self._summary())
                before = after
            period = began, time.time()
            share = 0.0
            if self._workload.writers:
                how = self._batch.strategies[0].producers
                share = predicted_writes(how, self._written(), before.view.leader_racks())
            return [
                run.result(self._batch, self._seed, self._sent, first, before, period, share)
                for run in self._runs
            ]

    # ---- Producers.

    def _written(self) -> dict[str, dict[str, float]]:
        """Return the share of all bytes that each rack writes to each topic."""
        traffic = {self._topic(shape.name): shape.traffic for shape in self._workload.topics}
        return {
            topic: {
                rack: share * amount / sum(traffic.values())
                for rack, share in self._workload.writers.items()
            }
            for topic, amount in traffic.items()
        }

    def _start_producers(self, cleanup: ExitStack) -> None:
        rate = self._options.rate * 1e6

        def add(producer: BackgroundProducer | JavaProducer) -> None:
            self._producers.append(cleanup.enter_context(closing(producer)))

        if not self._workload.writers:
            weights = traffic_weights(self._workload, len(self._partitions), self._random)
            bootstrap = self._cluster.bootstrap_servers
            add(
                BackgroundProducer(
                    bootstrap, self._partitions, rate, weights, self._partitions, self._sent
                )
            )
            return
        how = self._batch.strategies[0].producers
        for rack, share in self._workload.writers.items():
            bootstrap = self._cluster.bootstrap(client_rack(PRODUCER, rack))
            if how is Producers.JAVA:
                for topic, by_rack in self._written().items():
                    add(JavaProducer(bootstrap, topic, rate * by_rack[rack], rack))
                continue
            partitioner = RackAwarePartitioner(rack=rack) if how is Producers.RACKWARD else None
            add(
                BackgroundProducer(
                    bootstrap,
                    [(self._topic(shape.name), None) for shape in self._workload.topics],
                    rate * share,
                    [shape.traffic for shape in self._workload.topics],
                    self._partitions,
                    self._sent,
                    partitioner,
                )
            )

    # ---- Topics and groups.

    def _topic(self, name: str) -> str:
        return f"{self._token}-{name}"

    def _topics_of(self, member: MemberShape) -> tuple[str, ...]:
        return tuple(
            self._topic(shape.name)
            for shape in self._workload.topics
            if member.topics is None or shape.name in member.topics
        )

    def _create_topics(self) -> None:
        requested = [
            NewPartitions(
                self._topic(shape.name), tuple(replicas(shape, count, self._racks, self._random))
            )
            for shape, count in zip(self._workload.topics, self._counts, strict=True)
        ]
        self._log(f"Creating {len(self._partitions)} partitions with shuffled leaders ...")
        for error in create_partitions(self._admin, requested).values():
            raise error
        for problem in wait_for_layout(self._admin, requested).values():
            raise BenchError(f"a topic was created, but {problem}")
        if self._batch.strategies[0].leader_layout:
            self._lay_out_leaders()

    def _lay_out_leaders(self) -> None:
        """Move leaders as ``rackward leaders plan`` does for these groups."""
        demands = []
        for number, group in enumerate(self._workload.groups):
            subscriptions: dict[tuple[str, ...], dict[str | None, int]] = {}
            for member in group:
                consumers = subscriptions.setdefault(self._topics_of(member), {})
                consumers[member.rack] = consumers.get(member.rack, 0) + 1
            demands += [
                ConsumerDemand(f"{number}-{index}", frozenset(topics), consumers)
                for index, (topics, consumers) in enumerate(subscriptions.items())
            ]
        view = self._view()
        writers = [
            # In the unit of the readers: each partition is read once.
            WriterDemand(
                "producers",
                {
                    self._topic(shape.name): {
                        rack: share * count for rack, share in self._workload.writers.items()
                    }
                    for shape, count in zip(self._workload.topics, self._counts, strict=True)
                },
                rack_aware=True,
            )
        ]
        order = plan_leaders(
            view, demands, writers=writers if self._workload.writers else (), only_gains=True
        ).order
        self._cluster.move_leaders(
            {tp: row[0] for tp, row in order.items() if row[0] != view.known_leaders[tp]}
        )

    def _form_groups(self, cleanup: ExitStack) -> None:
        sizes = " and ".join(str(len(members)) for members in self._members)
        self._log(f"Forming {len(self._groups)} consumer groups of {sizes} members each ...")
        for run in self._runs:
            for group, members in zip(run.groups, self._members, strict=True):
                for name, member in members.items():
                    self._join(run, group, name, member)
        for run in self._runs:
            if run.strategy.led:
                self._lead(run, cleanup)
        self._settle()

    def _join(self, run: StrategyRun, group: GroupProcess, name: str, member: MemberInfo) -> None:
        group.join(
            MemberSpec(
                name,
                member.rack,
                member.topics,
                group.group,
                self._cluster.bootstrap(client_rack(run.slot, member.rack)),
                run.strategy,
                self._refresh,
                weights={
                    self._topic(shape.name): shape.traffic / count
                    for shape, count in zip(self._workload.topics, self._counts, strict=True)
                },
            )
        )

    def _lead(self, run: StrategyRun, cleanup: ExitStack) -> None:
        """Lead the strategy's groups, once each has a member."""
        options = LeadOptions(take_over=TAKE_OVER, refresh=self._refresh)
        properties = {"bootstrap.servers": self._cluster.bootstrap_servers}
        leader = cleanup.enter_context(
            GroupLeader(properties, [group.group for group in run.groups], options)
        )
        deadline = time.monotonic() + LEAD_TIMEOUT
        while not all(status.leads for status in leader.status()):
            if time.monotonic() > deadline:
                reasons = "; ".join(str(each.reason or each.state) for each in leader.status())
                raise BenchError(
                    f"{run.strategy.title}: not led within {LEAD_TIMEOUT:g} s: {reasons}"
                )
            time.sleep(TICK_SECONDS)

    # ---- Steps.

    def _run_step(self, event: Event) -> None:
        """Cause the event, wait until the groups have settled, and let them read."""
        if event is not Event.START:
            # Changes happen at any time between two samples, not just after one.
            self._read(self._random.uniform(0, SAMPLE_SECONDS))
        self._cause(event)
        self._settle()
        at_rest = self._workload.is_at_rest
        self._read(self._options.seconds if at_rest else self._options.step_seconds)

    def _cause(self, event: Event) -> None:
        """Apply the event to every group."""
        match event:
            case Event.LEADERS_MOVE:
                self._move_leaders()
            case Event.MEMBER_LEAVES:
                name = self._random.choice(sorted(self._runs[0].groups[0].report().members))
                self._absent = self._members[0][name]
                for run in self._runs:
                    run.groups[0].leave(name)
            case Event.MEMBER_JOINS:
                name = f"member-{len(self._members[0])}"
                self._members[0][name] = self._absent
                for run in self._runs:
                    self._join(run, run.groups[0], name, self._absent)
            case Event.BROKER_DIES:
                self._kill_broker()
            case Event.BROKER_RETURNS:
                self._restart_broker()

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

    def _kill_broker(self) -> None:
        """Kill a broker, and wait until all groups read new records of every partition again."""
        broker = self._random.choice(sorted(self._racks))
        self._leaders_of_dead_broker = {
            tp: leader for tp, leader in self._view().known_leaders.items() if leader == broker
        }
        # The broker's counters must be read before they are lost.
        self._meter.read([])
        self._cluster.kill_broker(broker)
        self._dead_broker = broker
        self._meter.reset_broker(broker)
        deadline = time.monotonic() + RESUME_TIMEOUT
        offsets: list[int] = []
        while not offsets:
            if time.monotonic() > deadline:
                raise BenchError(
                    f"{RESUME_TIMEOUT:g} s after broker {broker} was killed, some partitions have "
                    "no new leader: see the logs of the brokers (--keep-logs)"
                )
            self._tick()
            with suppress(RackwardError):
                view = self._view()
                if broker not in view.known_leaders.values():
                    offsets = self._log_offsets(view)
        # One more record than there is, so that writing is possible again, too.
        self._wait_until_read([offset + 1 for offset in offsets], RESUME_TIMEOUT)

    def _restart_broker(self) -> None:
        """Start the broker and elect it for its former partitions, as Kafka would in time."""
        assert self._dead_broker is not None
        self._cluster.start_broker(self._dead_broker)
        self._cluster.move_leaders(self._leaders_of_dead_broker)
        self._dead_broker = None

    def _read(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._tick()
            for group in self._groups:
                group.report()

    def _settle(self) -> None:
        """Wait until every group has settled."""
        deadline = time.monotonic() + SETTLE_TIMEOUT
        while unsettled := [
            group.strategy.title
            for group in self._groups
            if not group.report().is_settled(len(self._partitions))
        ]:
            if time.monotonic() > deadline:
                raise BenchError(
                    f"still rebalancing after {SETTLE_TIMEOUT:.0f} s: {', '.join(unsettled)}; "
                    "see the logs of groups and brokers (--keep-logs)"
                )
            self._tick()

    def _wait_until_read(self, offsets: Sequence[int], seconds: float) -> None:
        """Wait until every group has read each partition up to these offsets."""
        deadline = time.monotonic() + seconds
        while behind := [group.key for group in self._groups if _is_behind(group, offsets)]:
            if time.monotonic() > deadline:
                raise BenchError(
                    f"{', '.join(behind)} did not read all records within {seconds:g} s: see the "
                    "logs of groups and brokers (--keep-logs)"
                )
            self._tick()

    def _tick(self) -> None:
        """Wait a moment. Raises BenchError if a producer has failed."""
        time.sleep(TICK_SECONDS)
        if not self._producers:
            return
        for producer in self._producers:
            producer.check()
        if self._workload.is_at_rest or time.monotonic() < self._sampled_at + SAMPLE_SECONDS:
            return
        # Members and leaders change between checkpoints: what is read meanwhile is predicted from
        # positions and snapshots, as the pipeline does from commits and snapshots. A dead broker
        # fails requests: the end of the step reads again.
        with suppress(RackwardError):
            self._sample(self._snapshot())

    # ---- What is measured.

    def _view(self) -> ClusterView:
        return self._cluster.view(sorted({tp.topic for tp in self._partitions}))

    def _checkpoint(self) -> Checkpoint:
        """Return the state as soon as all groups are settled, without the brokers' counters."""
        deadline = time.monotonic() + CHECKPOINT_TIMEOUT
        while True:
            self._settle()
            try:
                snapshot = self._snapshot()
                # Leaders that moved may have begun another rebalance since the groups settled.
                reports = snapshot.reports.values()
                if all(report.is_settled(len(self._partitions)) for report in reports):
                    self._sample(snapshot)
                    return snapshot
            except RackwardError:
                if time.monotonic() > deadline:
                    raise

    def _snapshot(self) -> Checkpoint:
        """Return the present state without the bytes that brokers count."""
        view = self._view()
        offsets = self._log_offsets(view)
        brokers = [broker for broker in view.racks() if broker != self._dead_broker]
        found = read_replica_sizes(self._admin, brokers, self._partitions)
        sizes = [
            max(found[tp, broker] for broker in view.replicas[tp] if broker in brokers)
            for tp in self._partitions
        ]
        reports = {group.key: group.report() for group in self._groups}
        return Checkpoint(view, sizes, offsets, reports)

    def _log_offsets(self, view: ClusterView) -> list[int]:
        """Return the number of records of each partition. Raises BenchError without a leader."""
        found: dict[TopicPartition, int] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp, leader in view.known_leaders.items():
            by_leader.setdefault(leader, []).append(tp)
        for leader, led in by_leader.items():
            found |= read_log_offsets(self._admin, leader, led, LATEST)
        if missing := [tp for tp in self._partitions if tp not in found]:
            raise BenchError(f"{missing[0]} has no leader that responds")
        return [found[tp] for tp in self._partitions]

    def _sample(self, now: Checkpoint) -> None:
        """Add what every group has read since the last sample."""
        if self._sampled is not None:
            for run in self._runs:
                run.sample(self._sampled, now)
        self._sampled, self._sampled_at = now, time.monotonic()

    def _summary(self) -> str:
        """Return one line with the partitions that each strategy reads from another rack."""
        counts = ", ".join(f"{run.strategy.title} {run.steps[-1].crossing}" for run in self._runs)
        return f"  read across racks, of {len(self._partitions)} partitions: {counts}"


def _is_behind(group: GroupProcess, offsets: Sequence[int]) -> bool:
    positions = group.report().positions
    return any(positions.get(number, 0) < offset for number, offset in enumerate(offsets))
