"""Whether partition leaders that moved since an assignment justify a rebalance."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from assignors.group import UNASSIGNED, AssignedPartitions, Group, Members
from assignors.group_leader.logs import GroupContext, format_error, log
from assignors.group_leader.metadata import Leaders, Metadata
from assignors.leader_moves import NO_GAIN, Gain, RefreshPolicy, RefreshState, observe
from assignors.model import Assignor, LeaderRacks, Member, WeightSource
from assignors.weights import traffic_weights

if TYPE_CHECKING:
    from assignors.group_leader.rebalance import GroupProtocol

ReadMetadata = Callable[[Iterable[str]], Metadata]
"""Returns what a client's metadata has of some topics."""

PARTITIONS_PER_CHECK = 10_000
"""A group of more partitions is checked less often, in proportion."""


class LeaderMoveMonitor:
    """Decides when to request a rebalance, on the member that made the assignment in force.

    Nothing here raises: an error costs locality and a line in the log.
    """

    def __init__(self, policy: RefreshPolicy, protocol: GroupProtocol) -> None:
        self.protocol = protocol
        self._policy = policy
        self._current: tuple[Members, AssignedPartitions, Leaders] | None = None
        self._state: RefreshState | None = None
        self._generation = 0
        self._partitions = 0
        self._last_gain: tuple[Leaders, Gain] | None = None

    @property
    def interval(self) -> float:
        """Seconds from one check to the next."""
        return self._policy.check_interval * max(1.0, self._partitions / PARTITIONS_PER_CHECK)

    def start(
        self,
        generation: int,
        members: Members,
        assigned: AssignedPartitions | None,
        leaders: Leaders,
        now: float,
    ) -> None:
        """Monitor what ``members`` are assigned in that generation, made for ``leaders``.

        None monitors nothing: partitions are withheld, and another round follows.
        """
        # An assignment is made twice in a generation if the brokers missed the first.
        same_leader = generation <= 1 or generation in (self._generation, self._generation + 1)
        before = (self._state or RefreshState()) if same_leader else None
        self._state, self._generation = self._policy.initial_state(before, now), generation
        self._current = self._last_gain = None
        self._partitions = sum(map(len, leaders.racks.values()))
        if assigned is not None:
            self._current = members, assigned, leaders

    def check(self, read: ReadMetadata, now: float, context: GroupContext) -> bool:
        """Return whether to request a rebalance. If so, the reason is logged at INFO."""
        if self._current is None or self._state is None:
            return False
        try:
            return self._check(self._current, self._state, read, now, context)
        except Exception as error:  # noqa: BLE001 - the consumer must go on
            self.protocol.log_once.log(
                ("refresh", type(error)),
                "checking for moved leaders failed: %s protocol=%s error=%s",
                context,
                self.protocol.name,
                format_error(error),
                level=logging.ERROR,
                traceback_of=error,
            )
        return False

    def _check(
        self,
        current: tuple[Members, AssignedPartitions, Leaders],
        state: RefreshState,
        read: ReadMetadata,
        now: float,
        context: GroupContext,
    ) -> bool:
        members, assigned, assigned_for = current
        leaders, partitions = read(assigned_for.racks)
        if _partition_counts(leaders) != _partition_counts(assigned_for):
            # The client rebalances by itself when partitions are added or deleted.
            self._state = replace(state, observation=None)
            return False
        # With the leaders that it was made for, an assignment has nothing to gain. Otherwise a
        # group whose assignor fails, for example, would rebalance again and again.
        moved = leaders.racks != assigned_for.racks
        gain = self._gain(members, assigned, leaders) if moved else NO_GAIN
        observation = observe(leaders.racks, partitions, leaders.broker_racks.keys(), gain)
        self._state, request = self._policy.step(state, observation, now)
        if request:
            log.info(
                "requesting a rebalance because leaders moved: %s protocol=%s stable_seconds=%.0f"
                " partitions=%d off_rack=%d off_rack_after=%d gain=%.1f%%",
                context,
                self.protocol.name,
                now - self._state.stable_since,
                observation.partitions,
                observation.gain.off_rack,
                observation.gain.off_rack_after,
                100 * observation.gain.improvement / observation.partitions,
            )
        return request

    def _gain(self, members: Members, assigned: AssignedPartitions, leaders: Leaders) -> Gain:
        """Return the gain, computed only if leaders moved to other racks since the last check."""
        if self._last_gain is None or self._last_gain[0].racks != leaders.racks:
            weights = self.protocol.resolve_weights(leaders.racks)
            owners = members.owning(assigned)
            gain = locality_gain(self.protocol.assignor, owners, leaders.racks, weights)
            self._last_gain = leaders, gain
        return self._last_gain[1]


def _partition_counts(leaders: Leaders) -> dict[str, int]:
    return {topic: len(row) for topic, row in leaders.racks.items()}


def locality_gain(
    assignor: Assignor,
    members: Members | Sequence[Member],
    leader_racks: LeaderRacks,
    weights: WeightSource | None = None,
) -> Gain:
    """Return the gain of a new assignment for ``members``, who own the assignment in force.

    Partitions without an owner do not count. Raises what ``assignor`` raises.
    """
    group = Group.of(members, leader_racks)
    before = group.owners()
    after = group.members_of(assignor.assign(members, leader_racks, weights).partitions)
    compared = (before != UNASSIGNED) & (after != UNASSIGNED)
    if not compared.any():
        return NO_GAIN
    before, after = (np.where(compared, owner, UNASSIGNED) for owner in (before, after))
    traffic = traffic_weights(group, weights)
    improvement = 0
    for crossing_before, crossing_after in zip(
        traffic.crossings(group, before), traffic.crossings(group, after), strict=True
    ):
        if crossing_after > crossing_before:
            break
        improvement = max(improvement, crossing_before - crossing_after)
    return Gain(
        improvement=improvement * len(before) / traffic.total(np.ones(len(before), bool)),
        off_rack=int(group.crossings(before)[-1]),
        off_rack_after=int(group.crossings(after)[-1]),
    )
