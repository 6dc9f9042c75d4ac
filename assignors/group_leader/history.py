"""The last assignment of each group, for as long as somebody may ask for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from assignors.explain import Explanation, explain
from assignors.group_leader.logs import About
from assignors.group_leader.metadata import Leaders
from assignors.model import Assignor, LeaderRacks, Member, Weights
from placement_core import parse_rack

# ---- What is remembered of an assignment, for whoever asks later.


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


def _now() -> datetime:
    return datetime.now(UTC)


class Records:
    """What one assignor has assigned; any thread may ask.

    Nothing is worked out before somebody asks. Of the ``MOST`` groups assigned last, the last
    assignment is kept, with the members and leaders that it was made of.
    """

    MOST = 16

    def __init__(self, now: Callable[[], datetime] = _now) -> None:
        self.now = now
        self._lock = threading.Lock()
        self._last: dict[str, Assignment] = {}

    def keep(self, made: Assignment) -> Assignment:
        """Remember it in the place of the group's last; returns it with its number."""
        with self._lock:
            before = self._last.pop(made.group, None)
            numbered = replace(made, number=1 if before is None else before.number + 1)
            self._last[made.group] = numbered
            if len(self._last) > self.MOST:
                del self._last[next(iter(self._last))]
        return numbered

    def last(self, group: str | None = None) -> Assignment | None:
        """The last assignment of ``group``, or of any; None before there is one."""
        with self._lock:
            if group is not None:
                return self._last.get(group)
            return next(reversed(self._last.values()), None)

    def all(self) -> tuple[Assignment, ...]:
        """The last of each group, the latest at the end."""
        with self._lock:
            return tuple(self._last.values())
