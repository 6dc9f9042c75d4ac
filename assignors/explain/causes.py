"""An assignment as it is beside one as it could be, as arrays over all partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assignors.encoding import NOBODY, Group, read_group, read_owners, same_subscribers
from assignors.explain.model import LeaderBrokers, Partitions, Reason, Remedy, RemedyKind
from assignors.model import Assignor, LeaderRacks, Member, Weights
from assignors.partition_classes import traffic_steps
from assignors.range import LeaderRackAwareRange, topic_groups
from placement_core import parse_rack
from placement_core.flow import IntArray

Assigned = Mapping[str, Mapping[str, Sequence[int]]]
"""Member id to topic to partitions."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A group, who holds each partition now, and who would at best.

    now, best
        Per partition a member's number; ``now`` may be NOBODY. Of all assignments that are
        best, one near to ``now`` where the assignor is one that looks at what is owned.
    optimum
        The off-rack partitions of ``best``.
    better
        Whether ``best`` is more local than ``now``: -1 less, 0 equally, 1 more.
    steps
        Each partition's traffic.
    unit
        Per partition, what goes to one member as a whole (an index of co-partitioned topics).
    """

    group: Group
    now: IntArray
    best: IntArray
    optimum: int
    better: int
    steps: IntArray
    unit: IntArray

    @property
    def reference(self) -> IntArray:
        """The more local of the two; ``now``, with what nobody reads filled in, of equals."""
        return self.best if self.better > 0 else _filled(self.now, self.best)

    def crossed(self, holder: IntArray) -> IntArray:
        """How many levels each partition crosses; 0 also where nobody can say."""
        return _crossed(self.group, holder)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Per partition, whether its leader's rack is known."""
        return self.group.leader_rack > 0

    def standing_in(self, rack: int) -> NDArray[np.bool_]:
        """Per member, whether it is in this rack (a number of ``group.leader_rack``, not 0)."""
        there: NDArray[np.bool_] = self.group.crossed[rack, self.group.member_rack] == 0
        return there

    def place(self, partition: int) -> tuple[str, int]:
        """Topic and number of one of the row of all partitions."""
        topic = int(np.searchsorted(self.group.base, partition, side="right")) - 1
        return self.group.topics[topic], partition - int(self.group.base[topic])


def read_situation(
    members: Iterable[Member],
    leader_racks: LeaderRacks,
    assigned: Assigned,
    assignor: Assignor,
    weights: Weights | None,
) -> Situation:
    """Look at ``assigned``, and have ``assignor`` say what it would do in its place.

    Raises what ``assignor`` raises.
    """
    holding = _holding(members, assigned)
    group = read_group(holding, leader_racks)
    plan = assignor.assign(holding, leader_racks, weights)
    now = read_owners(group)
    best = read_owners(read_group(_holding(holding, plan.partitions), leader_racks))
    steps = traffic_steps(group, weights)
    costs = [_cost(group, holder, steps) for holder in (_filled(now, best), best)]
    return Situation(
        group=group,
        now=now,
        best=best,
        optimum=plan.off_rack,
        better=(costs[0] > costs[1]) - (costs[0] < costs[1]),
        steps=steps,
        unit=_units(group, assignor),
    )


def _holding(members: Iterable[Member], assigned: Assigned) -> list[Member]:
    return [replace(each, owned=assigned.get(each.id, {}), generation=0) for each in members]


def _filled(now: IntArray, best: IntArray) -> IntArray:
    """What nobody reads yet counts as read by whom it should be."""
    return np.where(now == NOBODY, best, now)


def _crossed(group: Group, holder: IntArray) -> IntArray:
    if not len(holder):
        return np.zeros(0, np.int64)
    found: IntArray = group.crossed[group.leader_rack, group.member_rack[holder]]
    found[holder == NOBODY] = 0
    return found


def _cost(group: Group, holder: IntArray, steps: IntArray) -> tuple[int, ...]:
    """The traffic across each level, widest first."""
    crossed = _crossed(group, holder)
    return tuple(int(steps[crossed >= group.depth - level].sum()) for level in range(group.depth))


def _units(group: Group, assignor: Assignor) -> IntArray:
    unit: IntArray = np.arange(int(group.base[-1]))
    if isinstance(assignor, LeaderRackAwareRange):
        for topics in topic_groups(group, co_partitioned=assignor.co_partitioned):
            for topic in topics[1:]:
                start, end = group.base[topic], group.base[topic + 1]
                first = group.base[topics[0]]
                unit[start:end] = np.arange(first, first + end - start)
    return unit


# ---- One reason for each partition that is not read in its leader's rack.


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


# ---- What would mend it, and what that comes to: each claim is solved, not estimated.

MOST_TIMES = 8
"""Times as many members as there are, that might be started: more is no advice."""


@dataclass(frozen=True, slots=True)
class Question:
    """The group as it is: ``optimum`` is its off-rack partitions at best."""

    members: tuple[Member, ...]
    leader_racks: LeaderRacks
    assignor: Assignor
    weights: Weights | None
    optimum: int

    def off_rack(
        self, members: Sequence[Member] | None = None, leader_racks: LeaderRacks | None = None
    ) -> int:
        """The off-rack partitions at best of other members, or with other leaders."""
        return self.assignor.assign(
            self.members if members is None else members,
            self.leader_racks if leader_racks is None else leader_racks,
            self.weights,
        ).off_rack


def move_leaders(asked: Question, moves: Mapping[str, Partitions]) -> Remedy | None:
    """Let each rack of ``moves`` lead these partitions, which its members read anyway."""
    racks = {topic: list(row) for topic, row in asked.leader_racks.items()}
    for rack, partitions in moves.items():
        for topic, numbers in partitions.items():
            for number in numbers:
                racks[topic][number] = rack
    after = asked.off_rack(leader_racks=racks)
    if not moves or after >= asked.optimum:
        return None
    return Remedy(RemedyKind.MOVE_LEADERS, after, moves=moves)


def start_members(asked: Question, rack: str, topics: Sequence[str], surplus: int) -> Remedy | None:
    """Start so few members in ``rack`` that its ``surplus`` is off-rack no more, if that can be.

    Looked for by doubling and halving: locality falls with the number of members, but for
    where the rounding of loads gets in its way. What is claimed of the number found is exact.
    """
    wanted = _subscription(asked, topics)
    partitions = sum(len(asked.leader_racks.get(topic, ())) for topic in wanted)
    most = max(1, min(partitions, MOST_TIMES * len(asked.members)))
    found: dict[int, int] = {}

    def mended(count: int) -> bool:
        found[count] = asked.off_rack(_with_started(asked.members, rack, wanted, count))
        return found[count] <= asked.optimum - surplus

    high = 1
    while not mended(high) and high < most:
        high = min(2 * high, most)
    low = high // 2
    while found[high] <= asked.optimum - surplus and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if mended(middle) else (middle, high)
    after, count = min((after, count) for count, after in found.items())
    if found[high] <= asked.optimum - surplus:
        after, count = found[high], high
    if after >= asked.optimum:
        return None
    return Remedy(
        RemedyKind.START_MEMBERS, after, rack=rack, count=count, topics=tuple(sorted(wanted))
    )


def subscribe(asked: Question, rack: str, topics: Sequence[str]) -> Remedy | None:
    """Have the members in ``rack`` subscribe to ``topics`` as well."""
    path = parse_rack(rack)
    after = asked.off_rack(
        [
            replace(each, topics=frozenset(each.topics) | frozenset(topics))
            if parse_rack(each.rack) == path
            else each
            for each in asked.members
        ]
    )
    if after >= asked.optimum:
        return None
    return Remedy(RemedyKind.SUBSCRIBE, after, rack=rack, topics=tuple(topics))


def _subscription(asked: Question, topics: Sequence[str]) -> frozenset[str]:
    """What a member reads that is started for ``topics``: all, where all members read alike."""
    there = frozenset(asked.leader_racks)
    subscriptions = {frozenset(each.topics) & there for each in asked.members}
    return subscriptions.pop() if len(subscriptions) == 1 else frozenset(topics)


def _with_started(
    members: Sequence[Member], rack: str, topics: frozenset[str], count: int
) -> list[Member]:
    # Longer than any id there is, and so none of these.
    stem = max((each.id for each in members), key=len, default="")
    return [*members, *(Member(f"{stem}+{n}", topics, rack) for n in range(count))]
