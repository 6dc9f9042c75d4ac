"""When to ask for a rebalance because leaders have moved."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from assignors.refresh.observation import Observation
from placement_core.errors import InvalidOptionError

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
