"""What would mend it, and what that comes to: each claim is solved, not estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assignors.explaining.model import Partitions, Remedy, RemedyKind
from assignors.model import Assignor, LeaderRacks, Member, Weights
from placement_core import parse_rack

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
