"""When moved partition leaders justify a rebalance.

An assignment is made for the leaders of one moment, and no Kafka client rebalances when a leader
moves. So the leader of the group compares the assignment in force with the best one for the present
leaders, once per check interval, and requests a rebalance if it would gain enough locality, if the
leaders have been stable for long enough, and if it has not requested one recently. A rolling
restart, which moves every leader several times, then causes at most one rebalance, at its end.

* `RefreshPolicy` is the decision, as a pure function of a state, an observation and a time.
* `Observation` is its input: the leaders' racks, their elections, how many partitions are unstable,
  and the `Gain` of a rebalance.

:mod:`assignors.group_leader.monitor` connects the policy to a group.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from assignors.group_leader.metadata import PartitionMetadata
from placement_core.errors import InvalidOptionError

# ---- The policy.


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    """When moved leaders justify a rebalance.

    min_gain, min_partitions
        The rebalance must make at least this share of the group's partitions (with traffic
        weights: of its traffic), and at least this many of them, rack-local. Changes that concern
        fewer partitions than that are ignored below, too.
    stable_seconds
        Seconds for which leaders must not have moved, if every replica is in sync and every
        leader is the preferred one. Any election restarts them, even one that was over before the
        next check.
    unstable_seconds
        The same if a broker is down or catching up, or leaders have not returned to the preferred
        replicas yet, which by default takes brokers up to five minutes. Any broker that goes down
        or comes back restarts them. They should outlast a restart. They are finite, because a
        broker that does not come back must not keep a group's reads off-rack for ever.
    min_interval
        Minimum seconds between two rebalances that are requested. A member that takes over as the
        group's leader does not know when its predecessor requested one, so for it the interval
        starts with the first assignment that it makes.
    check_interval
        Seconds between two checks. Each is one metadata request, by the group's leader only.

    Times are those of the caller's clock. Raises InvalidOptionError if a value is out of range.
    """

    min_gain: float = 0.05
    min_partitions: int = 1
    stable_seconds: float = 120.0
    unstable_seconds: float = 900.0
    min_interval: float = 600.0
    check_interval: float = 30.0

    def __post_init__(self) -> None:
        """Raise InvalidOptionError if a value is out of range."""
        if not (_is_number(self.min_gain) and 0 <= self.min_gain <= 1):
            raise InvalidOptionError(
                f"min_gain is {self.min_gain!r}: give a share of the partitions from 0 to 1,"
                " such as 0.05"
            )
        is_int = isinstance(self.min_partitions, int) and not isinstance(self.min_partitions, bool)
        if not (is_int and self.min_partitions >= 1):
            raise InvalidOptionError(
                f"min_partitions is {self.min_partitions!r}: give an integer of at least 1"
            )
        for name, minimum in (
            ("stable_seconds", 0.0),
            ("unstable_seconds", self.stable_seconds),
            ("min_interval", 0.0),
            ("check_interval", 0.1),
        ):
            seconds = getattr(self, name)
            if not (_is_number(seconds) and minimum <= seconds < math.inf):
                raise InvalidOptionError(
                    f"{name} is {seconds!r}: give a number of seconds, {minimum:g} or more"
                )

    def threshold(self, partitions: int) -> float:
        """Return the gain, in partitions, from which on a rebalance is justified."""
        return max(self.min_gain * partitions, self.min_partitions) - _ROUNDING

    def initial_state(self, before: RefreshState | None, now: float) -> RefreshState:
        """Return the state for an assignment that has just been made.

        ``before`` is the last state of the same leader's previous assignment. None if another
        member may have led the group since: then the minimum interval starts at ``now``.
        """
        return RefreshState(now + self.min_interval if before is None else before.not_before)

    def step(
        self, state: RefreshState, observation: Observation, now: float
    ) -> tuple[RefreshState, bool]:
        """Return the next state, and whether to request a rebalance at ``now``."""
        threshold = self.threshold(observation.partitions)
        stable = observation.unstable_partitions < threshold
        justified = observation.gain.improvement >= threshold
        last = state.observation
        if (
            last is None
            or (stable, justified) != (state.stable, state.justified)
            or abs(observation.unstable_partitions - last.unstable_partitions) >= threshold
            or observation.elections_since(last) >= threshold
        ):
            state = RefreshState(state.not_before, now, observation, stable, justified)
        if (
            not justified
            or now - state.stable_since < (self.stable_seconds if stable else self.unstable_seconds)
            or now < state.not_before
        ):
            return state, False
        return replace(state, not_before=now + self.min_interval), True


_ROUNDING = 1e-9


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class RefreshState:
    """The policy's state from one check to the next.

    not_before
        The time until which no rebalance is requested.
    stable_since
        The time of ``observation``. Leaders have not moved since.
    observation
        The last one that differed by the threshold from the one before; None before the first
        check.
    stable
        Whether fewer partitions than the threshold were unstable.
    justified
        Whether the gain reached the threshold.
    """

    not_before: float = -math.inf
    stable_since: float = -math.inf
    observation: Observation | None = None
    stable: bool = True
    justified: bool = False


DEFAULT_REFRESH_POLICY = RefreshPolicy()
"""For production clusters: reacts within minutes, not seconds."""


def validate_refresh(refresh: object) -> RefreshPolicy | None:
    """Return ``refresh``. Raise InvalidOptionError unless it is a RefreshPolicy or None."""
    if refresh is None or isinstance(refresh, RefreshPolicy):
        return refresh
    raise InvalidOptionError(
        f"refresh is {refresh!r}: give a RefreshPolicy, or None to ignore leaders that move"
    )


# ---- The input of the policy.


@dataclass(frozen=True, slots=True)
class Gain:
    """What a rebalance would gain.

    improvement
        Partitions that would become rack-local. With traffic weights, in partitions of average
        traffic. With levels of racks, at the level that improves most, among the levels above the
        first that gets worse: the best plan may read more across rooms in order to read less
        across data centres, and never the other way round.
    off_rack, off_rack_after
        Off-rack partitions now, and after the rebalance.
    """

    improvement: float
    off_rack: int
    off_rack_after: int


NO_GAIN = Gain(0.0, 0, 0)


@dataclass(frozen=True, slots=True)
class Observation:
    """The leaders of a group's partitions at one moment.

    racks, epochs
        Topic to the rack of each partition's leader, and to its leader epoch.
    unstable_partitions
        The number of partitions that are not stable, see
        :meth:`~assignors.group_leader.metadata.PartitionMetadata.is_stable`.
    gain
        What a rebalance would gain.
    """

    racks: Mapping[str, Sequence[str | None]]
    epochs: Mapping[str, Sequence[int]]
    unstable_partitions: int
    gain: Gain

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return sum(map(len, self.racks.values()))

    def elections_since(self, before: Observation) -> int:
        """Return how many partitions had an election since then, of the topics in both."""
        count = 0
        for topic, racks in self.racks.items():
            old_racks, epochs = before.racks.get(topic), self.epochs[topic]
            if old_racks is None:
                continue
            old_epochs = before.epochs[topic]
            if racks == old_racks and epochs == old_epochs:
                continue
            count += sum(
                rack != old_rack or epoch != old_epoch
                for rack, epoch, old_rack, old_epoch in zip(
                    racks, epochs, old_racks, old_epochs, strict=False
                )
            )
        return count


def observe(
    racks: Mapping[str, Sequence[str | None]],
    partitions: Iterable[PartitionMetadata],
    brokers: Collection[int],
    gain: Gain,
) -> Observation:
    """Return an observation of a client's metadata.

    ``racks``: topic to the rack of each partition's leader. ``brokers``: the ids of the live ones.
    A partition that is in ``racks`` and not in ``partitions`` is unstable.
    """
    epochs = {topic: [-1] * len(row) for topic, row in racks.items()}
    live, stable = frozenset(brokers), 0
    for partition in partitions:
        row = epochs.get(partition.topic)
        if row is not None and 0 <= partition.partition < len(row):
            row[partition.partition] = partition.epoch
            stable += partition.is_stable(live)
    return Observation(racks, epochs, sum(map(len, racks.values())) - stable, gain)


# ---- A static member that leads its group and restarts.

_UUID_LENGTH = 36


def leads_since_before_restart(leader_id: str, member_id: str, instance_id: str | None) -> bool:
    """Return whether a member that joined as a follower is the leader, restarted.

    A static member that restarts gets a new member id, and keeps its assignment without a
    rebalance. If it leads the group, brokers name the leader by the old id, so that it does not
    assign again. Both ids are the instance id, a hyphen and a UUID.
    """
    if instance_id is None or leader_id == member_id:
        return False
    prefix = f"{instance_id}-"
    return all(
        known.startswith(prefix) and len(known) == len(prefix) + _UUID_LENGTH
        for known in (leader_id, member_id)
    )
