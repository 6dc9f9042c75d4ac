"""From an assignment to why it is not more local."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from assignors.encoding import NOBODY
from assignors.explain.causes import (
    Assigned,
    Question,
    Situation,
    count_unknown,
    move_leaders,
    read_situation,
    reasons_now,
    start_members,
    structural,
    subscribe,
)
from assignors.explain.model import (
    Explanation,
    Finding,
    LeaderBrokers,
    Partitions,
    Reason,
    Remedy,
    RemedyKind,
)
from assignors.model import Assignor, LeaderRacks, Member, Weights

MOST_SOLVED = 6
"""Findings, the largest first, for which it is solved what would mend them. Where each host is a
rack of its own there may be hundreds, and each takes several assignments to solve."""

_OF_A_RACK = (
    Reason.NO_MEMBER_IN_RACK,
    Reason.NOT_SUBSCRIBED_IN_RACK,
    Reason.CO_PARTITIONED,
    Reason.TOO_MANY_LEADERS,
)

Key = tuple[Reason, int]
"""A reason and the number of the leaders' rack, 0 where that does not matter."""


def explain(
    members: Iterable[Member],
    leader_racks: LeaderRacks,
    assigned: Assigned,
    assignor: Assignor,
    weights: Weights | None = None,
    *,
    leaders: LeaderBrokers | None = None,
    leader_racks_then: LeaderRacks | None = None,
) -> Explanation:
    """Why each partition that is not read in its leader's rack is not, and what would mend it.

    ``members`` are as for an assignor; what they own is not looked at. ``assigned`` is who reads
    what, member id to topic to partitions; what is read by several counts as read by nobody.
    ``assignor`` decides what is best, with ``weights`` if these are given: the group's own, or
    for a group of another assignor the one that balances alike. ``leaders`` tells which brokers
    lead, and so leaders without a rack from partitions without a leader. ``leader_racks_then``
    are the leaders' racks of when the assignment was made.

    Every partition that is not local has one reason, NOT_OPTIMAL or LEADER_MOVED only where
    another assignment is more local, and there at least one partition has.

    Raises InvalidGroupError where two members have one id.
    """
    everyone = tuple(replace(each, owned={}) for each in members)
    situation = read_situation(everyone, leader_racks, assigned, assignor, weights)
    reasons = reasons_now(situation, leaders, leader_racks_then)
    asked = Question(everyone, leader_racks, assignor, weights, situation.optimum)
    findings = _findings(situation, asked, reasons, leaders)
    read = situation.now != NOBODY
    unread = int((~read).sum())
    off_rack = int((situation.crossed(situation.now) > 0).sum())
    unknown = count_unknown(reasons)
    return Explanation(
        partitions=len(read),
        local=len(read) - off_rack - unknown - unread,
        off_rack=off_rack,
        unknown=unknown,
        unread=unread,
        optimum=situation.optimum,
        uneven=situation.better < 0,
        findings=tuple(findings),
    )


def _findings(
    situation: Situation,
    asked: Question,
    reasons: Mapping[int, Reason],
    leaders: LeaderBrokers | None,
) -> list[Finding]:
    names = _rack_names(situation, asked.leader_racks)
    grouped: dict[Key, list[int]] = {}
    for partition, reason in sorted(reasons.items()):
        grouped.setdefault(_key(situation, partition, reason), []).append(partition)
    ordered = sorted(
        grouped.items(), key=lambda each: (not each[0][0].off_rack, -len(each[1]), each[0][1])
    )
    at_best: dict[Key, list[int]] = {}
    for partition, reason in structural(situation, situation.best).items():
        at_best.setdefault(_key(situation, partition, reason), []).append(partition)
    found = []
    for at, (key, partitions) in enumerate(ordered):
        made = _finding(situation, key, partitions, names)
        remedies: list[Remedy | None] = _simple_remedies(situation, made, partitions, leaders)
        if key[0] in _OF_A_RACK and at < MOST_SOLVED:
            remedies += _solved_remedies(situation, asked, made, at_best.get(key, []))
        found.append(replace(made, remedies=tuple(each for each in remedies if each is not None)))
    return found


def _key(situation: Situation, partition: int, reason: Reason) -> Key:
    of_rack = reason in _OF_A_RACK
    return (reason, int(situation.group.leader_rack[partition]) if of_rack else 0)


def _finding(
    situation: Situation, key: Key, partitions: list[int], names: Mapping[int, str]
) -> Finding:
    reason, rack = key
    group, now, reference = situation.group, situation.now, situation.reference
    made = Finding(
        reason=reason,
        partitions=_by_topic(situation, partitions),
        members=tuple(sorted({group.members[m].id for m in now[partitions] if m != NOBODY})),
    )
    if reason.mended_by_rebalance:
        nearer = situation.crossed(situation.best) < situation.crossed(now)
        return replace(
            made,
            better={
                situation.place(p): group.members[situation.best[p]].id
                for p in partitions
                if nearer[p]
            },
        )
    if not rack:
        return made
    there = situation.standing_in(rack)
    led = group.leader_rack == rack
    carried = there[reference]
    return replace(
        made,
        rack=names[rack],
        led=int(led.sum()),
        members_there=int(there.sum()),
        load=int(carried.sum()),
        local=int((carried & led).sum()),
    )


def _simple_remedies(
    situation: Situation, found: Finding, partitions: list[int], leaders: LeaderBrokers | None
) -> list[Remedy | None]:
    """What is to be done where there is nothing to be solved."""
    match found.reason:
        case Reason.UNREAD:
            return [Remedy(RemedyKind.WAIT)]
        case Reason.NO_LEADER:
            return [Remedy(RemedyKind.RESTORE_LEADERS)]
        case Reason.RACKLESS_BROKER if leaders is not None:
            brokers = {leaders[situation.place(p)] for p in partitions}
            return [Remedy(RemedyKind.SET_BROKER_RACK, brokers=tuple(sorted(brokers)))]
        case Reason.LEADER_UNKNOWN:
            return [Remedy(RemedyKind.RESTORE_LEADERS), Remedy(RemedyKind.SET_BROKER_RACK)]
        case Reason.LEADER_MOVED | Reason.NOT_OPTIMAL:
            return [Remedy(RemedyKind.REBALANCE, situation.optimum)]
        case Reason.RACKLESS_MEMBER:
            return [Remedy(RemedyKind.SET_MEMBER_RACK, members=found.members)]
    return []


def _solved_remedies(
    situation: Situation, asked: Question, found: Finding, at_best: list[int]
) -> list[Remedy | None]:
    """``at_best`` are the partitions that have this reason in the best assignment."""
    assert found.rack is not None
    topics = list(found.partitions)
    group = situation.group
    moving: dict[str, list[int]] = {}
    for partition in at_best:
        rack = group.members[situation.best[partition]].rack
        assert rack is not None
        moving.setdefault(rack, []).append(partition)
    moves = {rack: _by_topic(situation, moving[rack]) for rack in sorted(moving)}
    leaders = move_leaders(asked, moves)
    match found.reason:
        case Reason.NO_MEMBER_IN_RACK:
            return [start_members(asked, found.rack, topics, len(at_best)), leaders]
        case Reason.NOT_SUBSCRIBED_IN_RACK:
            return [subscribe(asked, found.rack, topics), leaders]
        case Reason.TOO_MANY_LEADERS:
            return [leaders, start_members(asked, found.rack, topics, len(at_best))]
    return [leaders]


def _by_topic(situation: Situation, partitions: Iterable[int]) -> Partitions:
    found: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        topic, number = situation.place(partition)
        found.setdefault(topic, []).append(number)
    return {topic: tuple(numbers) for topic, numbers in found.items()}


def _rack_names(situation: Situation, leader_racks: LeaderRacks) -> dict[int, str]:
    """Each rack's name as a broker says it; ``/a`` and ``a`` are one rack."""
    group = situation.group
    _, firsts = np.unique(group.leader_rack, return_index=True)
    names = {}
    for partition in firsts.tolist():
        topic, number = situation.place(partition)
        names[int(group.leader_rack[partition])] = str(leader_racks[topic][number])
    return names
