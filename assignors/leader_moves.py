"""When to ask for a rebalance because leaders have moved."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assignors.encoding import NOBODY, Group, read_group, read_owners
from assignors.group_leader.logs import About, log
from assignors.group_leader.metadata import Leaders
from assignors.group_leader.rebalance import Joined, Outcome, Rebalance
from assignors.model import LeaderRacks, Member, Plan, Weights
from assignors.partition_classes import traffic_steps
from placement_core.errors import InvalidOptionError
from placement_core.flow import IntArray

# ---- What a rebalance would gain: the plan in force against the best one, with the leaders of now.

Assign = Callable[[Sequence[Member], LeaderRacks, Weights | None], Plan]
"""The method of an assignor."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a rebalance would gain.

    worth
        In partitions that would no longer be read from afar. With traffic weights, in partitions
        of average traffic. With levels of racks, at whichever level gains most, of those above
        the first that loses: the best plan may read more across rooms to read less across
        data centres, and never the other way round.
    off_rack, reachable
        Partitions that are off-rack now, and that would be after the rebalance.
    """

    worth: float
    off_rack: int
    reachable: int


NO_GAIN = Gain(0.0, 0, 0)


def crossing_gain(
    assign: Assign,
    members: Sequence[Member],
    leader_racks: LeaderRacks,
    weights: Weights | None = None,
) -> Gain:
    """The gain of assigning anew to ``members``, each of whom owns its part of the plan in force.

    Partitions that no member owns count for nothing. Raises what ``assign`` raises.
    """
    group = read_group(members, leader_racks)
    steps = traffic_steps(group, weights)
    plan = assign(members, leader_racks, weights)
    planned = (replace(m, owned=plan.partitions[m.id]) for m in group.members)
    before = read_owners(group)
    after = read_owners(replace(group, members=tuple(planned)))
    owned = np.flatnonzero((before != NOBODY) & (after != NOBODY))
    if not len(owned):
        return NO_GAIN
    worth = 0.0
    weighed = zip(
        _per_level(group, before, owned, steps), _per_level(group, after, owned, steps), strict=True
    )
    for now, then in weighed:
        if then > now:
            break
        worth = max(worth, float(now - then))
    ones = np.ones_like(steps)
    return Gain(
        worth=worth / float(steps.mean()),
        off_rack=int(_per_level(group, before, owned, ones)[-1]),
        reachable=int(_per_level(group, after, owned, ones)[-1]),
    )


def _per_level(
    group: Group, owner: IntArray, owned: IntArray, weight: IntArray
) -> NDArray[np.float64]:
    """The weight of what is read across each level, widest first."""
    levels = group.crossed[group.leader_rack[owned], group.member_rack[owner[owned]]]
    crossed = np.bincount(levels, weight[owned], group.depth + 1)
    # Level j from the top is crossed by what crosses at least depth - j + 1 levels from below.
    return np.cumsum(crossed[:0:-1])


# ---- What the metadata of a group's leader says at one moment, as the policy needs it.


class PartitionState(NamedTuple):
    """One partition in a client's metadata: broker ids, -1 for no leader.

    ``epoch`` counts the elections of its leaders, where the client knows it (else any constant).
    """

    topic: str
    partition: int
    leader: int
    epoch: int
    replicas: Sequence[int]
    in_sync: Collection[int]

    def is_whole(self, brokers: frozenset[int]) -> bool:
        """Whether nothing about it is likely to change by itself.

        Its leader and all its replicas are among ``brokers``, all are in sync, and the leader is
        the preferred one: another will be replaced by it, by default within five minutes.
        """
        if self.leader not in brokers:
            return False
        return not self.replicas or (
            self.leader == self.replicas[0]
            and len(self.in_sync) >= len(self.replicas)
            and brokers.issuperset(self.replicas)
        )


@dataclass(frozen=True, slots=True)
class Observation:
    """The leaders of a group's partitions at one moment.

    racks, epochs
        Topic to the rack of each partition's leader, and to how often leaders were elected.
    unwell
        Partitions that are not whole, see :meth:`PartitionState.is_whole`.
    gain
        What a rebalance would gain.
    """

    racks: LeaderRacks
    epochs: Mapping[str, Sequence[int]]
    unwell: int
    gain: Gain

    @property
    def partitions(self) -> int:
        """How many there are."""
        return sum(map(len, self.racks.values()))

    def elections_since(self, before: Observation) -> int:
        """How many partitions had an election since then, of the topics that are in both."""
        count = 0
        for topic, racks in self.racks.items():
            was, epochs = before.racks.get(topic), self.epochs[topic]
            if was is None or (racks == was and epochs == before.epochs[topic]):
                continue
            pairs = zip(racks, epochs, was, before.epochs[topic], strict=False)
            count += sum(rack != old or epoch != last for rack, epoch, old, last in pairs)
        return count


def observe(
    racks: LeaderRacks, states: Iterable[PartitionState], brokers: Collection[int], gain: Gain
) -> Observation:
    """Put together what a client's metadata says.

    ``racks``: topic to the rack of each partition's leader. A partition without a state is one
    that is not well.
    """
    epochs = {topic: [-1] * len(row) for topic, row in racks.items()}
    there, well = frozenset(brokers), 0
    for state in states:
        row = epochs.get(state.topic)
        if row is not None and 0 <= state.partition < len(row):
            row[state.partition] = state.epoch
            well += state.is_whole(there)
    return Observation(racks, epochs, sum(map(len, racks.values())) - well, gain)


_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class RefreshState:
    """What the policy remembers from one look to the next.

    no_sooner_than
        The instant until which it does not ask, whatever it sees.
    since
        Since when the leaders keep still, and a rebalance is worth it.
    seen
        What was seen then; None before the first look.
    whole, worth_it
        Whether all was well then (or what was not concerned too few), and the gain enough.
    """

    no_sooner_than: float = -math.inf
    since: float = -math.inf
    seen: Observation | None = None
    whole: bool = True
    worth_it: bool = False


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    """When leaders that moved are worth a rebalance: gain enough, leaders at rest, not too often.

    min_gain, min_partitions
        A rebalance is worth it where at least this share of the group's partitions (with traffic
        weights: of its traffic), and at least so many of them, would no longer be read from
        another rack. What concerns fewer partitions than that matters nowhere below.
    settling
        Seconds for which leaders must have kept still, every replica in sync and every leader the
        preferred one. Any election begins them anew, also one that was not seen while it lasted.
    patience
        Seconds for which leaders must have kept still where that is not so: a broker is away or
        catching up, or leaders have not gone back to the preferred ones, as by default they do
        within five minutes. Any broker that goes or comes begins them anew. They outlast a
        restart, and they end: a broker that does not come back must not keep a group's reads in
        the wrong rack for ever.
    cool_down
        Seconds between two rebalances that are asked for. Who takes over the lead of a group
        does not know when its predecessor asked, and counts from the plan that it makes first.
    check_interval
        Seconds between two looks. Each is one request for metadata, by the group's leader alone.

    Times are those of the caller's clock; nothing here reads one. Raises InvalidOptionError for
    values out of range.
    """

    min_gain: float = 0.05
    min_partitions: int = 1
    settling: float = 120.0
    patience: float = 900.0
    cool_down: float = 600.0
    check_interval: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not (_is_number(self.min_gain) and 0 <= self.min_gain <= 1):
            raise InvalidOptionError(
                f"min_gain is {self.min_gain!r}: give a share of the partitions from 0 to 1,"
                " such as 0.05"
            )
        whole = isinstance(self.min_partitions, int) and not isinstance(self.min_partitions, bool)
        if not (whole and self.min_partitions >= 1):
            raise InvalidOptionError(
                f"min_partitions is {self.min_partitions!r}: give a whole number from 1 on"
            )
        for name in ("settling", "cool_down"):
            self._check_seconds(name, least=0)
        self._check_seconds("patience", least=self.settling)
        self._check_seconds("check_interval", least=0.1)

    def _check_seconds(self, name: str, least: float) -> None:
        seconds = getattr(self, name)
        if not (_is_number(seconds) and least <= seconds < math.inf):
            raise InvalidOptionError(f"{name} is {seconds!r}: give seconds, {least:g} or more")

    def enough(self, partitions: int) -> float:
        """The gain, in partitions, from which on a rebalance is worth it."""
        return max(self.min_gain * partitions, self.min_partitions) - _ROUNDING

    def rest(self, whole: bool) -> float:
        """Seconds for which leaders must have kept still."""
        return self.settling if whole else self.patience

    def begin(self, before: RefreshState | None, now: float) -> RefreshState:
        """The state with which to watch a plan that has just been made.

        ``before`` is the last one of the same leader's previous plan, None where somebody else
        may have led and asked since: then the cool-down begins at ``now``.
        """
        return RefreshState(now + self.cool_down if before is None else before.no_sooner_than)

    def step(self, state: RefreshState, seen: Observation, now: float) -> tuple[RefreshState, bool]:
        """The next state, and whether to ask for a rebalance at ``now``."""
        enough = self.enough(seen.partitions)
        whole, worth_it = seen.unwell < enough, seen.gain.worth >= enough
        if (
            state.seen is None
            or (whole, worth_it) != (state.whole, state.worth_it)
            or abs(seen.unwell - state.seen.unwell) >= enough
            or seen.elections_since(state.seen) >= enough
        ):
            state = RefreshState(state.no_sooner_than, now, seen, whole, worth_it)
        if not worth_it or now - state.since < self.rest(whole) or now < state.no_sooner_than:
            return state, False
        return replace(state, no_sooner_than=now + self.cool_down), True


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


DEFAULT_REFRESH = RefreshPolicy()
"""For a production cluster: minutes rather than seconds."""


def checked_refresh(refresh: object) -> RefreshPolicy | None:
    """``refresh`` if it is a policy or None. Raises InvalidOptionError."""
    if refresh is None or isinstance(refresh, RefreshPolicy):
        return refresh
    raise InvalidOptionError(
        f"refresh is {refresh!r}: give a RefreshPolicy, or None to leave leaders that move alone"
    )


# ---- The leader's eye on the leaders of partitions, from one plan to the next.

ReadMetadata = Callable[[Iterable[str]], tuple[Leaders, Iterable[PartitionState]]]
"""Reads what a client's metadata says of some topics at this moment."""


PARTITIONS_A_LOOK = 10_000
"""In larger groups a look comes as many times later as this goes into their partitions."""


@dataclass(frozen=True, slots=True)
class _InForce:
    """A plan: whose it is, by partition, and the leaders that it was made for."""

    members: Sequence[Member]
    leaders: Leaders


class LeaderWatch:
    """Whether to ask for a rebalance, on the member that made the plan in force.

    Nothing here raises: a fault costs locality and a line in the log.
    """

    def __init__(self, policy: RefreshPolicy, rebalance: Rebalance) -> None:
        self._policy = policy
        self._rebalance = rebalance
        self._in_force: _InForce | None = None
        self._state: RefreshState | None = None
        self._generation = 0
        self._partitions = 0
        self._gained: tuple[Leaders, Gain] | None = None

    @property
    def interval(self) -> float:
        """Seconds from one look to the next: longer where one is a good deal of work."""
        return self._policy.check_interval * max(1.0, self._partitions / PARTITIONS_A_LOOK)

    def begin(
        self, generation: int, joined: Sequence[Joined], outcome: Outcome, now: float
    ) -> None:
        """Watch what ``outcome`` gave to ``joined``, the members of that generation.

        A plan of which something is withheld is not in force yet: another round will follow.
        """
        # A plan may have to be made twice, where brokers did not hear of the first.
        alone = generation <= 1 or generation in (self._generation, self._generation + 1)
        before = (self._state or RefreshState()) if alone else None
        self._state, self._generation = self._policy.begin(before, now), generation
        self._in_force = self._gained = None
        self._partitions = sum(map(len, outcome.leaders.racks.values()))
        if outcome.withheld:
            return
        self._in_force = _InForce(
            [one.owning(outcome.shares.get(one.id, {}), generation) for one in joined],
            outcome.leaders,
        )

    def look(self, read: ReadMetadata, now: float, about: About) -> bool:
        """Look at the metadata; whether to ask for a rebalance, of which the log then tells."""
        if self._in_force is None or self._state is None:
            return False
        try:
            return self._look(self._in_force, self._state, read, now, about)
        except Exception as error:  # noqa: BLE001 - whatever it is, the consumer goes on
            self._rebalance.remarks.once(
                ("refresh", type(error)),
                "%s%s: cannot tell whether leaders that moved are worth a rebalance: %r",
                self._rebalance.name,
                about,
                error,
                level=logging.ERROR,
                exc_info=True,
            )
        return False

    def _look(
        self, plan: _InForce, state: RefreshState, read: ReadMetadata, now: float, about: About
    ) -> bool:
        leaders, states = read(plan.leaders.racks.keys())
        if _sizes(leaders) != _sizes(plan.leaders):
            # Of partitions that come and go the client has heard as well, and rebalances itself.
            self._state = replace(state, seen=None)
            return False
        seen = observe(leaders.racks, states, leaders.brokers.keys(), self._gain(plan, leaders))
        self._state, worth_it = self._policy.step(state, seen, now)
        if worth_it:
            self._tell(seen, now - self._state.since, about)
        return worth_it

    def _gain(self, plan: _InForce, leaders: Leaders) -> Gain:
        """Computed where leaders are led from other racks than at the last look.

        With the leaders that it was made for a plan has nothing to gain, so that a group whose
        assignor fails, say, does not rebalance again and again.
        """
        if leaders.racks == plan.leaders.racks:
            return NO_GAIN
        if self._gained is None or self._gained[0].racks != leaders.racks:
            members = [replace(m, owned=leaders.to_positions(m.owned)) for m in plan.members]
            weights = self._rebalance.weights_of(leaders.racks)
            assign = self._rebalance.assignor.assign
            self._gained = leaders, crossing_gain(assign, members, leaders.racks, weights)
        return self._gained[1]

    def _tell(self, seen: Observation, still: float, about: About) -> None:
        log.info(
            "%s%s: leaders have moved, and kept still for %.0f s: %d of %d partitions are"
            " off-rack, %d would be after a rebalance, which is asked for (gain %.1f %%)",
            self._rebalance.name,
            about,
            still,
            seen.gain.off_rack,
            seen.partitions,
            seen.gain.reachable,
            100 * seen.gain.worth / seen.partitions,
        )


def _sizes(leaders: Leaders) -> dict[str, int]:
    return {topic: len(row) for topic, row in leaders.racks.items()}
