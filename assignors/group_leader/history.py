"""The last assignment of each group, for log lines, metrics and explanations."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from assignors.explain import Explanation, explain
from assignors.group import UNASSIGNED, AssignedPartitions, Group, Members
from assignors.group_leader.logs import GroupContext
from assignors.group_leader.metadata import Leaders
from assignors.model import Assignor, LeaderRacks, Weights


@dataclass(frozen=True, slots=True)
class AssignmentInputs:
    """What an assignment was made from. References, not copies."""

    members: Members
    leaders: Leaders
    weights: Weights | None
    assignor: Assignor


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """A member of the group, and how many partitions it was assigned.

    ``rack`` is None if unknown. ``local`` is the number of its partitions led in its rack.
    """

    id: str
    instance_id: str | None
    rack: str | None
    partitions: int
    local: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """One assignment, made by this process as the group's leader.

    group, generation
        Empty and -1 if the client does not report them.
    number
        How many assignments of this group this assignor has made, this one included.
    at
        When it was made, in UTC.
    protocol
        The assignor's name.
    partitions
        The number of partitions of all subscribed topics that exist.
    off_rack, optimum, moved
        As in :class:`assignors.Plan`. None if the assignor failed and the group got a fallback
        assignment without regard to racks; ``optimum`` also if nothing is proved.
    moved_total
        The sum of ``moved`` over these ``number`` assignments, as far as known.
    withheld
        The number of partitions that are not assigned until their owners have revoked them, in
        the next rebalance.
    milliseconds
        How long it took, with reading subscriptions and metadata.
    assigned
        Member id to topic to partitions, without the withheld ones.
    """

    group: str
    generation: int
    number: int
    at: datetime
    protocol: str
    partitions: int
    off_rack: int | None
    optimum: int | None
    moved: int | None
    moved_total: int
    withheld: int
    milliseconds: float
    inputs: AssignmentInputs = field(repr=False, compare=False)
    assigned: AssignedPartitions = field(repr=False, compare=False)

    @property
    def members(self) -> tuple[MemberAssignment, ...]:
        """The members sorted by id, and what each was assigned."""
        group = Group.of(self.inputs.members, self.inputs.leaders.racks)
        member = group.members_of(self.assigned)
        is_local = (member != UNASSIGNED) & (group.leader_rack > 0)
        is_local &= group.levels_crossed(member) == 0
        count = len(group.members)
        local = np.bincount(member[is_local], minlength=count).tolist()
        loads = np.bincount(self.assigned.assigned + 1, minlength=count + 1)[1:].tolist()
        return tuple(
            MemberAssignment(member_id, instance_id, rack or None, load, of_rack)
            for member_id, instance_id, rack, load, of_rack in zip(
                group.members.ids,
                group.members.instance_ids,
                group.members.racks,
                loads,
                local,
                strict=True,
            )
        )

    def explain(self, leader_racks: LeaderRacks | None = None) -> Explanation:
        """Return why each partition that is not read in its leader's rack is not, and remedies.

        With ``leader_racks``, the present racks of the leaders (of the topics as they were),
        leaders that have moved since are a reason of their own. Solves dozens of assignments and
        takes as long, so call it on demand and not in a rebalance.

        Raises what the assignor raises.
        """
        inputs = self.inputs
        then = inputs.leaders.racks
        now = then if leader_racks is None else {t: leader_racks.get(t, then[t]) for t in then}
        return explain(
            inputs.members,
            now,
            self.assigned,
            inputs.assignor,
            inputs.weights,
            previous_leader_racks=None if leader_racks is None else then,
        )

    def __str__(self) -> str:
        """Return the line of the log."""
        off_rack, optimum, moved = (
            "unknown" if figure is None else figure
            for figure in (self.off_rack, self.optimum, self.moved)
        )
        return (
            f"assigned: {GroupContext(self.group, self.generation)} protocol={self.protocol}"
            f" members={len(self.inputs.members)} topics={len(self.inputs.leaders.racks)}"
            f" partitions={self.partitions} off_rack={off_rack} optimum={optimum} moved={moved}"
            f" withheld={self.withheld} ms={self.milliseconds:.1f}"
        )


class AssignmentHistory:
    """The last assignment of each of the ``MAX_GROUPS`` groups assigned last. Thread-safe."""

    MAX_GROUPS = 16

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[str, Assignment] = {}

    def record(self, assignment: Assignment) -> Assignment:
        """Replace the latest assignment of the group. Return it, with the sums of both."""
        with self._lock:
            before = self._latest.pop(assignment.group, None)
            if before is not None:
                assignment = replace(
                    assignment,
                    number=before.number + assignment.number,
                    moved_total=before.moved_total + assignment.moved_total,
                )
            self._latest[assignment.group] = assignment
            if len(self._latest) > self.MAX_GROUPS:
                del self._latest[next(iter(self._latest))]
        return assignment

    def latest(self, group: str | None = None) -> Assignment | None:
        """Return the latest assignment of ``group``, or of any; None if there is none."""
        with self._lock:
            if group is not None:
                return self._latest.get(group)
            return next(reversed(self._latest.values()), None)

    def all(self) -> tuple[Assignment, ...]:
        """Return the latest assignment of each group, the most recent last."""
        with self._lock:
            return tuple(self._latest.values())
