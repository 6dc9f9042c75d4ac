"""The result of an audit: what groups read across racks, and what would change it.

The structs are also the JSON of ``rackward audit`` and ``rackward groups list``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from assignors.explain import Reason
from placement_core import RACK_AWARE_SELECTOR
from placement_core.audit import Finding
from rack_traffic.advice import Library, NextStep
from rack_traffic.prices import PriceTable
from rack_traffic.report.format import Currency
from rack_traffic.tables import HOURS_PER_MONTH
from rackward.groups.next_steps import LedBy
from rackward.groups.reading import ASSUMED_RECORD_BYTES, RateSource, ReadRates
from rackward.groups.writes import CrossRackWrites
from rackward.units import format_count, format_duration


class CrossRackReads(msgspec.Struct, frozen=True):
    """What a group reads with one assignment and one layout of leaders.

    local, off_rack, unknown_partitions
        Partitions that are read in their member's rack, in another one, and those that no member
        reads, or whose member's rack, or the one that it reads from, is unknown.
    local_bytes_per_second, crossing_bytes_per_second, unknown_bytes_per_second
        The bytes that are read of each of the three.
    cost_per_month
        Price of the crossing bytes, in the currency of the price table.
    """

    local: int = 0
    off_rack: int = 0
    unknown_partitions: int = 0
    local_rate: float = msgspec.field(default=0.0, name="local_bytes_per_second")
    crossing: float = msgspec.field(default=0.0, name="crossing_bytes_per_second")
    unknown: float = msgspec.field(default=0.0, name="unknown_bytes_per_second")
    cost: float = msgspec.field(default=0.0, name="cost_per_month")

    @property
    def partitions(self) -> int:
        """All partitions: the sum of the three."""
        return self.local + self.off_rack + self.unknown_partitions

    @property
    def rate(self) -> float:
        """All bytes per second: the sum of the three."""
        return self.local_rate + self.crossing + self.unknown

    @property
    def local_share(self) -> float | None:
        """The share of the partitions that are known to be local; None if no rack is known."""
        if self.unknown_partitions == self.partitions:
            return None
        return self.local / self.partitions

    def rounded(self) -> CrossRackReads:
        """Return the same with the digits that are worth printing."""
        return msgspec.structs.replace(
            self,
            local_rate=round(self.local_rate, 3),
            crossing=round(self.crossing, 3),
            unknown=round(self.unknown, 3),
            cost=round(self.cost, 4),
        )


class LibraryMembers(msgspec.Struct, frozen=True):
    """The number of members of a client library; None: the library is unknown."""

    library: Library | None
    members: int


class AuditFinding(msgspec.Struct, frozen=True):
    """Partitions that are off-rack for the same reason; ``why`` has it in words."""

    reason: Reason
    rack: str | None
    count: int
    why: str


class GroupAudit(msgspec.Struct, frozen=True, kw_only=True):
    """One group.

    type, state, protocol, members
        None if the group could not be described.
    reason
        Why there are no figures; None if there are.
    libraries, client_ids, led_by
        The client libraries of its members, at most 20 of their client ids, and who assigns its
        partitions.
    topics, missing_topics
        The topics that it reads, and those among them that do not exist, or may not be described.
    rackless_members
        Number of members whose rack is unknown.
    rackless_hosts
        The hosts of these members, as `--mapping` takes them; at most 50.
    partitions, local, unknown
        Numbers of partitions of ``topics``: all, and those that are ``local`` and
        ``unknown_partitions`` of ``now``. In a share group, a partition counts once for each member
        that reads it.
    bytes_per_second, rate_source
        What it reads, and where that comes from.
    now, assignor, layout
        What it reads now, with rackward's assignor, and with leaders moved as well; that of
        ``assignor`` if leaders need not move. None without figures, and in ``groups list``.
    assignor_usable
        Whether the group can have that assignor; else its figure is hypothetical.
    layout_proved
        Whether it is proved that no layout is more local.
    findings
        Why partitions are off-rack.
    steps
        What to do next, in order.
    """

    group: str
    type: str | None = None
    state: str | None = None
    protocol: str | None = None
    reason: str | None = None
    libraries: tuple[LibraryMembers, ...] = ()
    client_ids: tuple[str, ...] = ()
    led_by: LedBy | None = None
    topics: tuple[str, ...] = ()
    missing_topics: tuple[str, ...] = ()
    members: int | None = None
    rackless_members: int = 0
    rackless_hosts: tuple[str, ...] = ()
    partitions: int = 0
    local: int = 0
    unknown: int = 0
    rate: float = msgspec.field(default=0.0, name="bytes_per_second")
    rate_source: RateSource | None = None
    now: CrossRackReads | None = None
    assignor: CrossRackReads | None = None
    assignor_usable: bool = False
    layout: CrossRackReads | None = None
    layout_proved: bool = True
    findings: tuple[AuditFinding, ...] = ()
    steps: tuple[NextStep, ...] = ()

    @property
    def reachable(self) -> CrossRackReads:
        """What the group can reach without moved leaders."""
        return (self.assignor if self.assignor_usable else self.now) or CrossRackReads()

    @property
    def order(self) -> tuple[bool, float, float, int, str]:
        """A sort key: what costs most, then what crosses most; groups without figures are last."""
        if self.now is None:
            return True, 0.0, 0.0, 0, self.group
        return False, -self.now.cost, -self.now.crossing, -self.now.off_rack, self.group


class RackBrokers(msgspec.Struct, frozen=True):
    """The number of live brokers in a rack; None: without a rack."""

    rack: str | None
    brokers: int


class SelectorBrokers(msgspec.Struct, frozen=True):
    """A replica.selector.class and the number of live brokers that have it.

    class
        Empty: not set. None: it could not be read.
    """

    name: str | None = msgspec.field(name="class")
    brokers: int


class RateBasis(msgspec.Struct, frozen=True):
    """What the rates rest on.

    measured_seconds
        How long groups were measured; None: the rates are those of the logs.
    unsized_partitions
        Partitions whose log size could not be read.
    assumptions
        Sentences.
    """

    measured_seconds: float | None
    unsized: int = msgspec.field(name="unsized_partitions")
    assumptions: tuple[str, ...] = ()


class AuditTotals(msgspec.Struct, frozen=True):
    """The sums of each figure over all groups that have it; None if none has."""

    now: CrossRackReads
    assignor: CrossRackReads | None
    layout: CrossRackReads | None


class MeasuredKind(msgspec.Struct, frozen=True):
    """What flow records counted of a kind of traffic, and what the audit estimates.

    kind
        consume, replicate or produce.
    bytes_per_second, crossing_bytes_per_second, unknown_bytes_per_second
        Of all racks, across racks, and with a rack that is unknown.
    cost_per_month
        Price of the crossing bytes.
    estimated_crossing_bytes_per_second, estimated_cost_per_month
        The same without flow records. None: it is not estimated.
    """

    kind: str
    rate: float = msgspec.field(name="bytes_per_second")
    crossing: float = msgspec.field(name="crossing_bytes_per_second")
    unknown: float = msgspec.field(name="unknown_bytes_per_second")
    cost: float = msgspec.field(name="cost_per_month")
    estimated_crossing: float | None = msgspec.field(name="estimated_crossing_bytes_per_second")
    estimated_cost: float | None = msgspec.field(name="estimated_cost_per_month")


class UngroupedClient(msgspec.Struct, frozen=True):
    """An address that reads or writes and has no member of any group."""

    address: str
    rack: str | None
    read: float = msgspec.field(name="read_bytes_per_second")
    written: float = msgspec.field(name="written_bytes_per_second")


class MisplacedAddress(msgspec.Struct, frozen=True):
    """A member whose rack is not that of the network of its address.

    group
        None if members of several groups have the address.
    """

    group: str | None
    address: str
    rack: str
    network_rack: str
    rate: float = msgspec.field(name="bytes_per_second")


class MeasuredTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """What flow records of the cluster's brokers counted from ``since`` until ``until``.

    rejected_records
        Number of records that could not be read.
    clients, misplaced
        Those with most bytes first.
    """

    since: datetime
    until: datetime
    rejected: int = msgspec.field(name="rejected_records")
    kinds: tuple[MeasuredKind, ...]
    clients: tuple[UngroupedClient, ...]
    misplaced: tuple[MisplacedAddress, ...]


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """The audit of a cluster.

    racks
        Brokers without a rack are last.
    groups
        What costs most, then what crosses most, first; groups without figures last.
    writes, writes_after
        What is written across racks, now and with the leaders of the layout; None in
        ``groups list``.
    steps
        What to do beside the steps of groups.
    faults
        Lines about what could not be read.
    findings
        Findings of ``rackward placement check``, the most severe first; none in ``groups list``.
    measured
        With ``--flows``.
    """

    cluster_id: str | None
    racks: tuple[RackBrokers, ...]
    topics: int
    partitions: int
    replica_selectors: tuple[SelectorBrokers, ...]
    rates: RateBasis
    currency: str
    totals: AuditTotals
    groups: tuple[GroupAudit, ...]
    writes: CrossRackWrites | None = None
    writes_after: CrossRackWrites | None = None
    steps: tuple[NextStep, ...] = ()
    faults: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    measured: MeasuredTraffic | None = None


MAX_CLIENT_IDS = 20


def total_reads(reads: Iterable[CrossRackReads | None]) -> CrossRackReads | None:
    """Return the sum of those that are known; None if none is."""
    known = [msgspec.structs.astuple(each) for each in reads if each is not None]
    return CrossRackReads(*map(sum, zip(*known, strict=True))).rounded() if known else None


# ---- What the figures rest on, in words.


def assumptions(
    rates: ReadRates,
    rows: Sequence[GroupAudit],
    selectors: Mapping[str | None, int],
    prices: PriceTable,
    currency: Currency,
) -> Iterator[str]:
    """Yield sentences about rates, replicas that are read, and prices."""
    if rates.measured_seconds is None:
        yield (
            "Assumed: each group reads once what was written in the last 24 hours (the last hour "
            "for younger logs). --measure SECONDS measures it."
        )
    else:
        sources = Counter(row.rate_source for row in rows)
        yield (
            f"Measured for {format_duration(rates.measured_seconds)}: committed offsets of "
            f"{format_count(sources[RateSource.COMMITTED], 'group')}; "
            f"{format_count(sources[RateSource.WRITTEN], 'group')} committed nothing, and are "
            "assumed to read what was written."
        )
    yield from _selector_lines(selectors)
    if rates.unsized:
        yield (
            f"Assumed: {ASSUMED_RECORD_BYTES:,.0f} bytes per record of "
            f"{format_count(rates.unsized, 'partition')} whose log sizes cannot be read."
        )
    month = f"a month of {HOURS_PER_MONTH:g} hours"
    if prices.source:
        yield f"Price: {prices.source}, for {month}."
    elif len(prices.rules) == 1:
        per_gb = currency.prefix + f"{prices.rules[0].per_gb:g}"
        yield f"Price: {per_gb} per GB across racks, for {month} (--prices)."
    else:
        yield f"Price: {len(prices.rules)} rules, for {month}."


def _selector_lines(selectors: Mapping[str | None, int]) -> Iterator[str]:
    """Yield which replicas consumers are assumed to read, unless leaders for certain."""
    brokers = sum(selectors.values())
    for name, count in selectors.items():
        of_all = f"{count:,} of {format_count(brokers, 'broker')}"
        if name is None:
            yield (
                f"Assumed: consumers read from leaders: replica.selector.class of {of_all} cannot "
                "be read."
            )
        elif name == RACK_AWARE_SELECTOR:
            yield (
                f"Follower fetching: on ({of_all}). Members that join with a rack read from a "
                "replica in it, those of rackward's assignors from leaders. Whether others do "
                "(client_rack of kafka-python and aiokafka) is unknown."
            )
        elif name:
            yield (
                f"Assumed: consumers read from leaders: {of_all} have the replica.selector.class "
                f"{name}, whose choice is not known."
            )
