"""The audit of a cluster's groups: reading it, and a pure function of what was read.

For each group there are three figures of what it reads across racks:

1. *now*: its assignment and the leaders as they are, and the followers that it reads if brokers
   have a replica selector (`placement_core.source_rack`);
2. *assignor*: with rackward's assignor that balances alike, and the same members and leaders. The
   number of off-rack partitions is the minimum of all balanced assignments, proved by the solver;
3. *layout*: with leaders moved as well. Groups that share topics are laid out together, as
   ``rackward leaders plan --group A --group B`` does. A group that rackward cannot assign (of the
   new protocol, a share group, Kafka Streams) keeps its assignment, and leaders move to its
   members. Leaders do not move for a group that may read followers: what a moved leader makes
   local, it reads there already, or does so once its members send their racks.

Topics that the same groups read, directly or through other groups, form a component. Components do
not affect each other but by the number of leaders that a broker may have, so each is solved alone,
with the leaders of all others counted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from assignors import LeaderRackAwareRange
from placement_core import (
    ClusterView,
    InvalidOptionError,
    TopicPartition,
    is_off_rack,
    parse_rack,
    source_rack,
)
from placement_core.audit import Finding, audit
from placement_core.leaders import components, plan_leaders
from rack_traffic.advice import (
    BALANCED_BY_TOPIC,
    MAX_HOSTS,
    PRODUCER_STEP,
    RANGE,
    NextStep,
    can_be_reassigned,
    hosts_of,
    libraries_of,
    rackless_steps,
)
from rack_traffic.output_tables import HOURS_PER_MONTH
from rack_traffic.prices import GB, PriceTable
from rack_traffic.report.format import Currency
from rack_traffic.writers import Writers
from rackward.groups.audit_report import (
    MAX_CLIENT_IDS,
    AuditFinding,
    AuditReport,
    AuditTotals,
    CrossRackReads,
    GroupAudit,
    LibraryMembers,
    RackBrokers,
    RateBasis,
    SelectorBrokers,
    assumptions,
    rounded_reads,
    total_reads,
)
from rackward.groups.explain import ExplainedGroup, check_explainable, explain_group
from rackward.groups.host_racks import HostRacks
from rackward.groups.next_steps import Gains, finding_text, led_by, next_steps
from rackward.groups.readers import (
    AssignmentKind,
    Reader,
    current_readers,
    in_sync_racks,
    may_read_followers,
    member_rack,
    members_of,
    partition_readers,
    readers_of_groups,
    reference_assignor,
    topics_read,
)
from rackward.groups.reading import (
    ClusterReading,
    GroupReading,
    Progress,
    Rates,
    RateSource,
    ReadRates,
    read_cluster,
    read_rates,
    watch_rates,
    with_min_isr,
)
from rackward.groups.writes import cross_rack_writes
from rackward.kafka import AdminConnection
from rackward.kafka.groups import Group, GroupKind
from rackward.topics.health import without_adding_replicas
from rackward.units import matches_name

SECONDS_PER_MONTH = HOURS_PER_MONTH * 3600

Owners = Mapping[TopicPartition, Sequence[Reader]]
"""Partition to the member that reads it; in a share group, the members."""

LeaderRacks = Mapping[TopicPartition, str | None]
"""Partition to the rack of its leader. A partition without one, or with a rackless one: None."""


def audit_cluster(
    admin: AdminConnection,
    groups: Collection[str] = ("*",),
    *,
    prices: PriceTable | None = None,
    currency: str = "$",
    mapping: str | None = None,
    writers: Writers | None = None,
    best: bool = True,
    watch: float | None = None,
    wait: Callable[[float], bool] | None = None,
    progress: Progress = lambda _: None,
) -> AuditReport:
    """Read a cluster and return the audit of its consumer groups. It changes nothing.

    ``admin`` is a connection of `rackward.kafka.connect`.

    groups
        Names; ``*`` matches any characters. A name that matches no group is an error, unless
        groups could not be listed.
    mapping
        Racks of members that send none: ``HOST=RACK,...``, as the option ``--mapping``.
    writers
        Where producers are. Default: in equal parts in all racks that hold replicas.
    best
        False leaves out all but what groups read now.
    watch
        Measure reads for this many seconds; None: estimate them from the logs. ``wait`` waits so
        many seconds and returns whether to end the measurement early.

    Raises RackwardError.
    """
    host_racks = HostRacks.parse_option("--mapping", mapping)
    reading = read_cluster(admin, groups, progress)
    check_patterns(groups, reading)
    if best:
        reading = with_min_isr(admin, reading)
    if watch is None:
        rates, faults = read_rates(admin, reading, progress)
    else:
        rates, faults = watch_rates(admin, reading, watch, wait or _sleep, progress)
    reading = replace(reading, faults=tuple(dict.fromkeys([*reading.faults, *faults])))
    return audit_reading(
        reading,
        rates,
        prices or PriceTable(),
        host_racks,
        currency=currency,
        mapping=mapping,
        writers=writers,
        best=best,
        progress=progress,
    )


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def check_patterns(patterns: Collection[str], reading: ClusterReading) -> None:
    """Raise InvalidOptionError if a name or pattern matches no group of a cluster that was read
    without a fault."""
    for pattern in patterns:
        found = any(matches_name(each.listed.id, pattern) for each in reading.groups)
        if not found and pattern != "*" and not reading.faults:
            raise InvalidOptionError(
                f"{pattern}: the cluster has no such group, or this user may not describe it: "
                f"check the name, or grant this user Describe on group {pattern}"
            )


# ---- The computation, a pure function.


@dataclass
class Tariff:
    """Sums up reads and their cost; the price of each pair of racks is looked up once.

    ``in_sync`` is the result of `rackward.groups.readers.in_sync_racks`.
    """

    prices: PriceTable
    cluster: str
    in_sync: Mapping[TopicPartition, frozenset[str]]
    _pairs: dict[tuple[str | None, str | None], tuple[bool | None, float]] = field(
        default_factory=dict
    )

    def reads(
        self,
        partitions: Iterable[TopicPartition],
        owners: Owners,
        leader_racks: LeaderRacks,
        rates: Rates,
    ) -> CrossRackReads:
        """Return what is read of ``partitions`` from leaders in ``leader_racks``, or followers, by
        ``owners``."""
        # Local, off-rack, unknown.
        counts, sums, cost = [0, 0, 0], [0.0, 0.0, 0.0], 0.0
        for tp in partitions:
            readers = owners.get(tp)
            if not readers:
                counts[2] += 1
                continue
            rate = rates.get(tp, 0.0) / len(readers)
            for reader in readers:
                pair = self.source(tp, reader, leader_racks), reader.rack
                if pair not in self._pairs:
                    self._pairs[pair] = self._price(*pair)
                off_rack, price = self._pairs[pair]
                kind = 2 if off_rack is None else int(off_rack)
                counts[kind] += 1
                sums[kind] += rate
                cost += rate * price
        return rounded_reads(
            (counts[0], counts[1], counts[2]),
            (sums[0], sums[1], sums[2]),
            cost / GB * SECONDS_PER_MONTH,
        )

    def source(self, tp: TopicPartition, reader: Reader, leader_racks: LeaderRacks) -> str | None:
        """Return the rack that a member reads a partition from; None if it is unknown."""
        leader, in_sync = leader_racks[tp], self.in_sync.get(tp, ())
        return source_rack(reader.rack, leader, in_sync, reader.sends_rack)

    def _price(self, source: str | None, member: str | None) -> tuple[bool | None, float]:
        off_rack = is_off_rack(source, member)
        price = self.prices.price(self.cluster, source, member) if off_rack else None
        return off_rack, price or 0.0


def audit_reading(
    reading: ClusterReading,
    rates: ReadRates,
    prices: PriceTable,
    host_racks: HostRacks,
    *,
    currency: str = "$",
    mapping: str | None = None,
    writers: Writers | None = None,
    best: bool = True,
    progress: Progress = lambda _: None,
) -> AuditReport:
    """Return the audit of what was read; ``mapping`` is the text of ``host_racks``."""
    state = reading.state
    tariff = Tariff(prices, state.cluster_id or "", in_sync_racks(state, reading.selectors))
    auditor = _Auditor(reading, rates, tariff, host_racks, mapping)
    rows = [auditor.audit_current(group) for group in reading.groups]
    if best:
        rows = auditor.with_best(rows, progress)
    racks = Counter(broker.rack for broker in state.view.brokers)
    findings: tuple[Finding, ...] = ()
    if best and state.view.replicas:
        progress("Checking the placement")
        view = without_adding_replicas(state, state.view)
        min_isr = 1 if reading.min_isr is None else reading.min_isr
        findings = audit(view, in_sync=state.in_sync, min_isr=min_isr).findings
    selectors = Counter(reading.selectors.get(broker.id) for broker in state.view.brokers)
    basis = [*assumptions(rates, rows, selectors, prices, Currency(currency))]
    writes = writes_after = None
    writers = writers or Writers()
    if best:
        moved = replace(state.view, leaders={**state.view.known_leaders, **auditor.moved_leaders})
        writes, writes_after = (
            cross_rack_writes(view, rates.written, prices, state.cluster_id or "", writers)
            for view in (state.view, moved)
        )
        basis.append(f"{writers.description}, and to write without keys.")
    return AuditReport(
        cluster_id=state.cluster_id,
        racks=tuple(
            RackBrokers(rack, count)
            for rack, count in sorted(
                racks.items(), key=lambda item: (item[0] is None, item[0] or "")
            )
        ),
        topics=len(state.topic_ids),
        partitions=len(state.view.replicas),
        replica_selectors=tuple(SelectorBrokers(name, n) for name, n in selectors.items()),
        rates=RateBasis(
            rates.watched_seconds,
            rates.unsized,
            tuple(basis),
        ),
        currency=currency,
        totals=AuditTotals(
            total_reads(row.now for row in rows) or CrossRackReads(),
            total_reads(row.assignor for row in rows),
            total_reads(row.layout for row in rows),
        ),
        groups=tuple(sorted(rows, key=lambda row: row.order)),
        writes=writes,
        writes_after=writes_after,
        steps=(
            *auditor.rackless_steps(rows if best else ()),
            *((PRODUCER_STEP,) if writes and writes.rack_aware_cost < writes.cost else ()),
        ),
        faults=reading.faults,
        findings=findings,
    )


def rack_flows(
    reading: ClusterReading, rates: ReadRates, host_racks: HostRacks
) -> dict[tuple[str | None, str | None], float]:
    """Return bytes per second by the rack that they are read from and the rack of the reader.

    Of all groups; None stands for an unknown rack.
    """
    tariff = Tariff(PriceTable(), "", in_sync_racks(reading.state, reading.selectors))
    auditor = _Auditor(reading, rates, tariff, host_racks, None)
    flows: dict[tuple[str | None, str | None], float] = {}
    for group in auditor.groups.values():
        of_group = rates.of(group.id)[0]
        for tp, readers in current_readers(group, host_racks).items():
            for reader in readers if tp in auditor.leader_racks else ():
                pair = tariff.source(tp, reader, auditor.leader_racks), reader.rack
                flows[pair] = flows.get(pair, 0.0) + of_group.get(tp, 0.0) / len(readers)
    return flows


@dataclass
class _Auditor:
    reading: ClusterReading
    rates: ReadRates
    tariff: Tariff
    host_racks: HostRacks
    mapping: str | None
    groups: dict[str, Group] = field(default_factory=dict)
    by_topic: dict[str, list[TopicPartition]] = field(default_factory=dict)
    leader_racks: dict[TopicPartition, str | None] = field(default_factory=dict)
    broker_racks: dict[int, str | None] = field(default_factory=dict)
    moved_leaders: dict[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        view = self.view
        self.groups = {each.listed.id: each.group for each in self.reading.groups if each.group}
        self.broker_racks = {
            broker: None if parse_rack(rack) is None else rack
            for broker, rack in view.racks().items()
        }
        for tp in view.replicas:
            self.by_topic.setdefault(tp.topic, []).append(tp)
            self.leader_racks[tp] = self._rack_of(view.leader(tp))

    @property
    def view(self) -> ClusterView:
        return self.reading.state.view

    def _rack_of(self, leader: int | None) -> str | None:
        """Return the rack of a leader; None if it is unknown."""
        return None if leader is None else self.broker_racks.get(leader)

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [tp for topic in topics for tp in self.by_topic.get(topic, ())]

    def view_of(self, topics: Iterable[str]) -> ClusterView:
        """Return the view of some topics."""
        leaders, tps = self.view.known_leaders, self.partitions_of(topics)
        return replace(
            self.view,
            replicas={tp: self.view.replicas[tp] for tp in tps},
            leaders={tp: leaders[tp] for tp in tps if tp in leaders},
        )

    # What groups read now.

    def audit_current(self, reading: GroupReading) -> GroupAudit:
        group = reading.group
        if group is None:
            return GroupAudit(group=reading.listed.id, reason=reading.error)
        topics = sorted(topics_read(group))
        described = GroupAudit(
            group=group.id,
            type=group.type,
            state=group.state,
            protocol=group.protocol,
            reason=_why_not(group),
            libraries=tuple(LibraryMembers(*item) for item in libraries_of(group).items()),
            client_ids=tuple(sorted({member.client_id for member in group.members}))[
                :MAX_CLIENT_IDS
            ],
            led_by=led_by(group),
            topics=tuple(topics),
            missing_topics=tuple(topic for topic in topics if topic not in self.by_topic),
            members=len(group.members),
            assignor_usable=can_be_reassigned(group),
        )
        rates, source = self.rates.of(group.id)
        if not group.members and source is RateSource.COMMITTED:
            return self._audit_manual(described, rates)
        if described.reason is not None:
            return described
        owners = current_readers(group, self.host_racks)
        now = self.tariff.reads(self.partitions_of(topics), owners, self.leader_racks, rates)
        rackless = self._rackless_members(group)
        return structs.replace(
            described,
            rackless_members=len(rackless),
            rackless_hosts=hosts_of(each for each in group.members if each.id in rackless),
            partitions=now.partitions,
            local=now.local,
            unknown=now.unknown_partitions,
            rate=round(now.rate, 3),
            rate_source=source,
            now=now,
        )

    def _audit_manual(self, described: GroupAudit, rates: Rates) -> GroupAudit:
        """Return a group without members whose offsets move: its reads are of unknown racks."""
        read = [tp for tp, rate in rates.items() if rate and tp in self.leader_racks]
        rate = round(sum(rates[tp] for tp in read), 3)
        return structs.replace(
            described,
            reason="its offsets move, and it has no members: its consumers assign partitions to "
            "themselves (assign()), and brokers do not know where they are",
            topics=tuple(sorted({tp.topic for tp in read})),
            partitions=len(read),
            unknown=len(read),
            rate=rate,
            rate_source=RateSource.COMMITTED,
            now=CrossRackReads(unknown_partitions=len(read), unknown=rate),
        )

    def _rackless_members(self, group: Group) -> frozenset[str]:
        return frozenset(
            member.id for member in group.members if member_rack(member, self.host_racks) is None
        )

    def rackless_steps(self, rows: Iterable[GroupAudit]) -> tuple[NextStep, ...]:
        """Return how groups with members that send no rack get them; nothing if all send one."""
        silent = [row for row in rows if row.rackless_members]
        racks = sorted({rack for rack in self.broker_racks.values() if rack})
        if not silent or not racks:
            return ()
        libraries = [each.library for row in silent for each in row.libraries]
        hosts = sorted({host for row in silent for host in row.rackless_hosts})
        return rackless_steps(len(silent), libraries, hosts[:MAX_HOSTS], racks, self.mapping)

    def _reads_followers(self, group: Group) -> bool:
        return may_read_followers(group, self.reading.selectors)

    # What they would read at best.

    def with_best(self, groups: Sequence[GroupAudit], progress: Progress) -> list[GroupAudit]:
        explained: dict[str, ExplainedGroup] = {}
        rows: dict[str, GroupAudit] = {}
        for number, row in enumerate(groups):
            rows[row.group] = row
            if not row.members:
                # What it reads, if anything, nobody can change from here.
                rows[row.group] = structs.replace(row, assignor=row.now, layout=row.now)
            if row.now is None or not row.members:
                continue
            progress(f"Solving assignments: {number:,} of {len(groups):,} groups")
            group = self.groups[row.group]
            explained[row.group] = found = explain_group(
                group,
                self.view_of(row.topics),
                self.host_racks,
                self.tariff.in_sync,
                remedies=False,
            )
            # The members of a share group keep what brokers assign.
            at_best = structs.replace(row.now)
            if group.kind is not GroupKind.SHARE:
                best = _single(partition_readers(found.explanation.best, found.readers))
                at_best = self.tariff.reads(
                    self.partitions_of(row.topics),
                    best,
                    self.leader_racks,
                    self.rates.of(row.group)[0],
                )
            rows[row.group] = structs.replace(
                row,
                assignor=at_best,
                findings=tuple(
                    AuditFinding(each.reason, each.rack, each.count, finding_text(group, each))
                    for each in found.explanation.findings
                ),
            )
        # Leaders do not move for groups that may read followers.
        following = {name for name in explained if self._reads_followers(self.groups[name])}
        parts = groups_sharing_topics(
            {name: rows[name].topics for name in explained if name not in following}
        )
        elsewhere = Counter(row[0] for row in self.view.replicas.values() if row)
        for number, names in enumerate(parts):
            progress(f"Solving leader layouts: {number:,} of {len(parts):,}")
            for row in self._with_layout([rows[name] for name in names], explained, elsewhere):
                rows[row.group] = row
        for name in following:
            row = structs.replace(rows[name], layout=rows[name].reachable)
            rows[name] = structs.replace(row, steps=self._steps(row, explained[name], ()))
        return list(rows.values())

    def _with_layout(
        self,
        rows: Sequence[GroupAudit],
        explained: Mapping[str, ExplainedGroup],
        preferred_leaders: Mapping[int, int],
    ) -> list[GroupAudit]:
        """Return the groups of a component with the layout and the steps."""
        before = [structs.replace(row, layout=row.reachable) for row in rows]
        after = before
        if any(row.reachable.off_rack for row in rows):
            layout = self._layout(rows, preferred_leaders)
            before = [structs.replace(row, layout_proved=layout.proved) for row in before]
            after = [
                structs.replace(row, layout=self._reads_after(row, explained[row.group], layout))
                for row in before
            ]
            if _off_rack(after) >= _off_rack(before):
                after = before
            else:
                self.moved_leaders |= layout.leaders
        names = [row.group for row in rows]
        return [
            structs.replace(
                row,
                steps=self._steps(
                    row, explained[row.group], [name for name in names if name != row.group]
                ),
            )
            for row in after
        ]

    def _layout(self, rows: Sequence[GroupAudit], preferred_leaders: Mapping[int, int]) -> _Layout:
        """Return the best layout for the groups of a component."""
        view = self.view_of(sorted({topic for row in rows for topic in row.topics}))
        elsewhere = Counter(preferred_leaders)
        elsewhere.subtract(row[0] for row in view.replicas.values() if row)
        parts = [
            readers_of_groups(
                [self.groups[row.group]],
                self.host_racks,
                AssignmentKind.REASSIGNED if row.assignor_usable else AssignmentKind.CURRENT,
            )
            for row in rows
        ]
        layout = plan_leaders(
            view,
            [demand for part in parts for demand in part.demands],
            assignments=[assignment for part in parts for assignment in part.assignments],
            max_imbalance=next((p.max_imbalance for p in parts if p.assignments), None),
            only_gains=True,
            other_leaders=elsewhere,
        )
        chosen = {tp: row[0] for tp, row in layout.order.items()}
        leaders = {**view.leaders_or_preferred(), **chosen}
        not_local = {each.name for each in layout.localities if each.after < each.partitions}
        return _Layout(
            leaders=chosen,
            racks={tp: self._rack_of(leaders.get(tp)) for tp in view.replicas},
            all_local=frozenset(
                row.group
                for row, readers in zip(rows, parts, strict=True)
                if not_local.isdisjoint(demand.name for demand in readers.demands)
            ),
            proved=layout.locality_proved,
        )

    def _reads_after(
        self, row: GroupAudit, explained: ExplainedGroup, layout: _Layout
    ) -> CrossRackReads:
        """Return what a group reads with other leaders, after its assignor has followed."""
        group, rates, leader_racks = explained.group, self.rates.of(row.group)[0], layout.racks
        tps = self.partitions_of(row.topics)
        if not row.assignor_usable:
            kept = current_readers(group, self.host_racks)
            return self.tariff.reads(tps, kept, leader_racks, rates)
        if all(leader_racks[tp] == self.leader_racks[tp] for tp in tps):
            return row.reachable
        # Of a range assignor that assigns several topics together, the layout has upper bounds.
        exact = group.protocol not in BALANCED_BY_TOPIC or len(row.topics) == 1
        if exact and row.group in layout.all_local:
            rate = sum(rates.get(tp, 0.0) for tp in tps)
            return rounded_reads((len(tps), 0, 0), (rate, 0.0, 0.0), 0.0)
        by_topic: dict[str, list[str | None]] = {
            topic: [None] * (1 + max(tp.partition for tp in self.by_topic[topic]))
            for topic in row.topics
            if topic in self.by_topic
        }
        for tp in tps:
            by_topic[tp.topic][tp.partition] = leader_racks[tp]
        racks = {member: reader.rack for member, reader in explained.readers.items()}
        plan = reference_assignor(group).assign(members_of(group, racks), by_topic)
        owners = _single(partition_readers(plan.partitions, explained.readers))
        return self.tariff.reads(tps, owners, leader_racks, rates)

    def _steps(
        self, row: GroupAudit, explained: ExplainedGroup, sharing: Sequence[str]
    ) -> tuple[NextStep, ...]:
        assert row.now is not None
        assert row.assignor is not None
        assert row.layout is not None
        group = explained.group
        gains = Gains(
            rackless_brokers=[b for b, rack in self.broker_racks.items() if rack is None],
            racks=sorted({rack for rack in self.broker_racks.values() if rack}),
            rackless_members=self._rackless_members(group),
            members_not_sending_rack=frozenset(
                member.id
                for member in group.members
                if self._reads_followers(group) and parse_rack(member.rack) is None
            ),
            assignor_helps=row.reachable.off_rack < row.now.off_rack,
            layout_helps=row.layout.off_rack < row.reachable.off_rack,
            sharing=sharing,
            mapping=self.mapping,
            co_partitioned=self._cost_of_co_partitioning(row, explained),
        )
        return next_steps(group, gains)

    def _cost_of_co_partitioning(self, row: GroupAudit, explained: ExplainedGroup) -> int:
        """Return how many more partitions rackward's range assignor could read locally."""
        optimum = explained.explanation.optimum
        by_range = explained.group.protocol == RANGE and len(row.topics) > 1
        if not by_range or explained.explanation.off_rack < optimum or not optimum:
            return 0
        racks = {member: reader.rack for member, reader in explained.readers.items()}
        separate = LeaderRackAwareRange(co_partitioned=False).assign(
            members_of(explained.group, racks), explained.view.leader_racks()
        )
        return max(0, optimum - separate.off_rack)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The leaders that a layout chooses, and the racks of all leaders after it; the groups whose
    assignor then reads everything locally."""

    leaders: Mapping[TopicPartition, int]
    racks: LeaderRacks
    all_local: frozenset[str]
    proved: bool


def _single(owners: Mapping[TopicPartition, Reader]) -> Owners:
    return {tp: (reader,) for tp, reader in owners.items()}


def _off_rack(rows: Iterable[GroupAudit]) -> int:
    """Return the sum of off-rack partitions with the layout."""
    return sum(row.layout.off_rack for row in rows if row.layout is not None)


def _why_not(group: Group) -> str | None:
    """Return why a group has no figures; None if it has."""
    try:
        check_explainable(group.id, group)
    except InvalidOptionError as error:
        return str(error).removeprefix(f"group {group.id}").lstrip(" :")
    return None


def groups_sharing_topics(topics_of: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return groups that share topics, directly or through other groups, sorted by name.

    ``topics_of`` has the topics of each group.
    """
    names = sorted(topics_of)
    parts: dict[int, list[str]] = {}
    for name, part in zip(names, components([topics_of[each] for each in names]), strict=True):
        parts.setdefault(part, []).append(name)
    return [tuple(names) for names in parts.values()]
