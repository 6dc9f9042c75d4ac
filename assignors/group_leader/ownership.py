"""Which of the partitions that members claim to own are withheld from other members.

In a cooperative group members read on while they join. What a member owns must not be assigned to
another before it has been revoked, so the leader withholds it, and assigns it when its owner has
rejoined without it. What members own, though, is only what they say. A member that goes on claiming
what it never had, or never revokes, would keep partitions from everyone for ever, as it does under
Java's and franz-go's leaders. Here a claim counts only if it can be true.

A leader that made the last assignment, of generation g, knows what members can own in generation
g + 1: the partitions that this assignment gave them; and what they claimed before it and must
revoke, in case they have not received it. A member that was not in the group then can own nothing.
A static member is the same after a restart, under another id: brokers give it the assignment that
it had. Every claim counts after an assignment that another leader made.

A claim whose revocation was requested expires with the second revocation timeout. One timeout is
an assignment that was in force for REVOCATION_TIMEOUT seconds, while the group was stable and the
member was in it. A member that follows the protocol has received it by then, and revokes before it
joins again. The second timeout is for one whose request was lost just then.

Of several claims of a partition that count, those of the highest generation are the latest. Who has
such a claim may be assigned the partition at once; anyone else waits until all have revoked it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assignors.consumer_protocol import NO_GENERATION
from assignors.group import UNASSIGNED, AssignedPartitions, Claims
from placement_core.flow import IntArray

Identity = tuple[str | None, str]
"""The instance id of a member and "", or None and the id of a member that has no instance id."""

MAX_REVOCATION_TIMEOUTS = 2
"""Revocation timeouts after which the claim of a member that does not revoke lapses."""


@dataclass(frozen=True, slots=True, eq=False)
class Ownership:
    """What members can own after an assignment.

    generation, assigned
        The assignment, and its generation.
    members
        Of each member in ``assigned``.
    revocation_requested
        Claims that members must revoke; their members are numbered as in ``assigned``.
    timeouts
        Per such claim, how many revocation timeouts have passed.
    """

    generation: int
    assigned: AssignedPartitions
    members: Sequence[Identity]
    revocation_requested: Claims
    timeouts: IntArray

    def timed_out(self) -> Ownership:
        """Return the same after one revocation timeout more."""
        return replace(self, timeouts=self.timeouts + 1)

    def is_possible(
        self, members: Sequence[Identity], claims: Claims
    ) -> tuple[NDArray[np.bool_], IntArray]:
        """Return whether each claim can be true, and its revocation timeouts.

        ``members`` are those that join the next generation, as the claims number them.
        """
        before = {identity: number for number, identity in enumerate(self.members)}
        member = np.array([before.get(identity, UNASSIGNED - 1) for identity in members], np.int64)
        row = claims.rows(self.assigned.topics, self.assigned.base)
        possible = self.assigned.owner_of_rows(row) == member[claims.member]
        timeouts = np.zeros(len(row), np.int64)
        unverified = (~possible).nonzero()[0]
        if len(unverified) and len(self.timeouts):
            keys = self.revocation_requested.keys(self.members)
            passed = dict(zip(keys, self.timeouts.tolist(), strict=True))
            for at, key in zip(unverified, claims.where(~possible).keys(members), strict=True):
                timeouts[at] = passed.get(key, MAX_REVOCATION_TIMEOUTS)
            possible[unverified] = timeouts[unverified] < MAX_REVOCATION_TIMEOUTS
        return possible, timeouts


class Withholding(NamedTuple):
    """An assignment without what others still own.

    withheld
        The number of partitions that are left out.
    ignored
        The members some of whose claims cannot be true.
    ownership
        What members can own after it; None if that is not known.
    """

    assigned: AssignedPartitions
    withheld: int
    ignored: Sequence[str]
    ownership: Ownership | None


def withhold(
    planned: AssignedPartitions,
    instance_ids: Sequence[str | None],
    claims: Claims,
    generations: IntArray,
    last: Ownership | None,
    generation: int,
) -> Withholding:
    """Return ``planned`` without the partitions that other members still own.

    instance_ids
        Of each member in ``planned``.
    claims, generations
        What members own, as they say while they join, and of which generation each says so.
    last, generation
        What members can own since the last assignment of this leader, None if there is none; and
        the generation that is assigned, negative if it is not known.
    """
    members = [
        (None, member_id) if instance is None else (instance, "")
        for member_id, instance in zip(planned.ids, instance_ids, strict=True)
    ]
    known = last if last is not None and last.generation + 1 == generation else None
    row = claims.rows(planned.topics, planned.base)
    kept = planned.owner_of_rows(row) == claims.member
    assigned, count, ignored = planned, 0, []
    requested, timeouts = claims.where(~kept), np.zeros(int(np.count_nonzero(~kept)), np.int64)
    if len(timeouts):
        counts, passed = np.ones(len(row), bool), np.zeros(len(row), np.int64)
        if known is not None:
            # Claims of partitions that nobody else claims, and that stay, make no difference.
            is_contested = np.zeros(len(planned.assigned) + 1, bool)
            is_contested[row[~kept]] = True
            contested = is_contested[row]
            counts[contested], passed[contested] = known.is_possible(
                members, claims.where(contested)
            )
            ignored = [planned.ids[m] for m in np.unique(claims.member[~counts]).tolist()]
        # Ignore generations not yet issued.
        unissued = generations >= generation if generation >= 0 else np.zeros(len(members), bool)
        of_claim = np.where(unissued, NO_GENERATION, generations)[claims.member]
        # A partition is withheld if others claim it, unless its member has a claim as late.
        located = counts & (row >= 0)
        others, own = located & ~kept, located & kept
        latest = np.full(len(planned.assigned), NO_GENERATION - 1)
        np.maximum.at(latest, row[others], of_claim[others])
        withheld = (latest >= NO_GENERATION) & (planned.assigned != UNASSIGNED)
        withheld[row[own][of_claim[own] >= latest[row[own]]]] = False
        count = int(np.count_nonzero(withheld))
        if count:
            assigned = planned.without(withheld)
        revoked = counts & (assigned.owner_of_rows(row) != claims.member)
        requested, timeouts = claims.where(revoked), passed[revoked]
    # Of two assignments of one generation, members may have received either.
    is_repeated = last is not None and generation <= last.generation
    ownership = (
        None if is_repeated else Ownership(generation, assigned, members, requested, timeouts)
    )
    return Withholding(assigned, count, ignored, ownership)
