"""What an explanation says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

LeaderBrokers = Mapping[tuple[str, int], int]
"""(topic, partition) to the broker that leads it; a partition that is absent has no leader."""

Partitions = Mapping[str, tuple[int, ...]]
"""Topic to partitions, both sorted."""


class Reason(Enum):
    """Why a partition is not read in its leader's rack. Each such partition has one of these.

    The first that applies counts, in this order. The first four are of partitions that are not
    off-rack: either nobody reads them, or nobody can say from where.
    """

    UNREAD = "unread"
    """Nobody reads it: it is being handed over, or is too new for the group to know."""

    NO_LEADER = "no-leader"
    """It has no leader."""

    RACKLESS_BROKER = "rackless-broker"
    """Its leader's broker has no rack."""

    LEADER_UNKNOWN = "leader-unknown"
    """It has no leader, or its broker has no rack: which of the two is not known."""

    LEADER_MOVED = "leader-moved"
    """It was led in its member's rack when it was assigned. A rebalance mends it."""

    NOT_OPTIMAL = "not-optimal"
    """Another assignment, as balanced, reads it locally. A rebalance mends it, by an assignor
    that looks at the racks of leaders."""

    RACKLESS_MEMBER = "rackless-member"
    """Its member does not say where it is."""

    NO_MEMBER_IN_RACK = "no-member-in-rack"
    """No member is in its leader's rack."""

    NOT_SUBSCRIBED_IN_RACK = "not-subscribed-in-rack"
    """The members in its leader's rack do not subscribe to its topic."""

    CO_PARTITIONED = "co-partitioned"
    """Its member reads the same partition of other topics too, which are led in its own rack."""

    TOO_MANY_LEADERS = "too-many-leaders"
    """Its leader's rack leads more than the members there carry in balance."""

    @property
    def off_rack(self) -> bool:
        """Whether partitions with this reason count as off-rack."""
        return self not in _NOT_COUNTED

    @property
    def mended_by_rebalance(self) -> bool:
        """Whether the assignment, and not the group or its leaders, is what could be better."""
        return self in (Reason.LEADER_MOVED, Reason.NOT_OPTIMAL)


_NOT_COUNTED = (Reason.UNREAD, Reason.NO_LEADER, Reason.RACKLESS_BROKER, Reason.LEADER_UNKNOWN)


class RemedyKind(Enum):
    """What can be done."""

    WAIT = "wait"
    RESTORE_LEADERS = "restore-leaders"
    SET_BROKER_RACK = "set-broker-rack"
    SET_MEMBER_RACK = "set-member-rack"
    REBALANCE = "rebalance"
    MOVE_LEADERS = "move-leaders"
    SUBSCRIBE = "subscribe"
    START_MEMBERS = "start-members"


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do, and what it comes to.

    off_rack_after
        The off-rack partitions of the whole group at best when this, and nothing else, was
        done and the group has rebalanced, as solved exactly; None where that is not known.
    rack
        Where members start, where leaders move from, or whose members subscribe.
    members
        How many members to start, or whose rack to set.
    topics
        What started members subscribe to, or what those that are there subscribe to as well.
    moves
        Rack to the partitions whose leaders move there.
    brokers
        Whose rack to set.
    """

    kind: RemedyKind
    off_rack_after: int | None = None
    rack: str | None = None
    count: int = 0
    members: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    moves: Mapping[str, Partitions] = field(default_factory=dict)
    brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """Partitions that are not read locally for one and the same reason.

    rack
        That of their leaders; None where it is not known, or differs and does not matter.
    led
        How many partitions of the group are led in that rack.
    members_there, load, local
        How many members are in that rack, and of the assignment as it could be at best, how
        many partitions they carry, and how many of these are led there.
    members
        Who reads the partitions now; of RACKLESS_MEMBER, whose rack is not known.
    better
        Of NOT_OPTIMAL and LEADER_MOVED: partition to the member that would read it.
    remedies
        What would mend it, the surest first.
    """

    reason: Reason
    partitions: Partitions
    rack: str | None = None
    led: int = 0
    members_there: int = 0
    load: int = 0
    local: int = 0
    members: tuple[str, ...] = ()
    better: Mapping[tuple[str, int], str] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()

    @property
    def count(self) -> int:
        """How many partitions there are."""
        return sum(map(len, self.partitions.values()))


@dataclass(frozen=True, slots=True)
class Explanation:
    """An assignment, and why it is not more local.

    ``partitions`` is the sum of those that are ``local`` (led in their member's rack),
    ``off_rack``, led in an ``unknown`` rack, or ``unread``.

    optimum
        The fewest off-rack partitions of an assignment in balance; see `Plan.optimum`.
    uneven
        Whether the assignment is more local than any in balance: loads differ by more than
        they must, or someone else's idea of balance is behind it.
    findings
        The most partitions first; those that are not off-rack come last.
    """

    partitions: int
    local: int
    off_rack: int
    unknown: int
    unread: int
    optimum: int
    uneven: bool
    findings: tuple[Finding, ...]
