"""The demo's assignors and steps, its results as frozen values, and figures derived from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

# ---- The assignors that the demo compares, and the steps that it runs with all of them.


@dataclass(frozen=True, slots=True)
class Strategy:
    """One assignor.

    ``key`` identifies it in JSON, group ids, listener names and log files. ``is_rackward`` marks
    those whose assignments the demo compares with the optimum.
    """

    key: str
    title: str
    is_rackward: bool


STRATEGIES: tuple[Strategy, ...] = (
    Strategy("kafka-python-range", "kafka-python Range", is_rackward=False),
    Strategy("kafka-python-sticky", "kafka-python CooperativeSticky", is_rackward=False),
    Strategy("rackward-range", "rackward Range", is_rackward=True),
    Strategy("rackward-sticky", "rackward CooperativeSticky", is_rackward=True),
)


class Event(Enum):
    """What happens at the beginning of a step."""

    START = "start"
    LEADERS_MOVE = "leaders-move"
    MEMBER_LEAVES = "member-leaves"
    MEMBER_JOINS = "member-joins"
    BROKER_DIES = "broker-dies"
    BROKER_RETURNS = "broker-returns"


@dataclass(frozen=True, slots=True)
class Step:
    """An event, followed by a period of steady reading.

    ``rebalances`` is true if the event makes groups rebalance, so that each assignor has
    assigned anew when the step ends. ``destructive`` steps stop brokers or move leaders, and
    run only on a cluster that the demo started.
    """

    event: Event
    title: str
    rebalances: bool
    destructive: bool


STEPS: tuple[Step, ...] = (
    Step(Event.START, "all members start", rebalances=True, destructive=False),
    Step(Event.LEADERS_MOVE, "a tenth of the leaders move", rebalances=False, destructive=True),
    Step(Event.MEMBER_LEAVES, "a member leaves", rebalances=True, destructive=False),
    Step(Event.MEMBER_JOINS, "a member joins", rebalances=True, destructive=False),
    Step(Event.BROKER_DIES, "a broker dies", rebalances=False, destructive=True),
    Step(Event.BROKER_RETURNS, "the broker returns", rebalances=False, destructive=True),
)


def steps_for(*, own_cluster: bool) -> tuple[Step, ...]:
    """Return the steps to run: all of them only on a cluster that the demo started."""
    return tuple(step for step in STEPS if own_cluster or not step.destructive)


def skipped_steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps that are not in ``steps``."""
    return tuple(step for step in STEPS if step not in steps)


TrafficMatrix = Mapping[tuple[str, str], int]
"""(rack of the reading member, rack of the sending broker) to bytes."""

Assignment = Mapping[str, frozenset[int]]
"""Member to the partitions that it reads."""

SECONDS_PER_MONTH = 730 * 3600
"""Cloud providers bill a month as 730 hours."""


@dataclass(frozen=True, slots=True)
class AssignmentSnapshot:
    """A group's assignment and the partitions' leaders at one moment.

    ``leader_racks`` holds each partition's leader's rack, None if unknown.
    """

    member_racks: Mapping[str, str]
    assignment: Assignment
    leader_racks: Sequence[str | None]

    @property
    def off_rack(self) -> int:
        """Number of partitions whose leader's rack is known and is not their reader's."""
        return sum(
            self.leader_racks[partition] not in (None, self.member_racks[member])
            for member, partitions in self.assignment.items()
            for partition in partitions
        )

    @property
    def optimum(self) -> int:
        """Minimum of `off_rack` for a balanced group of these members."""
        return min_off_rack(self.member_racks.values(), self.leader_racks)

    @property
    def load_range(self) -> tuple[int, int]:
        """Minimum and maximum number of partitions per member."""
        loads = [len(partitions) for partitions in self.assignment.values()]
        return min(loads), max(loads)

    @property
    def is_balanced(self) -> bool:
        """Whether loads differ by at most one and every partition has exactly one reader."""
        min_load, max_load = self.load_range
        readers = Counter(p for partitions in self.assignment.values() for p in partitions)
        return max_load - min_load <= 1 and all(
            readers[partition] == 1 for partition in range(len(self.leader_racks))
        )

    @property
    def is_optimal(self) -> bool:
        """Whether the group is balanced with the minimum of off-rack partitions."""
        return self.is_balanced and self.off_rack == self.optimum


@dataclass(frozen=True, slots=True)
class StepResult:
    """One strategy in one step.

    ``snapshot`` is taken at the end of the step. ``moved`` counts partitions taken from members
    that stayed in the group. ``revoked`` counts partitions that members had to give up, including
    those that they got back at once (an eager rebalance revokes all). ``bytes`` were sent to the
    members from the event until the end of the step.
    """

    step: Step
    snapshot: AssignmentSnapshot
    moved: int
    revoked: int
    bytes: TrafficMatrix
    seconds: float


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """One strategy over all steps."""

    strategy: Strategy
    steps: tuple[StepResult, ...]
    records_read: int

    @property
    def matrix(self) -> dict[tuple[str, str], int]:
        """Bytes over all steps."""
        return sum_matrices(step.bytes for step in self.steps)

    @property
    def total_bytes(self) -> int:
        """Bytes sent to the group's members."""
        return sum(self.matrix.values())

    @property
    def cross_rack_bytes(self) -> int:
        """Bytes sent to members in another rack than the broker."""
        return cross_rack_bytes(self.matrix)

    @property
    def local_share(self) -> float | None:
        """Share (0 to 1) of the bytes read in the same rack; None if nothing was read."""
        cross_rack_share = share(self.cross_rack_bytes, self.total_bytes)
        return None if cross_rack_share is None else 1 - cross_rack_share

    @property
    def moved(self) -> int:
        """Partitions taken from members that stayed in the group, over all steps."""
        return sum(step.moved for step in self.steps)

    @property
    def revoked(self) -> int:
        """Partitions that members had to give up, over all steps."""
        return sum(step.revoked for step in self.steps)

    @property
    def widest_load_range(self) -> tuple[int, int]:
        """Minimum and maximum partitions per member, in the step where they differ most."""
        ranges = [step.snapshot.load_range for step in self.steps]
        return max(ranges, key=lambda loads: loads[1] - loads[0])

    @property
    def suboptimal_steps(self) -> tuple[StepResult, ...]:
        """The steps with a rebalance that ended with a suboptimal assignment."""
        return tuple(
            step for step in self.steps if step.step.rebalances and not step.snapshot.is_optimal
        )

    def cost_per_month(self, seconds: float, price_per_gb: float) -> float:
        """Return the cost of a month at the rate of cross-rack bytes over ``seconds``."""
        return self.cross_rack_bytes / seconds * SECONDS_PER_MONTH / 1e9 * price_per_gb


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of one run.

    ``bytes_counted`` is true if the brokers counted the bytes, false if they are estimated from
    assignments and log growth. ``seconds`` is the time of all steps. ``produced_bytes`` counts
    values, without keys and headers, in that time.
    """

    strategies: tuple[StrategyResult, ...]
    racks: tuple[str, ...]
    cluster: str
    brokers: int
    partitions: int
    bytes_counted: bool
    seed: int
    seconds: float
    produced_bytes: int
    produced_records: int
    price_per_gb: float
    skipped_steps: tuple[Step, ...]

    @property
    def is_optimal(self) -> bool:
        """Whether all groups with an assignor of rackward were optimal after every rebalance."""
        return not any(
            result.suboptimal_steps for result in self.strategies if result.strategy.is_rackward
        )


def moved_partitions(before: Assignment, after: Assignment) -> int:
    """Return the number of partitions taken from members that are in both assignments."""
    return sum(
        len(partitions - after[member]) for member, partitions in before.items() if member in after
    )


def cross_rack_bytes(matrix: TrafficMatrix) -> int:
    """Return the bytes sent from a broker in one rack to members in another."""
    return sum(size for (reader, broker), size in matrix.items() if reader != broker)


def share(part: int, whole: int) -> float | None:
    """Return ``part`` as a share (0 to 1) of ``whole``; None if ``whole`` is 0."""
    return part / whole if whole else None


def sum_matrices(matrices: Iterable[TrafficMatrix]) -> dict[tuple[str, str], int]:
    """Return the sum by cell."""
    total: Counter[tuple[str, str]] = Counter()
    for matrix in matrices:
        total.update(matrix)
    return dict(total)


def min_off_rack(member_racks: Iterable[str | None], leader_racks: Sequence[str | None]) -> int:
    """Return the minimum number of off-rack partitions that a balanced group can have.

    The demo compares our groups with this number, so it is a formula of its own and not the
    result of the solver that made the assignment. It holds for groups like the demo's: every
    member subscribes to the same partitions, and racks have no levels. ``leader_racks`` holds
    the rack of each partition's leader; None (unknown) is never off-rack. Raises ValueError
    for a group without members.

    Of P partitions and N members, every member reads b = P // N or b + 1, and exactly
    e = P % N members read b + 1. Let rack r have n members and lead L partitions. If x of its
    members are among the e, they read at most min(L, n·b + x) partitions in their own rack.
    Each unit of x adds one local partition until L is reached, so at most
    min(n, max(0, L - n·b)) units are useful in this rack. Units are interchangeable and there
    are e of them, hence

        local = Σ min(L, n·b) + min(e, Σ min(n, max(0, L - n·b)))

    The bound is reached: assign that many local partitions in each rack, and the other
    partitions to the remaining capacity, which is exactly as large. Partitions with a known
    leader rack that are not local are off-rack.
    """
    members = Counter(member_racks)
    if not members:
        raise ValueError("a group without members has no optimum")
    leaders = Counter(rack for rack in leader_racks if rack is not None)
    base, extra = divmod(len(leader_racks), members.total())
    local = useful_extra = 0
    for rack, led in leaders.items():
        capacity = members[rack] * base
        local += min(led, capacity)
        useful_extra += min(members[rack], max(0, led - capacity))
    return leaders.total() - local - min(extra, useful_extra)
