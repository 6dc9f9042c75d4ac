"""The audit of a cluster's groups: reading it, and a pure function of what was read.

For each group there are three figures of what it reads across racks:

1. *now*: its assignment and the leaders as they are, and the followers that it reads if brokers
   have a replica selector (`placement_core.source_rack`);
2. *assignor*: with rackward's assignor that balances alike, and the same members and leaders. The
   number of off-rack partitions is the minimum of all balanced assignments, proved by the solver;
3. *layout*: with leaders moved as well. Groups that share topics are laid out together, as
   ``rackward leaders plan A B`` does. A group that rackward cannot assign (of the
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
from dataclasses import dataclass, replace

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
from rack_traffic.prices import PriceTable
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
    total_reads,
)
from rackward.groups.explain import ExplainedGroup, explain_group, why_not_explainable
from rackward.groups.host_racks import HostRacks
from rackward.groups.next_steps import finding_text, led_by, next_steps
from rackward.groups.readers import (
    AssignmentKind,
    Reader,
    current_readers,
    in_sync_racks,
    may_read_followers,
    partition_readers,
    rackless_members,
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
    measure_rates,
    read_cluster,
    read_rates,
    with_min_isr,
)
from rackward.groups.writes import GB_A_MONTH, cross_rack_writes
from rackward.kafka import AdminConnection
from rackward.kafka.groups import GroupKind
from rackward.units import matches_name, rackless_last

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
    measure: float | None = None,
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
    measure
        Measure reads for this many seconds; None: estimate them from the logs. ``wait`` waits so
        many seconds and returns whether to end the measurement early.

    Raises RackwardError.
    """
    host_racks = HostRacks.parse_option("--mapping", mapping)
    reading = read_cluster(admin, groups, progress)
    check_patterns(groups, reading)
    if best:
        reading = with_min_isr(admin, reading)
    if measure is None:
        rates, faults = read_rates(admin, reading, progress)
    else:
        rates, faults = measure_rates(admin, reading, measure, wait or _sleep, progress)
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
    auditor = Auditor(reading, rates, prices, host_racks, mapping)
    return auditor.report(currency, writers, best=best, progress=progress)


class Auditor:
    """The groups of a reading; the price of each pair of racks is looked up once."""

    def __init__(
        self,
        reading: ClusterReading,
        rates: ReadRates,
        prices: PriceTable,
        host_racks: HostRacks,
        mapping: str | None = None,
    ) -> None:
        self.reading, self.rates, self.prices = reading, rates, prices
        self.host_racks, self.mapping = host_racks, mapping
        self.view = reading.state.view
        self.cluster = reading.state.cluster_id or ""
        self.groups = {each.listed.id: each.group for each in reading.groups if each.group}
        self.in_sync = in_sync_racks(reading.state, reading.selectors)
        self.broker_racks = {
            broker: None if parse_rack(rack) is None else rack
            for broker, rack in self.view.racks().items()
        }
        self.racks = sorted({rack for rack in self.broker_racks.values() if rack})
        self.by_topic: dict[str, list[TopicPartition]] = {}
        for tp in self.view.replicas:
            self.by_topic.setdefault(tp.topic, []).append(tp)
        self.leader_racks = self._racks_of(self.view.known_leaders, self.view.replicas)
        self.moved_leaders: dict[TopicPartition, int] = {}
        self._pairs: dict[tuple[str | None, str | None], tuple[bool | None, float]] = {}

    def report(
        self,
        currency: str = "$",
        writers: Writers | None = None,
        *,
        best: bool,
        progress: Progress = lambda _: None,
    ) -> AuditReport:
        """Return the audit; ``best`` False leaves out all but what groups read now."""
        reading, rates, prices, view = self.reading, self.rates, self.prices, self.view
        state, writers = reading.state, writers or Writers()
        rows = [self._audit_current(group) for group in reading.groups]
        selectors = Counter(reading.selectors.get(broker.id) for broker in view.brokers)
        basis = [*assumptions(rates, rows, selectors, prices, Currency(currency))]
        findings: tuple[Finding, ...] = ()
        writes = writes_after = None
        steps: tuple[NextStep, ...] = ()
        if best:
            rows = self._with_best(rows, progress)
            moved = replace(view, leaders={**view.known_leaders, **self.moved_leaders})
            writes, writes_after = (
                cross_rack_writes(each, rates.written, prices, self.cluster, writers)
                for each in (view, moved)
            )
            basis.append(f"{writers.description}, and to write without keys.")
            steps = self._rackless_steps(rows)
            if writes.rack_aware_cost < writes.cost:
                steps = (*steps, PRODUCER_STEP)
        if best and view.replicas:
            progress("Checking the placement")
            settled = state.without_adding_replicas(view)
            min_isr = 1 if reading.min_isr is None else reading.min_isr
            findings = audit(settled, in_sync=state.in_sync, min_isr=min_isr).findings
        racks = Counter(broker.rack for broker in view.brokers)
        return AuditReport(
            cluster_id=state.cluster_id,
            racks=tuple(
                RackBrokers(rack, racks[rack]) for rack in sorted(racks, key=rackless_last)
            ),
            topics=len(state.topic_ids),
            partitions=len(view.replicas),
            replica_selectors=tuple(SelectorBrokers(name, n) for name, n in selectors.items()),
            rates=RateBasis(rates.measured_seconds, rates.unsized, tuple(basis)),
            currency=currency,
            totals=AuditTotals(
                total_reads(row.now for row in rows) or CrossRackReads(),
                total_reads(row.assignor for row in rows),
                total_reads(row.layout for row in rows),
            ),
            groups=tuple(sorted(rows, key=lambda row: row.order)),
            writes=writes,
            writes_after=writes_after,
            steps=steps,
            faults=reading.faults,
            findings=findings,
        )

    def flows(self) -> dict[tuple[str | None, str | None], float]:
        """Return bytes per second by the rack that they are read from and the rack of the reader.

        Of all groups; None stands for an unknown rack.
        """
        flows: dict[tuple[str | None, str | None], float] = {}
        for group in self.groups.values():
            rates = self.rates.of(group.id)[0]
            for tp, readers in current_readers(group, self.host_racks).items():
                for reader in readers if tp in self.leader_racks else ():
                    pair = self._source(tp, reader, self.leader_racks), reader.rack
                    flows[pair] = flows.get(pair, 0.0) + rates.get(tp, 0.0) / len(readers)
        return flows

    # What is read, and what it costs.

    def _racks_of(
        self, leaders: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, str | None]:
        """Return the racks of leaders; None where there is no leader, or its rack is unknown."""
        return {tp: self.broker_racks.get(leaders.get(tp, -1)) for tp in partitions}

    def _source(self, tp: TopicPartition, reader: Reader, leader_racks: LeaderRacks) -> str | None:
        """Return the rack that a member reads a partition from; None if it is unknown."""
        in_sync = self.in_sync.get(tp, ())
        return source_rack(reader.rack, leader_racks[tp], in_sync, reader.sends_rack)

    def _reads(
        self, row: GroupAudit, owners: Owners, leader_racks: LeaderRacks | None = None
    ) -> CrossRackReads:
        """Return what ``owners`` read of a group's topics, from leaders or followers.

        ``leader_racks`` are those of other leaders than the present ones.
        """
        leader_racks, rates = leader_racks or self.leader_racks, self.rates.of(row.group)[0]
        # Local, off-rack, unknown.
        counts, sums, cost = [0, 0, 0], [0.0, 0.0, 0.0], 0.0
        for tp in self._partitions_of(row.topics):
            readers = owners.get(tp)
            if not readers:
                counts[2] += 1
                continue
            rate = rates.get(tp, 0.0) / len(readers)
            for reader in readers:
                pair = self._source(tp, reader, leader_racks), reader.rack
                if pair not in self._pairs:
                    off_rack = is_off_rack(*pair)
                    price = self.prices.price(self.cluster, *pair) if off_rack else None
                    self._pairs[pair] = off_rack, price or 0.0
                off_rack, per_gb = self._pairs[pair]
                kind = 2 if off_rack is None else int(off_rack)
                counts[kind] += 1
                sums[kind] += rate
                cost += rate * per_gb
        return CrossRackReads(
            counts[0], counts[1], counts[2], sums[0], sums[1], sums[2], cost * GB_A_MONTH
        ).rounded()

    def _partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [tp for topic in topics for tp in self.by_topic.get(topic, ())]

    def _view_of(self, topics: Iterable[str]) -> ClusterView:
        """Return the view of some topics."""
        leaders, tps = self.view.known_leaders, self._partitions_of(topics)
        return replace(
            self.view,
            replicas={tp: self.view.replicas[tp] for tp in tps},
            leaders={tp: leaders[tp] for tp in tps if tp in leaders},
        )

    # What groups read now.

    def _audit_current(self, reading: GroupReading) -> GroupAudit:
        group = reading.group
        if group is None:
            return GroupAudit(group=reading.listed.id, reason=reading.error)
        topics = tuple(sorted(topics_read(group)))
        described = GroupAudit(
            group=group.id,
            type=group.type,
            state=group.state,
            protocol=group.protocol,
            reason=why_not_explainable(group),
            libraries=tuple(LibraryMembers(*item) for item in libraries_of(group).items()),
            client_ids=tuple(sorted({each.client_id for each in group.members})[:MAX_CLIENT_IDS]),
            led_by=led_by(group),
            topics=topics,
            missing_topics=tuple(topic for topic in topics if topic not in self.by_topic),
            members=len(group.members),
            assignor_usable=can_be_reassigned(group),
        )
        rates, source = self.rates.of(group.id)
        if not group.members and source is RateSource.COMMITTED:
            return self._audit_manual(described, rates)
        if described.reason is not None:
            return described
        now = self._reads(described, current_readers(group, self.host_racks))
        rackless = rackless_members(group, self.host_racks)
        return structs.replace(
            described,
            rackless_members=len(rackless),
            rackless_hosts=hosts_of(rackless),
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

    def _rackless_steps(self, rows: Iterable[GroupAudit]) -> tuple[NextStep, ...]:
        """Return how groups with members that send no rack get them; nothing if all send one."""
        silent = [row for row in rows if row.rackless_members]
        if not silent or not self.racks:
            return ()
        libraries = [each.library for row in silent for each in row.libraries]
        hosts = sorted({host for row in silent for host in row.rackless_hosts})
        return rackless_steps(len(silent), libraries, hosts[:MAX_HOSTS], self.racks, self.mapping)

    # What they would read at best.

    def _with_best(self, groups: Sequence[GroupAudit], progress: Progress) -> list[GroupAudit]:
        rows = {row.group: row for row in groups}
        explained: dict[str, ExplainedGroup] = {}
        for number, row in enumerate(groups):
            if not row.members:
                # What it reads, if anything, nobody can change from here.
                rows[row.group] = structs.replace(row, assignor=row.now, layout=row.now)
            elif row.now is not None:
                progress(f"Solving assignments: {number:,} of {len(groups):,} groups")
                explained[row.group] = found = explain_group(
                    self.groups[row.group],
                    self._view_of(row.topics),
                    self.host_racks,
                    self.in_sync,
                    remedies=False,
                )
                rows[row.group] = self._with_assignor(row, found)
        # Leaders do not move for groups that may read followers.
        selectors = self.reading.selectors
        following = [name for name in explained if may_read_followers(self.groups[name], selectors)]
        for name in following:
            row = structs.replace(rows[name], layout=rows[name].reachable)
            rows[name] = structs.replace(row, steps=self._steps(row, explained[name], ()))
        parts = groups_sharing_topics(
            {name: rows[name].topics for name in explained if name not in following}
        )
        elsewhere = Counter(row[0] for row in self.view.replicas.values() if row)
        for number, names in enumerate(parts):
            progress(f"Solving leader layouts: {number:,} of {len(parts):,}")
            for row in self._with_layout([rows[name] for name in names], explained, elsewhere):
                rows[row.group] = row
        return list(rows.values())

    def _with_assignor(self, row: GroupAudit, explained: ExplainedGroup) -> GroupAudit:
        """Return the group with the best assignment, and why partitions are off-rack now."""
        group, explanation = explained.group, explained.explanation
        assert row.now is not None
        # The members of a share group keep what brokers assign. A copy: it is another figure.
        at_best = structs.replace(row.now)
        if group.kind is not GroupKind.SHARE:
            best = partition_readers(explanation.best, explained.readers)
            at_best = self._reads(row, best)
        findings = (
            AuditFinding(each.reason, each.rack, each.count, finding_text(group, each))
            for each in explanation.findings
        )
        return structs.replace(row, assignor=at_best, findings=tuple(findings))

    def _with_layout(
        self,
        rows: Sequence[GroupAudit],
        explained: Mapping[str, ExplainedGroup],
        preferred_leaders: Mapping[int, int],
    ) -> list[GroupAudit]:
        """Return the groups of a component with the layout and the steps."""
        shown = [structs.replace(row, layout=row.reachable) for row in rows]
        if any(row.reachable.off_rack for row in rows):
            layout = self._layout(rows, preferred_leaders)
            shown = [structs.replace(row, layout_proved=layout.proved) for row in shown]
            after = [
                structs.replace(row, layout=self._reads_after(row, explained[row.group], layout))
                for row in shown
            ]
            if _off_rack(after) < _off_rack(shown):
                shown = after
                self.moved_leaders |= layout.leaders
        names = [row.group for row in rows]
        return [
            structs.replace(
                row,
                steps=self._steps(
                    row, explained[row.group], [name for name in names if name != row.group]
                ),
            )
            for row in shown
        ]

    def _layout(self, rows: Sequence[GroupAudit], preferred_leaders: Mapping[int, int]) -> _Layout:
        """Return the best layout for the groups of a component."""
        view = self._view_of(sorted({topic for row in rows for topic in row.topics}))
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
        not_local = {each.name for each in layout.localities if each.after < each.partitions}
        return _Layout(
            leaders=chosen,
            racks=self._racks_of({**view.known_leaders, **chosen}, view.replicas),
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
        group, leader_racks = explained.group, layout.racks
        if not row.assignor_usable:
            return self._reads(row, current_readers(group, self.host_racks), leader_racks)
        tps = self._partitions_of(row.topics)
        if all(leader_racks[tp] == self.leader_racks[tp] for tp in tps):
            return row.reachable
        # Of a range assignor that assigns several topics together, the layout has upper bounds.
        exact = group.protocol not in BALANCED_BY_TOPIC or len(row.topics) == 1
        if exact and row.group in layout.all_local:
            rates = self.rates.of(row.group)[0]
            rate = sum(rates.get(tp, 0.0) for tp in tps)
            return CrossRackReads(local=len(tps), local_rate=rate).rounded()
        by_topic = explained.view.leader_racks()
        for tp in tps:
            by_topic[tp.topic][tp.partition] = leader_racks[tp]
        plan = reference_assignor(group).assign(explained.members, by_topic)
        owners = partition_readers(plan.partitions, explained.readers)
        return self._reads(row, owners, leader_racks)

    def _steps(
        self, row: GroupAudit, explained: ExplainedGroup, sharing: Sequence[str]
    ) -> tuple[NextStep, ...]:
        assert row.now is not None
        assert row.layout is not None
        group = explained.group
        silent = [each for each in group.members if parse_rack(each.rack) is None]
        return next_steps(
            group,
            rackless_brokers=[b for b, rack in self.broker_racks.items() if rack is None],
            racks=self.racks,
            rackless=explained.rackless,
            not_sending_rack=silent if may_read_followers(group, self.reading.selectors) else (),
            assignor_helps=row.reachable.off_rack < row.now.off_rack,
            layout_helps=row.layout.off_rack < row.reachable.off_rack,
            sharing=sharing,
            mapping=self.mapping,
            co_partitioned=self._cost_of_co_partitioning(row, explained),
        )

    def _cost_of_co_partitioning(self, row: GroupAudit, explained: ExplainedGroup) -> int:
        """Return how many more partitions rackward's range assignor could read locally."""
        optimum = explained.explanation.optimum
        by_range = explained.group.protocol == RANGE and len(row.topics) > 1
        if not by_range or explained.explanation.off_rack < optimum or not optimum:
            return 0
        separate = LeaderRackAwareRange(co_partitioned=False).assign(
            explained.members, explained.view.leader_racks()
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


def _off_rack(rows: Iterable[GroupAudit]) -> int:
    """Return the sum of off-rack partitions with the layout."""
    return sum(row.layout.off_rack for row in rows if row.layout is not None)


def groups_sharing_topics(topics_of: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return groups that share topics, directly or through other groups, sorted by name.

    ``topics_of`` has the topics of each group.
    """
    names = sorted(topics_of)
    parts: dict[int, list[str]] = {}
    for name, part in zip(names, components([topics_of[each] for each in names]), strict=True):
        parts.setdefault(part, []).append(name)
    return [tuple(names) for names in parts.values()]
