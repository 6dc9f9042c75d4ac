"""The values of an explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

LeaderBrokers = Mapping[tuple[str, int], int]
"""(topic, partition) to the broker that leads it. A missing partition has no leader."""

Partitions = Mapping[str, tuple[int, ...]]
"""Topic to partitions, both sorted."""


class Reason(Enum):
    """Why a partition is not read in its leader's rack.

    Each such partition has one reason: the first of these that applies. The first five are those
    of partitions that are not off-rack, because no member reads them or the rack that they are read
    from is unknown.
    """

    UNREAD = "unread"
    """No member reads it: it is being revoked, or is too new for the group's metadata."""

    NO_LEADER = "no-leader"
    """It has no leader."""

    RACKLESS_BROKER = "rackless-broker"
    """Its leader's broker has no rack."""

    LEADER_UNKNOWN = "leader-unknown"
    """It has no leader, or its broker has no rack, and it is not known which."""

    REPLICA_UNKNOWN = "replica-unknown"
    """It is not known whether its member reads it from the leader or from a follower."""

    LEADER_MOVED = "leader-moved"
    """It was led in its member's rack when it was assigned. A rebalance fixes it."""

    NOT_OPTIMAL = "not-optimal"
    """Another assignment with the same balance reads it locally. A rebalance fixes it, if the
    assignor takes the racks of leaders into account."""

    RACKLESS_MEMBER = "rackless-member"
    """The rack of its member is unknown."""

    NO_MEMBER_IN_RACK = "no-member-in-rack"
    """No member is in its leader's rack."""

    NOT_SUBSCRIBED_IN_RACK = "not-subscribed-in-rack"
    """The members in its leader's rack do not subscribe to its topic."""

    CO_PARTITIONED = "co-partitioned"
    """Its member reads the same partition of other topics too, which are led in its own rack."""

    TOO_MANY_LEADERS = "too-many-leaders"
    """Its leader's rack leads more than the members there read in balance."""

    @property
    def off_rack(self) -> bool:
        """Whether partitions with this reason count as off-rack."""
        return self is not Reason.UNREAD and not self.rack_unknown

    @property
    def rack_unknown(self) -> bool:
        """Whether the rack that the partition is read from is unknown."""
        return self in (
            Reason.NO_LEADER,
            Reason.RACKLESS_BROKER,
            Reason.LEADER_UNKNOWN,
            Reason.REPLICA_UNKNOWN,
        )

    @property
    def fixed_by_rebalance(self) -> bool:
        """Whether the assignment is the cause, and not the group or the leaders."""
        return self in (Reason.LEADER_MOVED, Reason.NOT_OPTIMAL)


class RemedyKind(Enum):
    """What can be done."""

    WAIT = "wait"
    RESTORE_LEADERS = "restore-leaders"
    SET_BROKER_RACK = "set-broker-rack"
    SET_MEMBER_RACK = "set-member-rack"
    REBALANCE = "rebalance"
    MOVE_LEADERS = "move-leaders"
    FIT_LEADERS = "fit-leaders"
    SUBSCRIBE = "subscribe"
    START_MEMBERS = "start-members"
    SEPARATE_TOPICS = "separate-topics"


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do, and its effect.

    off_rack_after
        The minimum of off-rack partitions of the whole group after this remedy alone and a
        rebalance, solved exactly; None if unknown. Leaders that are fitted to the assignment in
        force (FIT_LEADERS) need no rebalance.
    rack
        Where members start, or whose members subscribe.
    count
        The number of members to start.
    members
        The members whose rack to set.
    topics
        The topics that the started members, or the existing members in ``rack``, subscribe to.
    moves
        Rack to the partitions whose leaders move there.
    brokers
        The brokers whose rack to set.
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
class LocalityFinding:
    """Partitions that are not read locally for the same reason.

    rack
        The rack of their leaders; None if it is unknown, or does not matter.
    leaders_in_rack
        The number of the group's partitions that are led in that rack.
    members_in_rack, load_in_rack, local_in_rack
        The number of members in that rack, of partitions that they read in the best assignment,
        and of those among them that are led in the rack.
    members
        The members that read the partitions now.
    better_members
        Of NOT_OPTIMAL and LEADER_MOVED: partition to the member that would read it locally.
    remedies
        What would help, the most certain first.
    """

    reason: Reason
    partitions: Partitions
    rack: str | None = None
    leaders_in_rack: int = 0
    members_in_rack: int = 0
    load_in_rack: int = 0
    local_in_rack: int = 0
    members: tuple[str, ...] = ()
    better_members: Mapping[tuple[str, int], str] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()

    @property
    def count(self) -> int:
        """The number of partitions."""
        return sum(map(len, self.partitions.values()))


@dataclass(frozen=True, slots=True)
class Explanation:
    """The locality of an assignment, and why it is not higher.

    partitions
        The sum of those that are ``local`` (led in their member's rack), ``off_rack``, led in an
        ``unknown`` rack, or ``unread``.
    optimum
        The minimum of off-rack partitions of a balanced assignment; see `Plan.optimum`.
    uneven
        Whether the assignment is more local than any balanced one: its loads differ by more than
        necessary, or another assignor balanced the group differently.
    findings
        Sorted by number of partitions, largest first; those that are not off-rack come last.
    best
        The best assignment: member id to topic to partitions.
    """

    partitions: int
    local: int
    off_rack: int
    unknown: int
    unread: int
    optimum: int
    uneven: bool
    findings: tuple[LocalityFinding, ...]
    best: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict, repr=False)
