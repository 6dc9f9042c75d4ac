"""Findings and remedies in plain words, without what only the caller knows (names of commands)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from assignors.explain.model import Finding, Reason, Remedy, RemedyKind

_SET_RACK = "client.rack, RACKWARD_RACK, or the assignor's rack"


def why(found: Finding) -> str:
    """One sentence without its full stop: why these partitions are not read locally."""
    rack = found.rack
    led = f"{found.led} partition{'' if found.led == 1 else 's'}"
    match found.reason:
        case Reason.UNREAD:
            return "nobody reads them: they are being handed over, or are new"
        case Reason.NO_LEADER:
            return "they have no leader"
        case Reason.RACKLESS_BROKER:
            return "the broker that leads them has no rack"
        case Reason.LEADER_UNKNOWN:
            return "they have no leader, or its broker has no rack"
        case Reason.LEADER_MOVED:
            return "their leaders have moved since they were assigned, to where others read"
        case Reason.NOT_OPTIMAL:
            return "the assignment is not the best: other members could read them locally"
        case Reason.RACKLESS_MEMBER:
            if len(found.members) == 1:
                return "the member that reads them does not say in which rack it is"
            return f"the {len(found.members)} members that read them do not say where they are"
        case Reason.NO_MEMBER_IN_RACK:
            return f"rack {rack} leads {led}, and no member is there"
        case Reason.NOT_SUBSCRIBED_IN_RACK:
            those = (
                "the member" if found.members_there == 1 else f"the {found.members_there} members"
            )
            verb = "does" if found.members_there == 1 else "do"
            return f"{those} in rack {rack} {verb} not subscribe to {_names([*found.partitions])}"
        case Reason.CO_PARTITIONED:
            return (
                f"they are led in rack {rack}, but the same partitions of other topics, which go "
                "to the same member, are led where it is"
            )
        case Reason.TOO_MANY_LEADERS:
            its = (
                "its member carries"
                if found.members_there == 1
                else (f"its {found.members_there} members carry")
            )
            share = "" if found.load == found.local else f", {found.local} of them led there"
            carried = f"{its} {found.load} in balance{share}"
            return f"rack {rack} leads {led}, and {carried}"


def mend(remedy: Remedy) -> str:
    """What to do, and the off-rack partitions of the whole group after that."""
    return _do(remedy) + (
        "" if remedy.off_rack_after is None else f": {remedy.off_rack_after} off-rack at best"
    )


def numbers_text(numbers: Sequence[int], most: int = 12) -> str:
    """``0-3, 7, 9-11``; after so many runs, how many numbers more there are."""
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(sorted(numbers)), lambda each: each[1] - each[0])
    ]
    shown = ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs[:most])
    left = sum(map(len, runs[most:]))
    return f"{shown} and {left} more" if left else shown


def _do(remedy: Remedy) -> str:
    match remedy.kind:
        case RemedyKind.WAIT:
            return "wait for the group to settle"
        case RemedyKind.RESTORE_LEADERS:
            return "bring their brokers back"
        case RemedyKind.SET_BROKER_RACK:
            which = (
                f" {', '.join(map(str, remedy.brokers))}" if remedy.brokers else "s that lack it"
            )
            several = len(remedy.brokers) != 1
            return f"set broker.rack of broker{'s' if several and remedy.brokers else ''}{which}"
        case RemedyKind.SET_MEMBER_RACK:
            whom = "this member" if len(remedy.members) == 1 else "these members"
            return f"tell {whom} the rack: {_SET_RACK}"
        case RemedyKind.REBALANCE:
            return "rebalance with an assignor that looks at the racks of leaders"
        case RemedyKind.MOVE_LEADERS:
            ways = [
                f"{sum(map(len, partitions.values()))} to {rack}"
                for rack, partitions in remedy.moves.items()
            ]
            first, *others = ways
            number, to = first.split(" ", 1)
            noun = "leader" if number == "1" else "leaders"
            return "move " + " and ".join([f"{number} {noun} {to}", *others])
        case RemedyKind.SUBSCRIBE:
            return f"subscribe the members in {remedy.rack} to {_names(remedy.topics)}"
        case RemedyKind.START_MEMBERS:
            noun = "member" if remedy.count == 1 else "members"
            return f"start {remedy.count} more {noun} in {remedy.rack}"


def _names(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
