"""Runs a batch: strategies that read the same topics of a cluster at the same time.

So all groups meet the same leaders and the same events. Members of each strategy have listeners of
their own, whose bytes the brokers count. The producer starts when the groups have formed, and runs
through all steps. A step is an event, a wait until all groups have settled, and a period of steady
reading; what is sent from the event until the end of the period belongs to the step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from random import Random

from assignors import RefreshPolicy
from placement_core import ClusterView, RackwardError, TopicPartition
from placement_core.leaders import ConsumerDemand, plan_leaders
from rackward.bench import BenchError
from rackward.bench.figures import MemberInfo
from rackward.bench.groups import GroupProcess
from rackward.bench.measured import Checkpoint, GroupStatus, Progress, StrategyRun
from rackward.bench.results import Options, Result
from rackward.bench.sites import Site, slot_name
from rackward.bench.strategies import Strategy
from rackward.bench.traffic import RECORD_BYTES, BackgroundProducer, BrokerMeter, TrafficMatrix
from rackward.bench.workloads import (
    MOVED_SHARE,
    Batch,
    Event,
    MemberShape,
    choose_leader_moves,
    divide,
    events,
    replicas,
    traffic_weights,
)
from rackward.kafka import AdminConnection, connect, read_state
from rackward.kafka.metadata import read_replica_sizes
from rackward.kafka.topics import NewPartitions, create_partitions, wait_for_layout
from rackward.lead import GroupLeader, LeadOptions, TakeOver, TakeOverPolicy

TAKE_OVER = TakeOverPolicy(TakeOver.REMOVE, cool_down=2.0, attempts=20)

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


class BatchRunner:
    """A batch. Starts the processes of its groups, which import for seconds; `close` ends them.

    ``refresh`` is when rackward's assignors rebalance after leaders have moved; None: their
    default.
    """

    def __init__(
        self,
        batch: Batch,
        options: Options,
        logs: Path,
        progress: Progress,
        refresh: RefreshPolicy | None = None,
    ) -> None:
        self._batch = batch
        self._workload = batch.workload
        self._options = options
        self._progress = progress
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
                self._start_groups(strategy, logs),
                self._members,
                self._partitions,
            )
            for index, strategy in enumerate(batch.strategies)
        ]
        self._site: Site
        self._admin: AdminConnection
        self._producer: BackgroundProducer | None = None
        self._meter: BrokerMeter | None = None
        self._sampled: Checkpoint | None = None
        self._sampled_at = 0.0
        self._absent: MemberInfo
        self._dead_broker: int | None = None
        self._leaders_of_dead_broker: dict[TopicPartition, int] = {}

    def _start_groups(self, strategy: Strategy, logs: Path) -> list[GroupProcess]:
        groups = []
        for number in range(len(self._workload.groups)):
            key = f"{strategy.key}-{number}"
            groups.append(
                GroupProcess(
                    key,
                    strategy,
                    self._partitions,
                    f"{self._token}-{key}",
                    logs / f"{key}.log",
                    self._refresh,
                )
            )
        return groups

    def close(self, *, leave_groups: bool = False) -> None:
        """End the processes of the groups, with ``leave_groups`` after members have left."""
        for group in self._groups:
            group.close(leave_group=leave_groups)

    def run(self, site: Site) -> list[Result]:
        """Return a result per strategy. Raises BenchError, or errors of the cluster."""
        self._site = site
        steps = [Event.START, *events(self._workload, self._random)]
        with ExitStack() as cleanup:
            self._admin = cleanup.enter_context(connect({}, site.bootstrap_servers))
            self._create_topics(cleanup)
            self._form_groups(cleanup)
            first = before = self._checkpoint()
            if site.cluster is not None:
                self._meter = BrokerMeter(site.cluster, site.racks)
            began = time.time()
            self._producer = cleanup.enter_context(
                closing(
                    BackgroundProducer(
                        site.bootstrap_servers,
                        self._partitions,
                        self._options.rate * 1e6,
                        traffic_weights(self._workload, len(self._partitions), self._random),
                    )
                )
            )
            for number, event in enumerate(steps, start=1):
                title = f"Step {number} of {len(steps)}: {event.title}"
                self._run_step(event, title)
                if number == len(steps):
                    self._drain()
                after = self._checkpoint()
                for run in self._runs:
                    run.finish_step(event, before, after)
                self._progress.log(self._summary(event))
                before = after
            ended = time.time()
            return [
                run.result(self._batch, self._seed, self._producer, first, before, (began, ended))
                for run in self._runs
            ]

    # ---- Topics and groups.

    @property
    def _groups(self) -> list[GroupProcess]:
        return [group for run in self._runs for group in run.groups]

    def _topic(self, name: str) -> str:
        return f"{self._token}-{name}"

    def _topics_of(self, member: MemberShape) -> tuple[str, ...]:
        return tuple(
            self._topic(shape.name)
            for shape in self._workload.topics
            if member.topics is None or shape.name in member.topics
        )

    def _create_topics(self, cleanup: ExitStack) -> None:
        shapes = self._workload.topics
        requested = [
            NewPartitions(
                self._topic(shape.name),
                tuple(replicas(shape, count, self._site.racks, self._random)),
            )
            for shape, count in zip(shapes, self._counts, strict=True)
        ]
        self._progress.status(f"Creating {len(self._partitions)} partitions with shuffled leaders")
        for error in create_partitions(self._admin, requested).values():
            raise error
        if self._site.cluster is None:
            cleanup.callback(self._delete_all)
        # Members need not leave the groups of a cluster that is about to be removed.
        cleanup.callback(self.close, leave_groups=self._site.cluster is None)
        for problem in wait_for_layout(self._admin, requested).values():
            raise BenchError(f"a topic was created, but {problem}")
        if self._batch.strategies[0].leader_layout:
            self._lay_out_leaders()

    def _delete_all(self) -> None:
        """Delete topics and groups from a cluster that was there before."""
        topics = sorted({tp.topic for tp in self._partitions})
        groups = [group.group for group in self._groups]
        self._admin.call("deleting topics", lambda client: client.delete_topics(topics))
        self._admin.call("deleting groups", lambda client: client.delete_groups(groups))

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
        order = plan_leaders(view, demands, only_gains=True).order
        self._site.own_cluster.move_leaders(
            {tp: row[0] for tp, row in order.items() if row[0] != view.known_leaders[tp]}
        )

    def _form_groups(self, cleanup: ExitStack) -> None:
        sizes = " and ".join(str(len(members)) for members in self._members)
        self._progress.status(
            f"Forming {len(self._groups)} consumer groups of {sizes} members each"
        )
        for run in self._runs:
            for group, members in zip(run.groups, self._members, strict=True):
                for name, member in members.items():
                    self._join(run, group, name, member)
        for run in self._runs:
            if run.strategy.led:
                self._lead(run, cleanup)
        self._settle()

    def _join(self, run: StrategyRun, group: GroupProcess, name: str, member: MemberInfo) -> None:
        bootstrap = self._site.bootstrap(run.slot, member.rack)
        group.join(name, member.rack, bootstrap, member.topics)

    def _lead(self, run: StrategyRun, cleanup: ExitStack) -> None:
        """Lead the strategy's groups, once each has a member."""
        options = LeadOptions(take_over=TAKE_OVER, refresh=self._refresh)
        properties = {"bootstrap.servers": self._site.bootstrap_servers}
        leader = cleanup.enter_context(
            GroupLeader(properties, [group.group for group in run.groups], options)
        )
        deadline = time.monotonic() + LEAD_TIMEOUT
        while not all(status.leads for status in leader.status()):
            if time.monotonic() > deadline:
                reasons = "; ".join(
                    str(status.reason or status.state) for status in leader.status()
                )
                raise BenchError(
                    f"{run.strategy.title}: not led within {LEAD_TIMEOUT:g} s: {reasons}"
                )
            time.sleep(TICK_SECONDS)

    # ---- Steps.

    def _run_step(self, event: Event, title: str) -> None:
        """Cause the event, wait until the groups have settled, and let them read."""
        self._progress.status(title)
        if event is not Event.START:
            # Changes happen at any time between two samples, not just after one.
            self._read(self._random.uniform(0, SAMPLE_SECONDS))
        self._cause(event)
        self._settle()
        seconds = self._options.seconds if self._workload.is_at_rest else self._options.step_seconds
        self._progress.status(title, f"reading for {seconds:g} s")
        self._read(seconds)

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
            self._site.racks,
            MOVED_SHARE,
            self._random,
        )
        self._site.own_cluster.move_leaders(
            {self._partitions[number]: broker for number, broker in moves.items()}
        )

    def _kill_broker(self) -> None:
        """Kill a broker, and wait until all groups read new records of every partition again."""
        assert self._meter is not None
        assert self._producer is not None
        broker = self._random.choice(sorted(self._site.racks))
        self._leaders_of_dead_broker = {
            tp: leader for tp, leader in self._view().known_leaders.items() if leader == broker
        }
        # The broker's counters must be read before they are lost.
        self._matrices()
        self._site.own_cluster.kill_broker(broker)
        self._dead_broker = broker
        self._meter.reset_broker(broker)
        deadline = time.monotonic() + RESUME_TIMEOUT
        while not self._has_other_leaders(broker):
            if time.monotonic() > deadline:
                raise BenchError(
                    f"{RESUME_TIMEOUT:g} s after broker {broker} was killed, some partitions have "
                    "no new leader: see the logs of the brokers (--keep-logs)"
                )
            self._tick()
        # One more record than there is, so that writing is possible again, too.
        offsets = [offset + 1 for offset in self._producer.offsets()]
        self._wait_until_read(offsets, RESUME_TIMEOUT)

    def _has_other_leaders(self, broker: int) -> bool:
        """Whether every partition has a leader other than ``broker``."""
        leaders = self._view().known_leaders
        return len(leaders) == len(self._partitions) and broker not in leaders.values()

    def _restart_broker(self) -> None:
        """Start the broker and elect it for its former partitions, as Kafka would in time."""
        assert self._dead_broker is not None
        self._site.own_cluster.start_broker(self._dead_broker)
        self._site.own_cluster.move_leaders(self._leaders_of_dead_broker)
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

    def _drain(self) -> None:
        """Stop producing and wait until every group has read everything."""
        assert self._producer is not None
        self._progress.status("Reading the remaining records")
        self._producer.stop()
        self._wait_until_read(self._producer.offsets(), DRAIN_TIMEOUT)

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
        """Wait a moment, and show what happens. Raises BenchError if the producer has failed."""
        time.sleep(TICK_SECONDS)
        if self._producer is not None:
            self._producer.check()
        # A dead broker fails requests: the end of the step reads again.
        with suppress(RackwardError):
            # Members and leaders change between checkpoints: what is read meanwhile is predicted
            # from positions and snapshots, as the pipeline does from commits and snapshots.
            if (
                self._producer is not None
                and not self._workload.is_at_rest
                and time.monotonic() > self._sampled_at + SAMPLE_SECONDS
            ):
                self._sample(self._snapshot())
            self._progress.update(self._statuses)

    # ---- What is measured.

    def _view(self) -> ClusterView:
        topics = sorted({tp.topic for tp in self._partitions})
        if self._site.cluster is not None:
            return self._site.cluster.view(topics)
        return read_state(self._admin, topics, reassignments=False).view

    def _checkpoint(self) -> Checkpoint:
        """Return the state as soon as all groups are settled."""
        deadline = time.monotonic() + CHECKPOINT_TIMEOUT
        while True:
            self._settle()
            try:
                snapshot = self._snapshot()
                # Leaders that moved may have begun another rebalance since the groups settled.
                if all(
                    report.is_settled(len(self._partitions)) for report in snapshot.reports.values()
                ):
                    self._sample(snapshot)
                    return replace(snapshot, matrices=self._matrices())
            except RackwardError:
                if time.monotonic() > deadline:
                    raise

    def _snapshot(self) -> Checkpoint:
        """Return the present state without the bytes that brokers count."""
        view = self._view()
        offsets = (
            [0] * len(self._partitions) if self._producer is None else self._producer.offsets()
        )
        if self._site.cluster is None:
            sizes = [offset * RECORD_BYTES for offset in offsets]
        else:
            brokers = [broker for broker in view.racks() if broker != self._dead_broker]
            found = read_replica_sizes(self._admin, brokers, self._partitions)
            sizes = [
                max(found[tp, broker].bytes for broker in view.replicas[tp] if broker in brokers)
                for tp in self._partitions
            ]
        reports = {group.key: group.report() for group in self._groups}
        return Checkpoint(view, sizes, offsets, reports)

    def _matrices(self) -> Mapping[str, TrafficMatrix]:
        """Return the bytes so far by slot: counted by brokers, or estimated."""
        if self._meter is None:
            return {run.slot: dict(run.estimated) for run in self._runs}
        return self._meter.read([run.slot for run in self._runs])

    def _statuses(self) -> list[GroupStatus]:
        matrices = self._matrices()
        return [run.status(self._sampled, matrices[run.slot]) for run in self._runs]

    def _sample(self, now: Checkpoint) -> None:
        """Add what every group has read since the last sample."""
        if self._sampled is not None:
            for run in self._runs:
                run.sample(self._sampled, now)
        self._sampled, self._sampled_at = now, time.monotonic()

    def _summary(self, event: Event) -> str:
        """Return one line with the partitions that each strategy reads from another rack."""
        others, own = (
            ", ".join(
                str(run.steps[-1].crossing)
                for run in self._runs
                if run.strategy.is_rackward is is_rackward
            )
            for is_rackward in (False, True)
        )
        counts = "; ".join(filter(None, [others, own and f"with rackward {own}"]))
        return f"{event.title}: read across racks, of {len(self._partitions)} partitions: {counts}"


def _is_behind(group: GroupProcess, offsets: Sequence[int]) -> bool:
    positions = group.report().positions
    return any(positions.get(number, 0) < offset for number, offset in enumerate(offsets))
