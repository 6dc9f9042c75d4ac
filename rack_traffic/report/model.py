"""The data of a report, as frozen values: the result of the sums, the input of the renderers.

Costs are in the currency of the price table, times are aware and in UTC, months have 730 hours. A
rack that is None is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import add, attrgetter

from rack_traffic.tables import LEADER_LAYOUTS

MIN_HOURS_TO_EXTRAPOLATE = 24
"""A cost per month that is extrapolated from measurements of fewer hours is rough: traffic varies
over the day. Without a what-if none is shown."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes within a rack, across racks, and of unknown racks.

    These three add up to all bytes. ``estimated_bytes`` are a part of all bytes: a usual rate,
    because nothing could be measured. ``unsized_offsets`` are records and control records of
    unknown size, which the bytes do not include. ``cost`` is that of ``crossing_bytes``; bytes of
    unknown racks have none. ``assumed_bytes`` are a part of all bytes: the racks of their producers
    are assumed. So are ``measured_bytes``: flow records counted them.
    """

    local_bytes: int = 0
    crossing_bytes: int = 0
    unknown_bytes: int = 0
    estimated_bytes: int = 0
    unsized_offsets: int = 0
    cost: float = 0.0
    assumed_bytes: int = 0
    measured_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Return all bytes."""
        return self.local_bytes + self.crossing_bytes + self.unknown_bytes

    @property
    def crossing_share(self) -> float | None:
        """Return the share of crossing bytes in all bytes; None if no rack is known."""
        known = self.local_bytes + self.crossing_bytes
        return share(self.crossing_bytes, self.bytes) if known else None

    def __add__(self, other: Traffic) -> Traffic:
        values = attrgetter(*self.__slots__)
        return Traffic(*map(add, values(self), values(other)))


@dataclass(frozen=True, slots=True)
class ClusterHours:
    """The number of hours with measurements of a cluster, and the first and last of them."""

    cluster: str
    hours: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class PairTotal:
    """Traffic of a kind from one rack to another, over the whole period."""

    cluster: str
    kind: str
    from_rack: str | None
    to_rack: str | None
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class BillLine:
    """What crossed from one rack to another, over the whole period: its cost, and who pays it.

    Without owners, lines are of all groups and topics together, which are None. ``cents`` is the
    cost, rounded so that all lines of a bill add up.
    """

    cluster: str
    kind: str
    group: str | None
    topic: str | None
    from_rack: str
    to_rack: str
    team: str
    bytes: int
    cost: float
    cents: int = 0


@dataclass(frozen=True, slots=True)
class HourTotal:
    """Traffic of a kind in the hour that begins at ``hour``."""

    cluster: str
    kind: str
    hour: datetime
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class Change:
    """The recommended change for a group, and its effect on the cost per month.

    Localities are shares of all bytes, None if no rack is known. ``shared_topics`` of the group's
    topics have other groups too; groups whose topics' leaders are laid out together have one
    ``layout_group``, which is empty if it is unknown. Costs are extrapolated from ``hours`` hours
    of measurements.
    """

    cost_per_month_now: float
    cost_per_month_after: float
    saving_per_month: float
    locality_now: float | None
    locality_after: float | None
    scenario: str
    text: str
    shared_topics: int = 0
    hours: float = 0.0
    layout_group: str = ""

    @property
    def is_needed(self) -> bool:
        """Return whether something is to change. A leader layout is for all groups that share
        topics, also for those that it saves nothing."""
        return self.saving_per_month > 0 or self.scenario in LEADER_LAYOUTS


@dataclass(frozen=True, slots=True)
class GroupTotal:
    """The traffic of a group over the period.

    ``cost_per_month`` is that of the what-if or else extrapolated from the hours with measurements;
    None if there are too few. ``change`` is None without a what-if for the group.
    """

    cluster: str
    group: str
    traffic: Traffic
    cost_per_month: float | None
    change: Change | None = None

    @property
    def saving(self) -> float:
        """Return the saving per month of the change, which a leader layout may make negative."""
        return 0.0 if self.change is None else self.change.saving_per_month


@dataclass(frozen=True, slots=True)
class ScenarioTotal:
    """Traffic and cost per month of all groups under one scenario.

    The scenario was computed for ``groups``; ``groups_as_is`` have no result for it, and count with
    their current traffic.
    """

    scenario: str
    groups: int
    groups_as_is: int
    cost_per_month: float
    local_bytes: int
    crossing_bytes: int
    unknown_bytes: int
    moves: int
    leader_moves: int

    @property
    def crossing_share(self) -> float | None:
        """Return the share of crossing bytes in all bytes; None if no rack is known."""
        return Traffic(self.local_bytes, self.crossing_bytes, self.unknown_bytes).crossing_share


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """The number of rows of a snapshot table that were rejected for one reason."""

    table: str
    reason: str
    rows: int


@dataclass(frozen=True, slots=True)
class FlowPair:
    """Bytes of a kind from one rack to another: of flow records, and estimated in the same
    hours."""

    cluster: str
    kind: str
    from_rack: str | None
    to_rack: str | None
    bytes: int
    estimated_bytes: int


@dataclass(frozen=True, slots=True)
class FlowClient:
    """An address that reads or writes and has no member of any group."""

    cluster: str
    client: str
    rack: str | None
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True, slots=True)
class MisplacedMember:
    """A member whose ``rack`` is not that of the network of its address, and its bytes.

    ``group`` is None if members of several groups have the address.
    """

    cluster: str
    group: str | None
    client: str
    rack: str
    network_rack: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Flows:
    """What the network counted in ``hours`` hours; clients and members with most bytes first.

    In ``measured_hours`` of them it takes the place of the estimate.
    """

    hours: int
    measured_hours: int
    pairs: tuple[FlowPair, ...]
    clients: tuple[FlowClient, ...]
    misplaced: tuple[MisplacedMember, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """All data of a report, sorted.

    ``groups`` are sorted by saving, then by cost, largest first. ``others`` are, of each cluster,
    ``tables.PRODUCERS``, ``REPLICATION`` and ``NO_GROUP``, with the fields of a group.
    ``rejected_rows`` is None if it is unknown whether rows were rejected, ``flows`` if none were
    measured. The intervals of the what-if lie in [``what_if_since``, ``what_if_until``).
    """

    clusters: tuple[ClusterHours, ...] = ()
    pairs: tuple[PairTotal, ...] = ()
    hours: tuple[HourTotal, ...] = ()
    groups: tuple[GroupTotal, ...] = ()
    scenarios: tuple[ScenarioTotal, ...] = ()
    rejected_rows: tuple[RejectedRows, ...] | None = None
    what_if_since: datetime | None = None
    what_if_until: datetime | None = None
    others: tuple[GroupTotal, ...] = ()
    bill: tuple[BillLine, ...] = ()
    flows: Flows | None = None

    def of_kind(self, kind: str) -> Traffic:
        """Return all traffic of one of ``prices.KINDS``."""
        return total(pair.traffic for pair in self.pairs if pair.kind == kind)

    @property
    def consumed(self) -> Traffic:
        """Return the traffic of all groups."""
        return self.of_kind("consume")

    @property
    def cost_per_month_now(self) -> float | None:
        """Return the cost of all traffic; None if that of any part is unknown."""
        if not self.groups:
            return None
        known = [each.cost_per_month for each in self.parts]
        return None if None in known else sum(each for each in known if each is not None)

    @property
    def parts(self) -> tuple[GroupTotal, ...]:
        """Return what the whole traffic consists of: all groups, and what no group reads."""
        return (*self.groups, *self.others)

    @property
    def has_several_clusters(self) -> bool:
        """Return whether the groups are of more than one cluster."""
        return len({each.cluster for each in self.groups}) > 1

    @property
    def measured_hours(self) -> float | None:
        """Return the least time from which the cost per month of a group is extrapolated, in hours;
        None without a what-if."""
        hours = [each.change.hours for each in self.parts if each.change is not None]
        return min(hours, default=None)

    @property
    def saving_per_month(self) -> float | None:
        """Return the saving of all changes; None without a what-if."""
        changes = [each.change for each in self.parts if each.change is not None]
        return sum(each.saving_per_month for each in changes) if changes else None


def total(several: Iterable[Traffic]) -> Traffic:
    """Return the sum of ``several``."""
    return reduce(add, several, Traffic())


def share(part: float, whole: float) -> float | None:
    """Return ``part / whole``; None if ``whole`` is 0."""
    return part / whole if whole else None
