"""Which leaders move now: `decide`, a pure function of what is observed and of the history.

Each partition has readers, the members that own it, and writers, where they are declared. What
they read and write is local if its leader is in their rack. A move *pays* if it makes enough bytes
a second local: ``min_rate``, and the share ``min_gain`` of the partition's bytes. The moves that
pay the most come first, and each partition is led where most of its bytes are, if

- nothing is in transition: no broker is away, or has returned within the ``settle`` time, and no
  reassignment is in progress;
- all its replicas are in sync, and its last move is ``rest`` seconds ago;
- ``elections_per_hour`` permits it;
- its new broker does not lead more partitions than the mean of all brokers times
  1 + ``max_imbalance``, nor serve more bytes than that of the bytes: what is written and read where
  it is preferred leader. Where a broker is beyond that, one as heavy as it is permitted.

A group need not be stable. The owner of a partition counts once it has been in the same rack for
the ``settle`` time; until then, and during a rebalance, the former one counts. A group that has
never settled does not count.

Preferred leaders move with leaders, so brokers that elect preferred leaders change nothing. A
partition that has its best replica first, but is led by another one, is a move without a change,
which elects it. Without limits, the result is the best layout, since no partition's bytes depend on
the leader of another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from placement_core import RackPath, TopicPartition, parse_rack
from placement_core.cluster import Move
from rack_traffic.writers import ALL_TOPICS, Writers
from rackward.controller.config import FollowConfig
from rackward.groups.reading import ReadRates
from rackward.kafka import ClusterState

HOUR_SECONDS = 3600.0

Racks = Mapping[TopicPartition, tuple[str | None, ...]]
"""Partition to the racks of its readers, each of which reads an equal part; None if unknown."""

_Served = Mapping[TopicPartition, Mapping[RackPath | None, float]]
"""Partition to the bytes a second that are read and written from each rack."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster at the time ``at``, in seconds of a monotonic clock.

    cluster
        With the racks of brokers that count.
    owners
        Group to what its members own. None: it is rebalancing, or could not be read.
    """

    at: float
    cluster: ClusterState
    owners: Mapping[str, Racks | None]
    rates: ReadRates


class Owner(NamedTuple):
    """Who owns a partition: members in ``racks``, since a time, and in ``former`` before.

    ``former`` are the last racks that had settled; empty if there were none.
    """

    racks: tuple[str | None, ...]
    since: float
    former: tuple[str | None, ...] = ()

    def settled_racks(self, settled_before: float) -> tuple[str | None, ...]:
        """Return the racks that count."""
        return self.racks if self.since <= settled_before else self.former


@dataclass(frozen=True, slots=True)
class History:
    """What has been observed and decided.

    ``brokers`` are live, and all of them since the time ``brokers_since``. ``owners`` are those of
    each group; ``missing`` are groups that are gone, or whose coordinator does not respond, since
    a time. ``elected`` are the partitions whose leaders have moved, each with its time.
    """

    brokers: frozenset[int] = frozenset()
    brokers_since: float = -math.inf
    owners: Mapping[str, Mapping[TopicPartition, Owner]] = field(default_factory=dict)
    missing: Mapping[str, float] = field(default_factory=dict)
    elected: tuple[tuple[float, TopicPartition], ...] = ()

    def observed(self, now: Observation, config: FollowConfig) -> History:
        """Return the history with an observation."""
        settled_before = now.at - config.settle
        missing = {
            group: since
            for group in self.owners.keys() - now.owners.keys()
            if (since := self.missing.get(group, now.at)) > settled_before
        }
        owners = {}
        for group, racks in (*now.owners.items(), *((group, None) for group in missing)):
            former = self.owners.get(group, {})
            if racks is None:
                owners[group] = former
                continue
            owners[group] = {
                tp: owner
                if (owner := former.get(tp)) is not None and owner.racks == own
                else Owner(own, now.at, owner.settled_racks(settled_before) if owner else ())
                for tp, own in racks.items()
            }
        live = frozenset(now.cluster.view.racks())
        unchanged = live == self.brokers and not _away(now.cluster)
        return replace(
            self,
            brokers=live,
            brokers_since=self.brokers_since if unchanged else now.at,
            owners=owners,
            missing=missing,
            elected=tuple(
                each for each in self.elected if now.at - each[0] < max(HOUR_SECONDS, config.rest)
            ),
        )

    def after(self, decision: Decision, at: float) -> History:
        """Return the history after the moves of ``decision``."""
        elected = ((at, move.partition) for move in decision.moves)
        return replace(self, elected=(*self.elected, *elected))

    def elections(self, at: float) -> int:
        """Return the number of elections in the hour before ``at``."""
        return sum(at - time < HOUR_SECONDS for time, _ in self.elected)


class Waiting(StrEnum):
    """Why no leader moves."""

    LOCAL = "local"
    """No move pays."""
    BROKER_AWAY = "broker-away"
    REASSIGNMENT = "reassignment"
    SETTLING = "settling"
    """A broker has returned, or groups are rebalancing, within the settle time."""
    OUT_OF_SYNC = "out-of-sync"
    RESTING = "resting"
    ELECTIONS = "elections-per-hour"
    BROKER_LIMIT = "broker-limit"


@dataclass(frozen=True, slots=True)
class Decision:
    """``moves`` that make ``gain`` bytes a second local, or what they wait for.

    ``total``: the bytes a second that are read and written, by present owners. ``local``: those of
    them that are local now. ``best``: those that would be, were each partition led by the best of
    its replicas.
    """

    moves: tuple[Move, ...] = ()
    waiting: Waiting | None = None
    gain: float = 0.0
    total: float = 0.0
    local: float = 0.0
    best: float = 0.0


def decide(now: Observation, history: History, config: FollowConfig) -> Decision:
    """Return what to do, given a history that has this observation.

    Gains are by settled owners, locality by present ones.
    """
    cluster, settled_before = now.cluster, now.at - config.settle
    leaders = cluster.view.known_leaders
    paths = {broker: parse_rack(rack) for broker, rack in cluster.view.racks().items()}
    present = _served(now, history, config.writers, lambda owner: owner.racks)
    locality = _locality(now, present, paths)
    if _away(cluster):
        return replace(locality, waiting=Waiting.BROKER_AWAY)
    if cluster.reassignments:
        return replace(locality, waiting=Waiting.REASSIGNMENT)
    if history.brokers_since > settled_before:
        return replace(locality, waiting=Waiting.SETTLING)
    resting = {tp for time, tp in history.elected if now.at - time < config.rest}
    budget = config.elections_per_hour - history.elections(now.at)
    served = _served(
        now, history, config.writers, lambda owner: owner.settled_racks(settled_before)
    )
    blocked: Waiting | None = None
    paying: list[tuple[float, TopicPartition, list[tuple[float, int]]]] = []
    for tp, by_rack in served.items():
        row = cluster.view.replicas[tp]
        local = {broker: _local(by_rack, paths[broker]) for broker in row}
        # Brokers elect the preferred leader sooner or later.
        before = min(local[row[0]], local[leaders.get(tp, row[0])])
        least = max(config.min_rate, config.min_gain * sum(by_rack.values()))
        gains = [(each - before, broker) for broker, each in local.items()]
        if options := [each for each in gains if each[0] > 0 and each[0] >= least]:
            if set(row) - set(cluster.in_sync.get(tp, ())):
                blocked = blocked or Waiting.OUT_OF_SYNC
            elif tp in resting:
                blocked = blocked or Waiting.RESTING
            else:
                paying.append((max(options)[0], tp, options))
    loads = _Loads(now, served, config.max_imbalance)
    moves: list[Move] = []
    gain = 0.0
    for _, tp, options in sorted(paying, key=lambda each: (-each[0], each[1])):
        if len(moves) >= budget:
            blocked = blocked or Waiting.ELECTIONS
            break
        row = cluster.view.replicas[tp]
        fitting = [each for each in options if loads.fits(tp, row[0], each[1])]
        if not fitting:
            blocked = blocked or Waiting.BROKER_LIMIT
            continue
        gained, broker = max(fitting, key=lambda each: (each[0], -loads.bytes[each[1]], -each[1]))
        loads.move(tp, row[0], broker)
        moves.append(Move(tp, row, (broker, *(other for other in row if other != broker))))
        gain += gained
    if moves:
        return replace(locality, moves=tuple(sorted(moves, key=lambda m: m.partition)), gain=gain)
    if blocked is None:
        blocked = Waiting.LOCAL if _settled(now, history, settled_before) else Waiting.SETTLING
    return replace(locality, waiting=blocked)


def _away(cluster: ClusterState) -> bool:
    """Return whether a broker is fenced, or one with replicas is not live."""
    live = cluster.view.racks()
    return bool(cluster.fenced) or not live.keys() >= {
        broker for row in cluster.view.replicas.values() for broker in row
    }


def _settled(now: Observation, history: History, settled_before: float) -> bool:
    return (
        None not in now.owners.values()
        and not history.missing
        and all(
            owner.since <= settled_before
            for owners in history.owners.values()
            for owner in owners.values()
        )
    )


def _served(
    now: Observation,
    history: History,
    writers: Writers,
    racks_of: Callable[[Owner], tuple[str | None, ...]],
) -> _Served:
    """Return what is read and written of the partitions that exist and have replicas."""
    path = cache(parse_rack)
    replicas = now.cluster.view.replicas
    served: dict[TopicPartition, dict[RackPath | None, float]] = {}

    def add(tp: TopicPartition, rack: str | None, amount: float) -> None:
        if amount > 0 and replicas.get(tp):
            by_rack = served.setdefault(tp, {})
            by_rack[path(rack)] = by_rack.get(path(rack), 0.0) + amount

    for group, owners in history.owners.items():
        rates, _ = now.rates.of(group)
        for tp, owner in owners.items():
            racks = racks_of(owner)
            # Of a partition without a commit in the time measured, it reads what is written: Kafka
            # Connect commits once a minute, Kafka Streams twice.
            rate = rates.get(tp) or now.rates.written.get(tp, 0.0)
            for rack in racks:
                add(tp, rack, rate / len(racks))
    for tp, rate in now.rates.written.items():
        shares = writers.shares.get(tp.topic) or writers.shares.get(ALL_TOPICS, {})
        for rack, share in shares.items():
            add(tp, rack, rate * share)
    return served


def _local(by_rack: Mapping[RackPath | None, float], path: RackPath | None) -> float:
    """Return the bytes that are local to a leader in the rack ``path``."""
    return 0.0 if path is None else by_rack.get(path, 0.0)


def _locality(now: Observation, served: _Served, paths: Mapping[int, RackPath | None]) -> Decision:
    total = local = best = 0.0
    for tp, by_rack in served.items():
        leader = now.cluster.view.leader(tp)
        total += sum(by_rack.values())
        local += 0.0 if leader is None else _local(by_rack, paths.get(leader))
        best += max(_local(by_rack, paths.get(broker)) for broker in now.cluster.view.replicas[tp])
    return Decision(total=total, local=local, best=best)


class _Loads:
    """The partitions that each broker leads, as preferred leader, and the ``bytes`` they serve."""

    def __init__(self, now: Observation, served: _Served, max_imbalance: float) -> None:
        view = now.cluster.view
        self._size = {tp: sum(by_rack.values()) for tp, by_rack in served.items()}
        self._leaders: dict[int, float] = dict.fromkeys(view.racks(), 0.0)
        self.bytes: dict[int, float] = dict.fromkeys(view.racks(), 0.0)
        for tp, row in view.replicas.items():
            for loads, size in ((self._leaders, 1.0), (self.bytes, self._size.get(tp, 0.0))):
                if row:
                    loads[row[0]] += size
        share = (1 + max_imbalance) / len(view.brokers)
        self._max_leaders = math.ceil(sum(self._leaders.values()) * share)
        self._max_bytes = sum(self.bytes.values()) * share

    def fits(self, tp: TopicPartition, source: int, target: int) -> bool:
        """Return whether ``target`` may lead a partition that ``source`` leads."""
        return source == target or (
            self._leaders[target] + 1 <= max(self._max_leaders, self._leaders[source])
            and self.bytes[target] + self._size[tp] <= max(self._max_bytes, self.bytes[source])
        )

    def move(self, tp: TopicPartition, source: int, target: int) -> None:
        """Count ``target`` as the leader, instead of ``source``."""
        for loads, size in ((self._leaders, 1.0), (self.bytes, self._size[tp])):
            loads[source] -= size
            loads[target] += size
