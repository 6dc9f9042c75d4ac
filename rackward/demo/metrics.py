"""What the demo measured, as frozen values, and the figures that follow from them.

Bytes are a matrix: (rack of the reading member, rack of the broker that sent) to bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rackward.demo.steps import Step, Strategy

# ---- The fewest off-rack partitions that a balanced group can have, by a formula of its own.
#
# The demo holds our group against this number, so it must not come from the solver that
# made the plan. It needs what the demo's groups have: every member subscribes to the same
# partitions, and racks are near or far, nothing between.
#
# Of P partitions and N members, every load is b = P // N or b + 1, and exactly e = P % N
# members have the latter. Say rack r has n members and leads L partitions. If x of its
# members are among the e, it has room for n·b + x and so reads at most min(L, n·b + x) in
# its own rack. Each unit of x adds one local partition while L - n·b is not used up, then
# nothing: at most min(n, max(0, L - n·b)) units are worth having. Units are alike and there
# are e in all, hence
#
#     local = Σ min(L, n·b) + min(e, Σ min(n, max(0, L - n·b)))
#
# and the bound is met: give each rack that much of its own, and what is left (partitions
# led elsewhere, or nowhere) fills the room that is left, which is the same number. What is
# led from a known rack and not local is off-rack.


def fewest_off_rack(member_racks: Iterable[str | None], leader_racks: Sequence[str | None]) -> int:
    """The optimum for members in ``member_racks`` that all read every partition.

    ``leader_racks`` holds the rack of each partition's leader; None (not known) costs
    nothing anywhere. Raises ValueError for a group without members.
    """
    members = Counter(member_racks)
    if not members:
        raise ValueError("a group without members has no optimum")
    leaders = Counter(rack for rack in leader_racks if rack is not None)
    floor, extra = divmod(len(leader_racks), members.total())
    local = worth_more = 0
    for rack, led in leaders.items():
        room = members[rack] * floor
        local += min(led, room)
        worth_more += min(members[rack], max(0, led - room))
    return leaders.total() - local - min(extra, worth_more)


Matrix = Mapping[tuple[str, str], int]
"""(reader's rack, broker's rack) to bytes."""

Assignment = Mapping[str, frozenset[int]]
"""Member to the partitions that it reads."""

SECONDS_PER_MONTH = 730 * 3600
"""The month that clouds bill by: 730 hours."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A group at one moment: who reads what, and where the leaders are."""

    member_racks: Mapping[str, str]
    assignment: Assignment
    leader_racks: Sequence[str | None]

    @property
    def off_rack(self) -> int:
        """Partitions whose leader's rack is known and is not their reader's."""
        return sum(
            self.leader_racks[partition] not in (None, self.member_racks[member])
            for member, partitions in self.assignment.items()
            for partition in partitions
        )

    @property
    def optimum(self) -> int:
        """The fewest off-rack partitions that a balanced group of these members can have."""
        return fewest_off_rack(self.member_racks.values(), self.leader_racks)

    @property
    def loads(self) -> tuple[int, int]:
        """The fewest and the most partitions that a member has."""
        sizes = [len(partitions) for partitions in self.assignment.values()]
        return min(sizes), max(sizes)

    @property
    def balanced(self) -> bool:
        """Whether loads differ by at most one and every partition has a reader."""
        fewest, most = self.loads
        read = Counter(p for partitions in self.assignment.values() for p in partitions)
        return most - fewest <= 1 and all(
            read[partition] == 1 for partition in range(len(self.leader_racks))
        )

    @property
    def at_optimum(self) -> bool:
        """Whether the group is balanced and no balanced group could read less off-rack."""
        return self.balanced and self.off_rack == self.optimum


def moved_between(before: Assignment, after: Assignment) -> int:
    """Partitions taken from a member that is in the group both before and after."""
    return sum(
        len(partitions - after[member]) for member, partitions in before.items() if member in after
    )


def crossing(matrix: Matrix) -> int:
    """Bytes that went from a broker in one rack to a member in another."""
    return sum(size for (reader, broker), size in matrix.items() if reader != broker)


def share(part: int, whole: int) -> float | None:
    """``part`` of ``whole`` (0 to 1); None where there is no whole."""
    return part / whole if whole else None


def add(matrices: Iterable[Matrix]) -> dict[tuple[str, str], int]:
    """The cell by cell sum."""
    total: Counter[tuple[str, str]] = Counter()
    for matrix in matrices:
        total.update(matrix)
    return dict(total)


@dataclass(frozen=True, slots=True)
class StepMeasure:
    """One strategy in one step.

    ``standing`` is the group as it stood at the step's end, ``moved`` what it took from
    staying members since the step before, ``interrupted`` how many partitions members had
    to let go (also those they got back at once: an eager rebalance lets go of all), and
    ``bytes`` what was sent to its members from the event until the step's end.
    """

    step: Step
    standing: Standing
    moved: int
    interrupted: int
    bytes: Matrix
    seconds: float


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """One strategy over the whole story."""

    strategy: Strategy
    steps: tuple[StepMeasure, ...]
    records: int

    @property
    def matrix(self) -> dict[tuple[str, str], int]:
        """Bytes over the whole story."""
        return add(step.bytes for step in self.steps)

    @property
    def total_bytes(self) -> int:
        """All that was sent to the group's members."""
        return sum(self.matrix.values())

    @property
    def crossing_bytes(self) -> int:
        """What of it crossed racks."""
        return crossing(self.matrix)

    @property
    def local_share(self) -> float | None:
        """The share of bytes that did not cross; None where nothing was read."""
        across = share(self.crossing_bytes, self.total_bytes)
        return None if across is None else 1 - across

    @property
    def moved(self) -> int:
        """Partitions taken from members that stayed, over all rebalances."""
        return sum(step.moved for step in self.steps)

    @property
    def interrupted(self) -> int:
        """Partitions that members had to let go, over all rebalances."""
        return sum(step.interrupted for step in self.steps)

    @property
    def loads(self) -> tuple[int, int]:
        """The fewest and the most partitions of a member, in the step where they differ most."""
        return max((step.standing.loads for step in self.steps), key=lambda load: load[1] - load[0])

    @property
    def short_of_optimum(self) -> tuple[StepMeasure, ...]:
        """The steps with a rebalance at whose end the group was not at the optimum."""
        return tuple(
            step for step in self.steps if step.step.rebalances and not step.standing.at_optimum
        )

    def monthly_price(self, seconds: float, price_per_gb: float) -> float:
        """What the crossing bytes of ``seconds`` come to in a month at the same rate."""
        return self.crossing_bytes / seconds * SECONDS_PER_MONTH / 1e9 * price_per_gb


@dataclass(frozen=True, slots=True)
class DemoResult:
    """All that one run of the demo found out.

    ``counted`` tells bytes that the brokers counted from bytes estimated by assignment and
    log growth. ``seconds`` is the measured time, from the first member's start to the last
    reading; ``produced_bytes`` is what the producer wrote in it, keys and headers left out.
    """

    strategies: tuple[StrategyResult, ...]
    racks: tuple[str, ...]
    cluster: str
    brokers: int
    partitions: int
    counted: bool
    seed: int
    seconds: float
    produced_bytes: int
    produced_records: int
    price_per_gb: float
    left_out: tuple[Step, ...]

    @property
    def at_optimum(self) -> bool:
        """Whether each of our groups was at the optimum after every rebalance."""
        return not any(
            result.short_of_optimum for result in self.strategies if result.strategy.ours
        )
