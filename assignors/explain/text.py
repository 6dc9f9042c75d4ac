"""Findings and remedies as text, without what depends on the caller, such as names of commands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from assignors.explain.model import LocalityFinding, Reason, Remedy, RemedyKind


def reason_text(finding: LocalityFinding) -> str:
    """Return why these partitions are not read locally: a sentence without its full stop."""
    rack, members = finding.rack, finding.members_in_rack
    leads = f"rack {rack} leads {_count(finding.leaders_in_rack, 'partition')}"
    match finding.reason:
        case Reason.UNREAD:
            return "no member reads them: they are being revoked, or are new"
        case Reason.NO_LEADER:
            return "they have no leader"
        case Reason.RACKLESS_BROKER:
            return "their leader's broker has no rack"
        case Reason.LEADER_UNKNOWN:
            return "they have no leader, or its broker has no rack"
        case Reason.REPLICA_UNKNOWN:
            return (
                "brokers have a replica selector, and do not tell whether these clients fetch with "
                "a rack (client.rack, client_rack): with one, they read replicas in their rack"
            )
        case Reason.LEADER_MOVED:
            return "their leaders have moved to the racks of other members since the assignment"
        case Reason.NOT_OPTIMAL:
            return "the assignment is not optimal: other members could read them locally"
        case Reason.RACKLESS_MEMBER:
            if len(finding.members) == 1:
                return "the rack of the member that reads them is unknown"
            return f"the racks of the {len(finding.members)} members that read them are unknown"
        case Reason.NO_MEMBER_IN_RACK:
            return f"{leads}, and no member is in it"
        case Reason.NOT_SUBSCRIBED_IN_RACK:
            subject = "the member" if members == 1 else f"the {members} members"
            verb = "does" if members == 1 else "do"
            topics = _names([*finding.partitions])
            return f"{subject} in rack {rack} {verb} not subscribe to {topics}"
        case Reason.CO_PARTITIONED:
            return (
                f"they are led in rack {rack}, but the same partitions of other topics, which are "
                "assigned to the same member, are led in the member's rack"
            )
        case Reason.TOO_MANY_LEADERS:
            read = "its member reads" if members == 1 else f"its {members} members read"
            local = f", {finding.local_in_rack} of them led there"
            if finding.load_in_rack == finding.local_in_rack:
                local = ""
            return f"{leads}, and {read} {finding.load_in_rack} in balance{local}"


def remedy_text(remedy: Remedy) -> str:
    """Return what to do, and the off-rack partitions of the whole group after that."""
    after = remedy.off_rack_after
    return _instruction(remedy) + ("" if after is None else f": {after} off-rack at best")


def partition_ranges(partitions: Sequence[int], max_ranges: int = 12) -> str:
    """Return ``0-3, 7, 9-11``; after ``max_ranges`` ranges the number of further partitions."""
    ranges = [
        [partition for _, partition in group]
        for _, group in groupby(enumerate(sorted(partitions)), lambda each: each[1] - each[0])
    ]
    text = ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in ranges[:max_ranges])
    rest = sum(map(len, ranges[max_ranges:]))
    return f"{text} and {rest} more" if rest else text


def _instruction(remedy: Remedy) -> str:
    match remedy.kind:
        case RemedyKind.WAIT:
            return "wait until the group is stable"
        case RemedyKind.RESTORE_LEADERS:
            return "bring their brokers back online"
        case RemedyKind.SET_BROKER_RACK:
            if not remedy.brokers:
                return "set broker.rack on the brokers without one"
            noun = "broker" if len(remedy.brokers) == 1 else "brokers"
            return f"set broker.rack on {noun} {', '.join(map(str, remedy.brokers))}"
        case RemedyKind.SET_MEMBER_RACK:
            members = "this member" if len(remedy.members) == 1 else "these members"
            return f"set the rack of {members}: client.rack, RACKWARD_RACK, or the assignor's rack"
        case RemedyKind.REBALANCE:
            return "rebalance with an assignor that uses the racks of leaders"
        case RemedyKind.FIT_LEADERS:
            count = sum(
                len(numbers) for moved in remedy.moves.values() for numbers in moved.values()
            )
            return f"move {_count(count, 'leader')} to the racks of the members that read them"
        case RemedyKind.MOVE_LEADERS:
            moves = [(rack, sum(map(len, moved.values()))) for rack, moved in remedy.moves.items()]
            (rack, count), *others = moves
            first = f"{_count(count, 'leader')} to {rack}"
            return "move " + " and ".join([first, *(f"{n} to {other}" for other, n in others)])
        case RemedyKind.SUBSCRIBE:
            return f"subscribe the members in {remedy.rack} to {_names(remedy.topics)}"
        case RemedyKind.SEPARATE_TOPICS:
            return "set co_partitioned=False in the assignor, unless these topics are joined"
        case RemedyKind.START_MEMBERS:
            noun = "member" if remedy.count == 1 else "members"
            return f"start {remedy.count} more {noun} in {remedy.rack}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _names(names: Sequence[str], max_names: int = 3) -> str:
    text = ", ".join(names[:max_names])
    rest = len(names) - max_names
    return text if rest <= 0 else f"{text} and {rest} more"
