"""The leader's eye on the leaders of partitions, from one plan to the next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from assignors.leading.about import About
from assignors.leading.leaders import Leaders
from assignors.leading.rebalance import Joined, Outcome, Rebalance
from assignors.leading.remarks import log
from assignors.model import Member
from assignors.refresh import (
    NO_GAIN,
    Gain,
    Observation,
    PartitionState,
    RefreshPolicy,
    RefreshState,
    crossing_gain,
    observe,
)

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
