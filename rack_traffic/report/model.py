"""What a report says, as frozen values: the input of every renderer, the output of the sums.

Bytes are bytes, money is in the currency of the price table, times are aware and in UTC, months
have 730 hours. A rack that is None is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce

HOURS_PER_MONTH = 730.0
HOURS_TO_EXTRAPOLATE = 24
"""With fewer hours of measurements than this, no cost per month is told from them alone."""

KINDS = ("consume", "replicate", "produce")
"""Kinds of traffic, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes by where they went.

    The first three add up to all bytes. Of all bytes, ``estimated_bytes`` are a usual rate where
    nothing could be measured, and ``reported_bytes`` are exact, from clients. ``unsized_offsets``
    are records and markers whose bytes are not known and not among these. ``cost`` is that of
    ``crossing_bytes``: bytes of unknown racks have none.
    """

    local_bytes: int = 0
    crossing_bytes: int = 0
    unknown_bytes: int = 0
    estimated_bytes: int = 0
    reported_bytes: int = 0
    unsized_offsets: int = 0
    cost: float = 0.0

    @property
    def bytes(self) -> int:
        """All bytes."""
        return self.local_bytes + self.crossing_bytes + self.unknown_bytes

    @property
    def crossing_share(self) -> float | None:
        """Of the bytes whose racks are known; None where there are none."""
        return share(self.crossing_bytes, self.local_bytes + self.crossing_bytes)

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.local_bytes + other.local_bytes,
            self.crossing_bytes + other.crossing_bytes,
            self.unknown_bytes + other.unknown_bytes,
            self.estimated_bytes + other.estimated_bytes,
            self.reported_bytes + other.reported_bytes,
            self.unsized_offsets + other.unsized_offsets,
            self.cost + other.cost,
        )


@dataclass(frozen=True, slots=True)
class ClusterHours:
    """The hours of a cluster in which anything was measured."""

    cluster: str
    hours: int
    first: datetime
    last: datetime
    """The beginning of its last hour."""


@dataclass(frozen=True, slots=True)
class PairTotal:
    """Traffic of a kind from one rack to another, over the whole period."""

    cluster: str
    kind: str
    from_rack: str | None
    to_rack: str | None
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class HourTotal:
    """Traffic of a kind in the hour that begins at ``hour``."""

    cluster: str
    kind: str
    hour: datetime
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class Change:
    """What to change for a group, and what that does to its cost per month.

    Localities are shares of the bytes whose racks are known. ``shared_topics`` of the group are
    read by other groups too.
    """

    cost_per_month_now: float
    cost_per_month_after: float
    saving_per_month: float
    locality_now: float | None
    locality_after: float | None
    scenario: str
    text: str
    shared_topics: int = 0


@dataclass(frozen=True, slots=True)
class GroupTotal:
    """What a group read over the period; ``change`` is None where no what-if looked at it."""

    cluster: str
    group: str
    traffic: Traffic
    cost_per_month: float | None
    """The what-if's where there is one; otherwise that of the measured hours, or None where they
    are too few."""
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class ScenarioTotal:
    """All groups under one scenario, as traffic and cost per month.

    ``groups`` were computed under it; for ``groups_as_is`` it could not be, and they count with
    what they cost as they are.
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
        """Of the bytes whose racks are known; None where there are none."""
        return share(self.crossing_bytes, self.local_bytes + self.crossing_bytes)


@dataclass(frozen=True, slots=True)
class SetAside:
    """Rows of an input table that broke its contract."""

    table: str
    reason: str
    rows: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything a report tells, sorted and small: see the classes above.

    ``groups`` come by what can be saved, then by cost, most first. ``set_aside`` is None where no
    table of rows set aside was given, which is not the same as none. ``whatif_from`` and
    ``whatif_until`` span the intervals of the what-if.
    """

    clusters: tuple[ClusterHours, ...] = ()
    pairs: tuple[PairTotal, ...] = ()
    hours: tuple[HourTotal, ...] = ()
    groups: tuple[GroupTotal, ...] = ()
    scenarios: tuple[ScenarioTotal, ...] = ()
    set_aside: tuple[SetAside, ...] | None = None
    whatif_from: datetime | None = None
    whatif_until: datetime | None = None
    _kinds: dict[str, Traffic] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for kind in KINDS:
            self._kinds[kind] = total(each.traffic for each in self.pairs if each.kind == kind)

    def of_kind(self, kind: str) -> Traffic:
        """All traffic of one of :data:`KINDS`."""
        return self._kinds[kind]

    @property
    def consumed(self) -> Traffic:
        """What all groups read."""
        return self._kinds["consume"]

    @property
    def cost_per_month_now(self) -> float | None:
        """Of all groups; None where one that crosses is not known."""
        if not self.groups:
            return None
        known = [each.cost_per_month for each in self.groups]
        return None if None in known else sum(each for each in known if each is not None)

    @property
    def saving_per_month(self) -> float | None:
        """Of all changes; None where no what-if was given."""
        changes = [each.change for each in self.groups if each.change is not None]
        return sum(each.saving_per_month for each in changes) if changes else None


def total(several: Iterable[Traffic]) -> Traffic:
    """The sum; nothing where there is none."""
    return reduce(lambda one, other: one + other, several, Traffic())


def share(part: float, whole: float) -> float | None:
    """``part`` of ``whole``; None where the whole is nothing."""
    return part / whole if whole else None
