"""An assignment with the leaders of its moment, traffic by racks, and figures of both. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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

    Our groups are compared with this number, so it is a formula of its own and not the result of
    the solver that made the assignment. It holds for groups whose members all subscribe to the
    same partitions, and for racks without levels. ``leader_racks`` holds
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
