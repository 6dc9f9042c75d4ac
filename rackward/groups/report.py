"""The audit of a cluster's groups: a pure function of what was read.

For each group there are three figures of what it reads across racks:

1. *now*: its assignment and the leaders as they are, and the followers that it reads if brokers
   have a replica selector (`placement_core.source_rack`);
2. *assignor*: with rackward's assignor that balances alike, and the same members and leaders. The
   number of off-rack partitions is the minimum of all balanced assignments, proved by the solver;
3. *layout*: with leaders moved as well. Groups that share topics are laid out together, as
   ``rackward leaders plan --group A --group B`` does. A group that no assignor of ours can serve
   (the new protocol, Kafka Streams) keeps its assignment, and leaders move to its members. Leaders
   do not move for a group that may read followers: what a moved leader makes local, it reads there
   already, or does so once its members send their racks.

Topics that the same groups read, directly or through other groups, form a component. Components do
not affect each other but by the number of leaders that a broker may have, so each is solved alone,
with the leaders of all others counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assignors import LeaderRackAwareRange
from assignors.explain import LocalityFinding
from placement_core import (
    LEADER_READING_PROTOCOLS,
    ClusterView,
    InvalidOptionError,
    TopicPartition,
    parse_rack,
    source_rack,
)
from placement_core.audit import Finding, audit
from placement_core.leaders import components, plan_leaders
from rack_traffic.output_tables import HOURS_PER_MONTH
from rack_traffic.prices import GB, PriceTable
from rackward.groups.explain import (
    ExplainedGroup,
    check_explainable,
    explain_group,
    members_of,
    reference_assignor,
)
from rackward.groups.host_racks import HostRacks
from rackward.groups.rates import Rates, RateSource, ReadRates
from rackward.groups.reader import ClusterReading, GroupReading
from rackward.groups.readers import (
    BALANCED_BY_TOPIC,
    RANGE,
    AssignmentKind,
    Reader,
    in_sync_racks,
    member_rack,
    partition_readers,
    readers_by_id,
    readers_of_groups,
    topics_read,
)
from rackward.groups.steps import Gains, LedBy, Library, Step, can_follow, led_by, libraries_of
from rackward.groups.steps import next_steps as steps_of
from rackward.kafka.groups import Group
from rackward.topics.health import without_adding_replicas

SECONDS_PER_MONTH = HOURS_PER_MONTH * 3600

Owners = Mapping[TopicPartition, Reader]
"""Partition to the one member that reads it."""

LeaderRacks = Mapping[TopicPartition, str | None]
"""Partition to the rack of its leader. A partition without one, or with a rackless one: None."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What a group reads with one assignment and one layout of leaders.

    off_rack
        Partitions that are read from a rack that is known and is not their member's.
    crossing
        Bytes per second that are read from another rack; both racks are known.
    unknown
        Bytes per second of which the member's rack, or the one that it reads from, is unknown.
    cost
        Price of ``crossing`` per month, in the currency of the price table.
    """

    off_rack: int = 0
    crossing: float = 0.0
    unknown: float = 0.0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupAudit:
    """One group.

    group
        None if it could not be described.
    reason
        Why there are no figures; None if there are.
    libraries, led_by
        See `rackward.groups.steps`.
    topics, missing_topics
        The topics that it reads, and those among them that do not exist, or may not be described.
    partitions, local, unknown
        Numbers of partitions of ``topics``: all, those read in their member's rack, and those that
        no member reads or that are read from an unknown rack.
    rackless_members
        Number of members whose rack is unknown.
    rate, rate_source
        Bytes per second that it reads, and where that comes from.
    now, assignor, layout
        See the module. ``layout`` is that of ``assignor`` if leaders need not move.
    layout_proved
        Whether it is proved that no layout is more local.
    findings
        Why partitions are off-rack, without remedies.
    steps
        What to do next, in order.
    """

    id: str
    group: Group | None = None
    reason: str | None = None
    libraries: Mapping[Library | None, int] = field(default_factory=dict)
    led_by: LedBy | None = None
    topics: tuple[str, ...] = ()
    missing_topics: tuple[str, ...] = ()
    partitions: int = 0
    local: int = 0
    unknown: int = 0
    rackless_members: int = 0
    rate: float = 0.0
    rate_source: RateSource | None = None
    now: Reads | None = None
    assignor: Reads | None = None
    layout: Reads | None = None
    layout_proved: bool = True
    findings: tuple[LocalityFinding, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def order(self) -> tuple[bool, float, float, int, str]:
        """A sort key: what costs most, then what crosses most; groups without figures are last."""
        if self.now is None:
            return True, 0.0, 0.0, 0, self.id
        return False, -self.now.cost, -self.now.crossing, -self.now.off_rack, self.id


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The audit of a cluster.

    racks
        Rack to its number of live brokers; None (brokers without a rack) is last.
    groups
        Sorted by `GroupAudit.order`.
    rates
        The rates that the figures rest on.
    findings
        Findings of ``rackward placement check``, the most severe first.
    faults
        Lines about what could not be read.
    selectors
        replica.selector.class to the number of live brokers that have it; empty: it is not set.
        None: it could not be read.
    """

    cluster_id: str | None
    racks: Mapping[str | None, int]
    topics: int
    partitions: int
    groups: tuple[GroupAudit, ...]
    rates: ReadRates
    findings: tuple[Finding, ...] = ()
    faults: tuple[str, ...] = ()
    selectors: Mapping[str | None, int] = field(default_factory=dict)

    @property
    def audited(self) -> tuple[GroupAudit, ...]:
        """The groups that have figures."""
        return tuple(each for each in self.groups if each.now is not None)

    def total(self, reads: Callable[[GroupAudit], Reads | None]) -> Reads:
        """Return the sum of one of the figures over all groups that have it."""
        known = [each for each in map(reads, self.groups) if each is not None]
        return Reads(
            sum(each.off_rack for each in known),
            sum(each.crossing for each in known),
            sum(each.unknown for each in known),
            sum(each.cost for each in known),
        )


@dataclass
class Tariff:
    """Sums up reads and their cost; the price of each pair of racks is looked up once.

    ``in_sync`` is the result of `rackward.groups.readers.in_sync_racks`.
    """

    prices: PriceTable
    cluster: str
    in_sync: Mapping[TopicPartition, frozenset[str]]
    _pairs: dict[tuple[str | None, str | None], tuple[bool, float | None]] = field(
        default_factory=dict
    )

    def reads(self, owners: Owners, leader_racks: LeaderRacks, rates: Rates) -> Reads:
        """Return what is read from leaders in ``leader_racks``, or followers, by ``owners``."""
        off_rack, crossing, unknown, cost = 0, 0.0, 0.0, 0.0
        for tp, reader in owners.items():
            if tp not in leader_racks:
                continue
            pair = self.source(tp, reader, leader_racks), reader.rack
            if pair not in self._pairs:
                self._pairs[pair] = self._price(*pair)
            is_off_rack, price = self._pairs[pair]
            off_rack += is_off_rack
            rate = rates.get(tp, 0.0)
            if price is None:
                unknown += rate
            elif is_off_rack:
                crossing += rate
                cost += rate * price
        return Reads(off_rack, crossing, unknown, cost / GB * SECONDS_PER_MONTH)

    def source(self, tp: TopicPartition, reader: Reader, leader_racks: LeaderRacks) -> str | None:
        """Return the rack that a member reads a partition from; None if it is unknown."""
        leader, in_sync = leader_racks[tp], self.in_sync.get(tp, ())
        return source_rack(reader.rack, leader, in_sync, reader.sends_rack)

    def _price(self, source: str | None, member: str | None) -> tuple[bool, float | None]:
        is_off_rack = parse_rack(source) is not None and parse_rack(source) != parse_rack(member)
        return is_off_rack, self.prices.price(self.cluster, source, member)


def audit_cluster(
    reading: ClusterReading,
    rates: ReadRates,
    prices: PriceTable,
    host_racks: HostRacks,
    *,
    mapping: str | None = None,
    best: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> AuditReport:
    """Return the audit of what was read.

    ``mapping`` is the text of ``host_racks``, for the recommended commands. ``best`` False leaves
    out all but what groups read now.
    """
    state = reading.state
    tariff = Tariff(prices, state.cluster_id or "", in_sync_racks(state, reading.selectors))
    auditor = _Auditor(reading, rates, tariff, host_racks, mapping)
    groups = [auditor.now(each) for each in reading.groups]
    if best:
        groups = auditor.with_best(groups, progress)
    racks = Counter(broker.rack for broker in state.view.brokers)
    findings: tuple[Finding, ...] = ()
    if best and state.view.replicas:
        progress("Checking the placement")
        view = without_adding_replicas(state, state.view)
        min_isr = 1 if reading.min_isr is None else reading.min_isr
        findings = audit(view, in_sync=state.in_sync, min_isr=min_isr).findings
    return AuditReport(
        cluster_id=state.cluster_id,
        racks=dict(sorted(racks.items(), key=lambda item: (item[0] is None, item[0] or ""))),
        topics=len(state.topic_ids),
        partitions=len(state.view.replicas),
        groups=tuple(sorted(groups, key=lambda each: each.order)),
        rates=rates,
        findings=findings,
        faults=reading.faults,
        selectors=Counter(reading.selectors.get(broker.id) for broker in state.view.brokers),
    )


@dataclass
class _Auditor:
    reading: ClusterReading
    rates: ReadRates
    tariff: Tariff
    host_racks: HostRacks
    mapping: str | None
    by_topic: dict[str, list[TopicPartition]] = field(default_factory=dict)
    leader_racks: dict[TopicPartition, str | None] = field(default_factory=dict)
    broker_racks: dict[int, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        view = self.view
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

    def view_of(self, topics: Iterable[str]) -> ClusterView:
        """Return the view of some topics."""
        leaders = self.view.known_leaders
        tps = [tp for topic in topics for tp in self.by_topic.get(topic, ())]
        return replace(
            self.view,
            replicas={tp: self.view.replicas[tp] for tp in tps},
            leaders={tp: leaders[tp] for tp in tps if tp in leaders},
        )

    # What groups read now.

    def now(self, reading: GroupReading) -> GroupAudit:
        group = reading.group
        if group is None:
            return GroupAudit(reading.listed.id, reason=reading.error)
        topics = sorted(topics_read(group))
        described = GroupAudit(
            id=group.id,
            group=group,
            reason=_why_not(group),
            libraries=libraries_of(group),
            led_by=led_by(group),
            topics=tuple(topics),
            missing_topics=tuple(topic for topic in topics if topic not in self.by_topic),
        )
        if described.reason is not None:
            return described
        rates, source = self.rates.of(group.id)
        owners = self._current_owners(group)
        now = self.tariff.reads(owners, self.leader_racks, rates)
        partitions = [tp for topic in topics for tp in self.by_topic.get(topic, ())]
        unknown = sum(
            tp not in owners or self.tariff.source(tp, owners[tp], self.leader_racks) is None
            for tp in partitions
        )
        rackless = _rackless_members(group, self.host_racks)
        return replace(
            described,
            partitions=len(partitions),
            local=len(partitions) - unknown - now.off_rack,
            unknown=unknown,
            rackless_members=len(rackless),
            rate=sum(rates.get(tp, 0.0) for tp in owners if tp in self.leader_racks),
            rate_source=source,
            now=now,
        )

    def _current_owners(self, group: Group) -> Owners:
        assigned = {member.id: member.assignment for member in group.members}
        return partition_readers(assigned, readers_by_id(group, self.host_racks))

    # What they would read at best.

    def with_best(
        self, groups: Sequence[GroupAudit], progress: Callable[[str], None]
    ) -> list[GroupAudit]:
        explained: dict[str, ExplainedGroup] = {}
        rows: dict[str, GroupAudit] = {}
        for number, row in enumerate(groups):
            rows[row.id] = row
            if row.now is None or row.group is None:
                continue
            progress(f"Solving assignments: {number:,} of {len(groups):,} groups")
            view = self.view_of(row.topics)
            explanation = explain_group(
                row.group, view, self.host_racks, self.tariff.in_sync, remedies=False
            )
            explained[row.id] = explanation
            best = partition_readers(explanation.explanation.best, explanation.readers)
            rates = self.rates.of(row.id)[0]
            reads = self.tariff.reads(best, self.leader_racks, rates)
            findings = explanation.explanation.findings
            rows[row.id] = replace(row, assignor=reads, findings=findings)
        following = {name for name, each in explained.items() if self._may_follow(each.group)}
        parts = groups_sharing_topics(
            {name: rows[name].topics for name in explained if name not in following}
        )
        elsewhere = Counter(row[0] for row in self.view.replicas.values() if row)
        for number, names in enumerate(parts):
            progress(f"Solving leader layouts: {number:,} of {len(parts):,}")
            of_part = [rows[name] for name in names]
            rows.update(
                (each.id, each) for each in self._with_layout(of_part, explained, elsewhere)
            )
        for name in following:
            row = replace(rows[name], layout=_reachable(rows[name]))
            rows[name] = replace(row, steps=self._steps(row, explained[name], ()))
        return list(rows.values())

    def _may_follow(self, group: Group) -> bool:
        """Return whether members may read from followers."""
        return bool(self.tariff.in_sync) and group.protocol not in LEADER_READING_PROTOCOLS

    def _with_layout(
        self,
        rows: Sequence[GroupAudit],
        explained: Mapping[str, ExplainedGroup],
        preferred_leaders: Mapping[int, int],
    ) -> list[GroupAudit]:
        """Return the groups of a component with the layout and the steps."""
        before = [replace(row, layout=_reachable(row)) for row in rows]
        after = before
        if any(_reachable(row).off_rack for row in rows):
            layout = self._layout(rows, preferred_leaders)
            before = [replace(row, layout_proved=layout.proved) for row in before]
            after = [
                replace(row, layout=self._reads_after(row, explained[row.id], layout))
                for row in before
            ]
            if _off_rack(after) >= _off_rack(before):
                after = before
        readers = [row.id for row in rows]
        return [
            replace(
                row,
                steps=self._steps(
                    row, explained[row.id], [name for name in readers if name != row.id]
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
                [row.group],
                self.host_racks,
                AssignmentKind.OURS if can_follow(row.group) else AssignmentKind.CURRENT,
            )
            for row in rows
            if row.group is not None
        ]
        assignments = [each for part in parts for each in part.assignments]
        layout = plan_leaders(
            view,
            [each for part in parts for each in part.demands],
            assignments=assignments,
            max_imbalance=next((p.max_imbalance for p in parts if p.assignments), None),
            only_gains=True,
            other_leaders=elsewhere,
        )
        leaders = {**view.leaders_or_preferred(), **{tp: o[0] for tp, o in layout.order.items()}}
        not_local = {each.name for each in layout.localities if each.after < each.partitions}
        return _Layout(
            racks={tp: self._rack_of(leaders.get(tp)) for tp in view.replicas},
            all_local=frozenset(
                row.id
                for row, readers in zip(rows, parts, strict=True)
                if not_local.isdisjoint(each.name for each in readers.demands)
            ),
            proved=layout.locality_proved,
        )

    def _reads_after(self, row: GroupAudit, explained: ExplainedGroup, layout: _Layout) -> Reads:
        """Return what a group reads with other leaders, after its assignor has followed."""
        group, rates, leader_racks = explained.group, self.rates.of(row.id)[0], layout.racks
        if not can_follow(group):
            return self.tariff.reads(self._current_owners(group), leader_racks, rates)
        tps = [tp for topic in row.topics for tp in self.by_topic.get(topic, ())]
        if all(leader_racks[tp] == self.leader_racks[tp] for tp in tps):
            return row.assignor or Reads()
        # Of a range assignor that assigns several topics together, the layout has upper bounds.
        exact = group.protocol not in BALANCED_BY_TOPIC or len(row.topics) == 1
        if exact and row.id in layout.all_local:
            return Reads()
        by_topic: dict[str, list[str | None]] = {
            topic: [None] * (1 + max(tp.partition for tp in self.by_topic[topic]))
            for topic in row.topics
            if topic in self.by_topic
        }
        for tp in tps:
            by_topic[tp.topic][tp.partition] = leader_racks[tp]
        members = members_of(group, explained.racks)
        plan = reference_assignor(group).assign(members, by_topic)
        owners = partition_readers(plan.partitions, explained.readers)
        return self.tariff.reads(owners, leader_racks, rates)

    def _steps(
        self, row: GroupAudit, explained: ExplainedGroup, sharing: Sequence[str]
    ) -> tuple[Step, ...]:
        assert row.now is not None
        assert row.assignor is not None
        assert row.layout is not None
        group = explained.group
        follows = can_follow(group)
        before = row.assignor if follows else row.now
        gains = Gains(
            rackless_brokers=[b for b, rack in self.broker_racks.items() if rack is None],
            racks=sorted({rack for rack in self.broker_racks.values() if rack}),
            rackless_members=_rackless_members(group, self.host_racks),
            members_not_sending_rack=frozenset(
                each.id
                for each in group.members
                if self._may_follow(group) and parse_rack(each.rack) is None
            ),
            assignor_helps=follows and row.assignor.off_rack < row.now.off_rack,
            layout_helps=row.layout.off_rack < before.off_rack,
            sharing=sharing,
            mapping=self.mapping,
            co_partitioned=self._cost_of_co_partitioning(row, explained),
        )
        return steps_of(group, gains)

    def _cost_of_co_partitioning(self, row: GroupAudit, explained: ExplainedGroup) -> int:
        """Return how many more partitions a group of our range assignor could read locally."""
        optimum = explained.explanation.optimum
        is_ours = explained.group.protocol == RANGE and len(row.topics) > 1
        if not is_ours or explained.explanation.off_rack < optimum or not optimum:
            return 0
        separate = LeaderRackAwareRange(co_partitioned=False).assign(
            members_of(explained.group, explained.racks), explained.view.leader_racks()
        )
        return max(0, optimum - separate.off_rack)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Leaders' racks after a layout; the groups whose assignor then reads everything locally."""

    racks: LeaderRacks
    all_local: frozenset[str]
    proved: bool


def _reachable(row: GroupAudit) -> Reads:
    """Return what a group can reach without moved leaders."""
    reads = row.assignor if row.group is not None and can_follow(row.group) else row.now
    return reads or Reads()


def _off_rack(rows: Iterable[GroupAudit]) -> int:
    """Return the sum of off-rack partitions with the layout."""
    return sum(row.layout.off_rack for row in rows if row.layout is not None)


def _why_not(group: Group) -> str | None:
    """Return why a group has no figures; None if it has."""
    try:
        check_explainable(group.id, group)
    except InvalidOptionError as error:
        return str(error).removeprefix(f"group {group.id} ")
    return None


def _rackless_members(group: Group, host_racks: HostRacks) -> frozenset[str]:
    return frozenset(each.id for each in group.members if member_rack(each, host_racks) is None)


def groups_sharing_topics(topics_of: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return groups that share topics, directly or through other groups, sorted by name.

    ``topics_of`` has the topics of each group.
    """
    names = sorted(topics_of)
    parts: dict[int, list[str]] = {}
    for name, part in zip(names, components([topics_of[each] for each in names]), strict=True):
        parts.setdefault(part, []).append(name)
    return [tuple(names) for names in parts.values()]
