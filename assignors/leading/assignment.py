"""What is remembered of an assignment, for whoever asks later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from assignors.explaining import Explanation, explain
from assignors.leading.about import About
from assignors.leading.leaders import Leaders
from assignors.model import Assignor, LeaderRacks, Member, Weights
from placement_core import parse_rack


@dataclass(frozen=True, slots=True)
class Basis:
    """What an assignment was made of and came to: referred to, not copied.

    ``shares`` is what members were told, member id to topic to partitions; what was withheld
    is with nobody.
    """

    members: Sequence[Member]
    leaders: Leaders
    weights: Weights | None
    assignor: Assignor
    shares: Mapping[str, Mapping[str, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class MemberShare:
    """A member, the rack that it says it is in (None: it does not), and how much it was given.

    ``local`` are the partitions that are led in its rack.
    """

    id: str
    instance_id: str | None
    rack: str | None
    partitions: int
    local: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """One assignment, as the leader of the group made it.

    group, generation
        Empty and -1 where the client did not tell them.
    number
        How many assignments of this group this assignor has made, this one included.
    at
        When, in UTC.
    protocol
        The assignor's name.
    partitions
        Of all topics that members subscribe to, and that are there.
    off_rack, optimum, moved
        As in :class:`assignors.Plan`; None where the assignor failed and another plan,
        which does not look at racks, took the place of its own.
    withheld
        Partitions that nobody reads before the next round, in which they are handed over.
    milliseconds
        How long it took, with reading what members said and what leads where.
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
    withheld: int
    milliseconds: float
    basis: Basis = field(repr=False, compare=False)

    @property
    def members(self) -> tuple[MemberShare, ...]:
        """The members by id, and what each was given."""
        racks = self.basis.leaders.racks
        found = []
        for member in sorted(self.basis.members, key=lambda each: each.id):
            share = self.basis.leaders.to_positions(self.basis.shares.get(member.id, {}))
            path = parse_rack(member.rack)
            led = [
                parse_rack(racks[topic][position])
                for topic, positions in share.items()
                if topic in racks
                for position in positions
            ]
            found.append(
                MemberShare(
                    id=member.id,
                    instance_id=member.instance_id,
                    rack=member.rack or None,
                    partitions=sum(map(len, share.values())),
                    local=0 if path is None else sum(rack == path for rack in led),
                )
            )
        return tuple(found)

    def explain(self, leader_racks: LeaderRacks | None = None) -> Explanation:
        """Why each partition that is not read in its leader's rack is not, and what would help.

        With ``leader_racks``, the racks of the leaders now, of topics as they were: what has
        moved since is told apart from what was off-rack from the start. Solves dozens of
        assignments, and so takes as long: for whoever asks, not for the rebalance. Topics whose
        partitions are not numbered without a gap, which no broker has, are left out.

        Raises what the assignor raises, should that have failed.
        """
        basis = self.basis
        then = {t: row for t, row in basis.leaders.racks.items() if t not in basis.leaders.numbers}
        now = then if leader_racks is None else {t: leader_racks.get(t, then[t]) for t in then}
        return explain(
            basis.members,
            now,
            basis.shares,
            basis.assignor,
            basis.weights,
            leader_racks_then=None if leader_racks is None else then,
        )

    def __str__(self) -> str:
        """The line of the log."""
        known = (self.off_rack, self.optimum, self.moved)
        off_rack, optimum, moved = ("unknown" if each is None else each for each in known)
        return (
            f"{self.protocol}{About(self.group, self.generation)}: "
            f"{len(self.basis.members)} members, {len(self.basis.leaders.racks)} topics, "
            f"{self.partitions} partitions, off-rack {off_rack} of at best {optimum}, "
            f"moved {moved}, withheld {self.withheld}, {self.milliseconds:.1f} ms"
        )
