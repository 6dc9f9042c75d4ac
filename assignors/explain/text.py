"""Reasons and remedies: what they are, and how they read.

The texts leave out what depends on the caller, such as names of commands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby

Partitions = Mapping[str, tuple[int, ...]]
"""Topic to partitions, both sorted."""


class Reason(Enum):
    """Why a partition is not read in its leader's rack, and the text of that.

    Each such partition has one reason: the first of these that applies.

    off_rack
        Whether partitions with this reason count as off-rack.
    rack_unknown
        Whether the rack of the reader, or the one that it reads from, is unknown.
    fixed_by_rebalance
        Whether the assignment is the cause, and not the group or the leaders.
    of_rack
        Whether the rack of the leaders matters.
    """

    text: str
    off_rack: bool
    rack_unknown: bool
    fixed_by_rebalance: bool
    of_rack: bool

    def __new__(cls, value: str, kind: str, text: str) -> Reason:
        """Take the value, the kind, and a text whose fields `reason_text` replaces."""
        reason = object.__new__(cls)
        reason._value_, reason.text = value, text
        reason.off_rack = kind in ("assignment", "rack")
        reason.rack_unknown = kind == "unknown"
        reason.fixed_by_rebalance = kind == "assignment"
        reason.of_rack = kind == "rack"
        return reason

    UNREAD = "unread", "unread", "no member reads them: they are being revoked, or are new"
    NO_LEADER = "no-leader", "unknown", "they have no leader"
    RACKLESS_BROKER = "rackless-broker", "unknown", "their leader's broker has no rack"
    # Either of the two before.
    LEADER_UNKNOWN = (
        "leader-unknown",
        "unknown",
        "they have no leader, or its broker has no rack",
    )
    REPLICA_UNKNOWN = (
        "replica-unknown",
        "unknown",
        "brokers have a replica selector, and do not tell whether these clients fetch with a rack"
        " (client.rack, client_rack): with one, they read replicas in their rack",
    )
    RACKLESS_MEMBER = "rackless-member", "unknown", "{racks} that {read} them {are} unknown"
    # A rebalance fixes the next two, if the assignor takes the racks of leaders into account.
    LEADER_MOVED = (
        "leader-moved",
        "assignment",
        "their leaders have moved to the racks of other members since the assignment",
    )
    NOT_OPTIMAL = (
        "not-optimal",
        "assignment",
        "the assignment is not optimal: other members could read them locally",
    )
    NO_MEMBER_IN_RACK = (
        "no-member-in-rack",
        "rack",
        "rack {rack} leads {leaders}, and no member is in it",
    )
    NOT_SUBSCRIBED_IN_RACK = (
        "not-subscribed-in-rack",
        "rack",
        "the {members} in rack {rack} {do} not subscribe to {topics}",
    )
    CO_PARTITIONED = (
        "co-partitioned",
        "rack",
        "they are led in rack {rack}, but the same partitions of other topics, which are assigned"
        " to the same member, are led in the member's rack",
    )
    TOO_MANY_LEADERS = (
        "too-many-leaders",
        "rack",
        "rack {rack} leads {leaders}, and its {members} {read_there} {load} in balance{local}",
    )


class RemedyKind(Enum):
    """What can be done, and the text of that."""

    text: str

    def __new__(cls, value: str, text: str) -> RemedyKind:
        """Take the value, and a text in which the fields of `remedy_text` are replaced."""
        kind = object.__new__(cls)
        kind._value_, kind.text = value, text
        return kind

    WAIT = "wait", "wait until the group is stable"
    RESTORE_LEADERS = "restore-leaders", "bring their brokers back online"
    SET_BROKER_RACK = "set-broker-rack", "set broker.rack on {brokers}"
    SET_MEMBER_RACK = (
        "set-member-rack",
        "set the rack of {members}: client.rack, RACKWARD_RACK, or the assignor's rack",
    )
    REBALANCE = "rebalance", "rebalance with an assignor that uses the racks of leaders"
    MOVE_LEADERS = "move-leaders", "move {moves}"
    FIT_LEADERS = "fit-leaders", "move {leaders} to the racks of the members that read them"
    SUBSCRIBE = "subscribe", "subscribe the members in {rack} to {topics}"
    START_MEMBERS = "start-members", "start {more_members} in {rack}"
    SEPARATE_TOPICS = (
        "separate-topics",
        "set co_partitioned=False in the assignor, unless these topics are joined",
    )


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do, and its effect.

    off_rack_after
        The off-rack partitions of the whole group in the best assignment after this remedy alone
        and a rebalance, solved exactly; None if unknown. Leaders that are fitted to the assignment
        in force (FIT_LEADERS) need no rebalance.
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


def reason_text(finding: LocalityFinding) -> str:
    """Return why these partitions are not read locally: a sentence without its full stop."""
    is_one, readers = finding.members_in_rack == 1, len(finding.members)
    all_local = finding.load_in_rack == finding.local_in_rack
    return finding.reason.text.format(
        rack=finding.rack,
        leaders=_count(finding.leaders_in_rack, "partition"),
        members="member" if is_one else f"{finding.members_in_rack} members",
        do="does" if is_one else "do",
        read_there="reads" if is_one else "read",
        racks="the rack of the member" if readers == 1 else f"the racks of the {readers} members",
        read="reads" if readers == 1 else "read",
        are="is" if readers == 1 else "are",
        topics=_names([*finding.partitions]),
        load=finding.load_in_rack,
        local="" if all_local else f", {finding.local_in_rack} of them led there",
    )


def remedy_text(remedy: Remedy) -> str:
    """Return what to do, and the off-rack partitions of the whole group after that."""
    moves = {rack: sum(map(len, moved.values())) for rack, moved in remedy.moves.items()}
    (first, count), *others = moves.items() or [("", 0)]
    brokers = "broker" if len(remedy.brokers) == 1 else "brokers"
    instruction = remedy.kind.text.format(
        rack=remedy.rack,
        topics=_names(remedy.topics),
        brokers=f"{brokers} {', '.join(map(str, remedy.brokers))}"
        if remedy.brokers
        else "the brokers without one",
        members="this member" if len(remedy.members) == 1 else "these members",
        more_members=_count(remedy.count, "more member"),
        leaders=_count(sum(moves.values()), "leader"),
        moves=" and ".join(
            [f"{_count(count, 'leader')} to {first}", *(f"{n} to {rack}" for rack, n in others)]
        ),
    )
    after = remedy.off_rack_after
    return instruction if after is None else f"{instruction}: {after} off-rack at best"


def partition_ranges(partitions: Sequence[int], max_ranges: int = 12) -> str:
    """Return ``0-3, 7, 9-11``; after ``max_ranges`` ranges the number of further partitions."""
    ranges = [
        [partition for _, partition in group]
        for _, group in groupby(enumerate(sorted(partitions)), lambda pair: pair[1] - pair[0])
    ]
    text = ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in ranges[:max_ranges])
    rest = sum(map(len, ranges[max_ranges:]))
    return f"{text} and {rest} more" if rest else text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _names(names: Sequence[str], max_names: int = 3) -> str:
    text = ", ".join(names[:max_names])
    rest = len(names) - max_names
    return text if rest <= 0 else f"{text} and {rest} more"
