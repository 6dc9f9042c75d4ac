"""One reason for each partition that is not read in its leader's rack."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from assignors.explaining.model import LeaderBrokers, Reason
from assignors.explaining.situation import Situation
from assignors.intake import same_subscribers
from assignors.model import LeaderRacks
from assignors.ownership import NOBODY
from placement_core import parse_rack
from placement_core.matching import IntArray


def reasons_now(
    situation: Situation, leaders: LeaderBrokers | None, then: LeaderRacks | None
) -> dict[int, Reason]:
    """Partition to reason, of the assignment as it is.

    ``leaders`` tells which broker leads what, and ``then`` the racks of the leaders when the
    assignment was made, where these are known.
    """
    now, known = situation.now, situation.known
    found: dict[int, Reason] = {}
    for partition in np.flatnonzero(~known).tolist():
        found[partition] = _unknown(situation.place(partition), leaders)
    for partition in np.flatnonzero(now == NOBODY).tolist():
        found[partition] = Reason.UNREAD
    found |= structural(situation, now)
    for partition in _could_be_nearer(situation):
        moved = _was_local(situation, partition, then)
        found[partition] = Reason.LEADER_MOVED if moved else Reason.NOT_OPTIMAL
    return found


def structural(situation: Situation, holder: IntArray) -> dict[int, Reason]:
    """Off-rack partition to reason, as if ``holder`` were as local as can be."""
    group = situation.group
    crossed = situation.crossed(holder)
    local = situation.known & (crossed == 0) & (holder != NOBODY)
    seat = situation.unit * len(group.members) + holder
    shared = np.isin(seat, seat[local])
    subscribed: dict[tuple[int, int], Reason] = {}
    found: dict[int, Reason] = {}
    off = np.flatnonzero(crossed > 0)
    topic_of = group.topic_of
    for partition in off.tolist():
        if group.member_rack[holder[partition]] == 0:
            found[partition] = Reason.RACKLESS_MEMBER
            continue
        key = (int(group.leader_rack[partition]), int(topic_of[partition]))
        if key not in subscribed:
            subscribed[key] = _of_rack(situation, *key)
        reason = subscribed[key]
        if reason is Reason.TOO_MANY_LEADERS and shared[partition]:
            reason = Reason.CO_PARTITIONED
        found[partition] = reason
    return found


def _of_rack(situation: Situation, rack: int, topic: int) -> Reason:
    there = situation.standing_in(rack)
    if not there.any():
        return Reason.NO_MEMBER_IN_RACK
    group = situation.group
    if not group.subscribed[topic, group.subscription[there]].any():
        return Reason.NOT_SUBSCRIBED_IN_RACK
    return Reason.TOO_MANY_LEADERS


def _unknown(place: tuple[str, int], leaders: LeaderBrokers | None) -> Reason:
    if leaders is None:
        return Reason.LEADER_UNKNOWN
    return Reason.RACKLESS_BROKER if place in leaders else Reason.NO_LEADER


def _could_be_nearer(situation: Situation) -> list[int]:
    """Which partitions are read across more levels than they are where it is best.

    Partitions of one rack's leaders, of topics with the same subscribers, and of the same
    traffic are alike, so it is their numbers that are compared: the farthest now with the
    farthest at best, and so on. Where the best is better as a whole, one of these is; where it
    is not, nothing is to be gained, however partitions would be exchanged.
    """
    if situation.better <= 0:
        return []
    group = situation.group
    now, best = situation.crossed(situation.now), situation.crossed(situation.best)
    alike = same_subscribers(group)[0][group.topic_of]
    read = np.flatnonzero(situation.now != NOBODY)
    keys = np.stack([alike[read], group.leader_rack[read], situation.steps[read]])
    kind = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
    # Of those that are as far now, what the best reads nearer comes last, and so is named.
    by_now = np.lexsort((read, -best[read], -now[read], kind))
    by_best = np.lexsort((-best[read], kind))
    nearer = now[read[by_now]] > best[read[by_best]]
    return sorted(read[by_now[nearer]].tolist())


def _was_local(situation: Situation, partition: int, then: LeaderRacks | None) -> bool:
    if then is None:
        return False
    topic, number = situation.place(partition)
    row = then.get(topic, ())
    before = parse_rack(row[number]) if number < len(row) else None
    member = situation.group.members[int(situation.now[partition])]
    return before is not None and before == parse_rack(member.rack)


def count_unknown(reasons: Mapping[int, Reason]) -> int:
    """How many partitions are read from nobody knows where."""
    unknown = (Reason.NO_LEADER, Reason.RACKLESS_BROKER, Reason.LEADER_UNKNOWN)
    return sum(reason in unknown for reason in reasons.values())
