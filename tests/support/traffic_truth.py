"""Simulated Kafka traffic whose true bytes are known, and the snapshots that a collector takes.

`simulate` builds clusters, topics and groups from a seed, computes the log of each topic and the
offsets of each group at every step, and adds up the true bytes per group, racks and hour. `observe`
returns the rows of a collector's snapshots. Each `Fault` is an event on the clusters or an error of
the collector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEP = 5
"""Length of a step, in seconds."""

STEPS_PER_HOUR = 3600 // STEP


@dataclass(frozen=True)
class Topic:
    name: str
    partitions: int
    per_second: float
    """Mean number of records per second and partition."""
    record_bytes: float
    replicas: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Group:
    name: str
    topic: str
    kind: str
    """head, lagging, bursts, or manual (consumers that call assign() instead of subscribe())."""
    racks: tuple[str | None, ...]
    """The rack of each member."""


@dataclass(frozen=True)
class Cluster:
    name: str
    racks: tuple[str | None, ...]
    """The rack of each broker, by broker id."""
    topics: tuple[Topic, ...]
    groups: tuple[Group, ...]


def clusters(seed: int) -> tuple[Cluster, ...]:
    """Return a cluster with plain racks, and one with levels in which a broker has no rack."""
    rng = np.random.default_rng(seed)
    return (
        Cluster(
            "east",
            ("a", "a", "b", "b", "c", "c"),
            (
                _topic(rng, "orders", 18, 40.0, 900.0, 6),
                _topic(rng, "clicks", 12, 150.0, 220.0, 6),
                _topic(rng, "state", 9, 25.0, 400.0, 6),
            ),
            (
                Group("billing", "orders", "head", ("a", "b", "c")),
                Group("audit", "orders", "lagging", ("a", "a", "b", "c")),
                Group("reports", "clicks", "bursts", ("b", "c")),
                Group("flink", "clicks", "manual", ()),
                Group("cache", "state", "head", ("a", "b", None)),
            ),
        ),
        Cluster(
            "west",
            ("/dc1/r1", "/dc1/r2", "/dc2/r1", None),
            (_topic(rng, "orders", 12, 60.0, 700.0, 4),),
            (
                Group("billing", "orders", "head", ("/dc1/r1", "/dc2/r1")),
                Group("search", "orders", "lagging", ("/dc1/r2", "/dc2/r2")),
            ),
        ),
    )


def _topic(
    rng: np.random.Generator, name: str, partitions: int, rate: float, size: float, brokers: int
) -> Topic:
    order = rng.permutation(partitions)
    replicas = tuple(
        tuple(int(start + hop * (1 + start % 2)) % brokers for hop in (0, 1, brokers // 2 + 1))
        for start in order
    )
    return Topic(name, partitions, rate, size, tuple(tuple(dict.fromkeys(r)) for r in replicas))


class Fault(StrEnum):
    """An event on a cluster, or an error of the collector."""

    GAP = "gap"
    """The collector is down for some minutes, before and after the start of an hour."""
    SET_BACK = "set back"
    """An operator resets the offsets of a running group to earlier ones, which are read again."""
    SET_FORWARD = "set forward"
    """An operator stops a group and resets its offsets to the end of the log."""
    EXPIRED_UNREAD = "expired unread"
    """Retention deletes records that a slow group has not read; the group skips them."""
    RECREATED = "recreated"
    """A topic is deleted and recreated; its offsets start at 0."""
    COMPACTED = "compacted"
    """The log cleaner compacts a log while groups read it."""
    DUPLICATES = "duplicates"
    """A tenth of the rows are duplicated."""
    LATE = "late"
    """Rows are in random order."""
    FLAKY = "flaky"
    """A tenth of the snapshots of partitions, and of commits, fail independently."""
    REBALANCING = "rebalancing"
    """Some snapshots of a group are taken during a rebalance, and have no assignments."""
    SKEWED = "skewed"
    """A second collector takes every second snapshot, too; its clock is late by more than that."""
    AHEAD = "ahead"
    """The clock of such a collector is ahead by less than that."""
    RELIEVED = "relieved"
    """Another collector takes over in the middle of the first hour; its clock is late."""


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SEGMENT = STEPS_PER_HOUR // 5
"""Steps per log segment, the unit of retention."""

RETENTION = STEPS_PER_HOUR * 3 // 4
"""Steps for which records are retained, at least."""

HISTORY = STEPS_PER_HOUR
"""Steps before the first hour, so that logs are not empty when it begins."""


@dataclass(frozen=True)
class Log:
    """The log of a topic as arrays (partition, step); the first hour begins at step ``HISTORY``."""

    topic: Topic
    end: Ints
    """The log end offset at the end of the step."""
    bytes_at_end: Floats
    """Bytes appended since the topic was created, at the end of the step."""
    start: Ints
    size: Ints
    leader: Ints
    """The broker id of the leader."""
    recreated_at: int
    """The step at which the topic was recreated; 0 if it was not."""

    def bytes_between(self, first: Ints, last: Ints) -> Floats:
        """Return the bytes from offset ``first`` to ``last``, as arrays (partition, step).

        Offsets are those of the topic that exists at the step, before or after it was recreated.
        """
        sizes_between = np.zeros(first.shape)
        steps = first.shape[1]
        for life_steps in (slice(0, self.recreated_at), slice(self.recreated_at, steps)):
            for p in range(len(first)):
                # The bytes of a recreated topic start at its offset 0.
                offsets = np.concatenate([[0], self.end[p, life_steps]])
                sizes = np.concatenate([[0.0], self.bytes_at_end[p, life_steps]])
                low, high = (
                    np.interp(each[p, life_steps], offsets, sizes) for each in (first, last)
                )
                sizes_between[p, life_steps] = high - low
        return sizes_between


def log_of(topic: Topic, steps: int, faults: frozenset[Fault], rng: np.random.Generator) -> Log:
    """Return the log of a topic; rates and record sizes vary over time and between partitions."""
    time = np.arange(steps) / STEPS_PER_HOUR
    weight = rng.uniform(0.5, 1.5, (topic.partitions, 1))
    rate = topic.per_second * STEP * weight * (1 + 0.3 * np.sin(time / 3 + rng.uniform(0, 6)))
    records = rng.poisson(rate)
    drift = 1 + 0.15 * np.sin(time / 2 + rng.uniform(0, 6)) + 0.02 * rng.normal(size=steps)
    appended = records * topic.record_bytes * weight**0.3 * drift
    # One offset per four records of this topic is a transaction marker, which consumers skip.
    if topic.name == "clicks":
        appended = appended + 78.0 * (records // 4)
        records = records + records // 4
    recreated_at = 0
    if Fault.RECREATED in faults and topic.name == "state":
        recreated_at = HISTORY + STEPS_PER_HOUR + 97
    end, sizes = _cumulated(records, recreated_at), _cumulated(appended, recreated_at)
    compacted = Fault.COMPACTED in faults and topic.name == "state"
    start = np.zeros_like(end) if compacted else _start_offsets(end, recreated_at)
    retained = sizes - np.array([np.interp(start[p], end[p], sizes[p]) for p in range(len(end))])
    if recreated_at:
        retained[:, recreated_at:] = sizes[:, recreated_at:]
    if compacted:
        retained = retained - _removed_by_cleaner(retained, recreated_at)
    return Log(
        topic,
        end.astype(np.int64),
        sizes,
        start.astype(np.int64),
        np.round(retained).astype(np.int64),
        _leaders(topic, steps, rng),
        recreated_at,
    )


def _cumulated(increments: Floats | Ints, recreated_at: int) -> Floats:
    total = np.cumsum(increments, axis=1, dtype=np.float64)
    if recreated_at:
        total[:, recreated_at:] -= total[:, [recreated_at - 1]]
    return total


def _start_offsets(end: Floats, recreated_at: int) -> Floats:
    """Return the log start offsets: whole segments older than ``RETENTION`` are deleted."""
    start = np.zeros_like(end)
    for step in range(RETENTION + SEGMENT, end.shape[1]):
        deleted_until = (step - RETENTION) // SEGMENT * SEGMENT
        if deleted_until > recreated_at or (not recreated_at) or step < recreated_at:
            start[:, step] = end[:, deleted_until]
    return start


def _removed_by_cleaner(retained: Floats, recreated_at: int) -> Floats:
    """Return the bytes that the log cleaner has removed by the end of each step."""
    removed = np.zeros_like(retained)
    for step in range(HISTORY // 2, retained.shape[1]):
        if step != recreated_at:
            removed[:, step] = removed[:, step - 1]
        if step % 211 == 0:
            removed[:, step] = np.maximum(removed[:, step], 0.7 * retained[:, step])
    return removed


def _leaders(topic: Topic, steps: int, rng: np.random.Generator) -> Ints:
    """Return the leaders: the preferred ones, except while a broker is down and after some moves.

    No leader changes twice within seconds, because snapshots do not show such short periods.
    """
    first = np.array([row[0] for row in topic.replicas])
    leader: Ints = np.repeat(first[:, None], steps, axis=1).astype(np.int64)
    spare = np.array([row[1] for row in topic.replicas])
    begin = HISTORY + int(rng.uniform(0.05, 0.2) * STEPS_PER_HOUR)
    away = slice(begin, begin + int(0.7 * STEPS_PER_HOUR))
    down = np.flatnonzero(first == first[0])
    leader[down, away] = spare[down, None]
    for p in rng.choice(topic.partitions, topic.partitions // 6, replace=False):
        leader[p, HISTORY + int(rng.uniform(1.2, 1.5) * STEPS_PER_HOUR) :] = spare[p]
    return leader


LAG = STEPS_PER_HOUR // 4
BURST = STEPS_PER_HOUR // 30
FASTEST = 5.0
"""Maximum rate of reading a partition, as a multiple of its topic's mean rate."""


@dataclass(frozen=True)
class Reading:
    """What a group read, as arrays (partition, step)."""

    group: Group
    position: Ints
    """The committed offset at the end of the step."""
    bytes_read: Floats
    """Bytes read in the step."""
    owner: Ints
    """The index of the member that owns the partition; -1 if none does."""


def read(group: Group, log: Log, faults: frozenset[Fault], rng: np.random.Generator) -> Reading:
    """Return the offsets, bytes and owners of the group at each step."""
    partitions, steps = log.end.shape
    position = np.zeros((partitions, steps), np.int64)
    first, last = np.zeros_like(position), np.zeros_like(position)
    owner = _owners(group, partitions, steps, rng)
    speed = int(FASTEST * log.topic.per_second * STEP)
    set_back = HISTORY + int(0.4 * STEPS_PER_HOUR) + 3
    stop = range(HISTORY + int(0.6 * STEPS_PER_HOUR), HISTORY + int(0.7 * STEPS_PER_HOUR))
    current = log.end[:, HISTORY // 2].copy()
    for step in range(HISTORY // 2 + 1, steps):
        if step == log.recreated_at:
            current[:] = 0
        if Fault.SET_BACK in faults and group.name == "billing" and step == set_back:
            current = log.end[:, step - STEPS_PER_HOUR // 6].copy()
        target_offset = _target_offsets(group, log, faults, step, current)
        stopped = Fault.SET_FORWARD in faults and group.name == "audit" and step in stop
        if stopped:
            owner[:, step] = -1
            if step == stop[len(stop) // 2]:
                current = log.end[:, step].copy()
        else:
            # auto.offset.reset=earliest: an offset out of range becomes the log start offset.
            current = np.maximum(current, log.start[:, step])
            reached = np.clip(target_offset, current, current + speed)
            first[:, step], last[:, step] = current, reached
            current = reached
        position[:, step] = current
    return Reading(group, position, log.bytes_between(first, last), owner)


def _target_offsets(
    group: Group, log: Log, faults: frozenset[Fault], step: int, current: Ints
) -> Ints:
    """Return the offsets up to which the group would read by the end of the step."""
    if Fault.EXPIRED_UNREAD in faults and group.name == "search":
        # Half the rate of the producers, so that its offset is below the log start eventually.
        return current + (log.end[:, step] - log.end[:, step - 1]) // 2
    if group.kind == "lagging":
        return log.end[:, max(step - LAG, log.recreated_at if step >= log.recreated_at else 0)]
    if group.kind == "bursts" and step // BURST % 2:
        return np.zeros_like(log.end[:, step])
    return log.end[:, step - 1] if step != log.recreated_at else np.zeros_like(log.end[:, step])


def _owners(group: Group, partitions: int, steps: int, rng: np.random.Generator) -> Ints:
    """Return the owners: round robin; the last member leaves for about twenty minutes."""
    members = len(group.racks)
    if not members:
        return np.full((partitions, steps), -1, np.int64)
    owner: Ints = np.repeat(np.arange(partitions)[:, None] % members, steps, axis=1)
    if members > 1:
        begin = HISTORY + STEPS_PER_HOUR + int(rng.uniform(0.3, 0.4) * STEPS_PER_HOUR)
        away = slice(begin, begin + int(0.35 * STEPS_PER_HOUR))
        owner[:, away] = (np.arange(partitions) % (members - 1))[:, None]
    return owner


Cell = tuple[str, str, str | None, str | None, str | None, int]
"""(cluster, kind, group or None, from rack, to rack, hour from 0)."""


@dataclass(frozen=True)
class Simulation:
    """Clusters over some hours, and their true bytes."""

    seed: int
    hours: int
    faults: frozenset[Fault]
    clusters: tuple[Cluster, ...]
    logs: dict[tuple[str, str], Log]
    readings: tuple[tuple[Cluster, Reading], ...]
    true_bytes: Counter[Cell]

    @property
    def steps(self) -> int:
        return _steps(self.hours)


def simulate(seed: int, hours: int = 2, faults: frozenset[Fault] = frozenset()) -> Simulation:
    """Return a simulation; the same for the same arguments."""
    rng = np.random.default_rng([seed, 1])
    steps = _steps(hours)
    layout = clusters(seed)
    logs = {
        (cluster.name, topic.name): log_of(topic, steps, faults, rng)
        for cluster in layout
        for topic in cluster.topics
    }
    readings = tuple(
        (cluster, read(group, logs[cluster.name, group.topic], faults, rng))
        for cluster in layout
        for group in cluster.groups
    )
    true_bytes: Counter[Cell] = Counter()
    for cluster, reading in readings:
        log = logs[cluster.name, reading.group.topic]
        sources = _racks(cluster.racks, log.leader)
        targets = _racks(reading.group.racks, reading.owner)
        _add_bytes(
            true_bytes,
            (cluster.name, "consume", reading.group.name),
            reading.bytes_read,
            sources,
            targets,
        )
    for cluster in layout:
        for topic in cluster.topics:
            log = logs[cluster.name, topic.name]
            growth = _bytes_per_step(log)
            leaders = _racks(cluster.racks, log.leader)
            unknown_racks = np.full(leaders.shape, None, object)
            _add_bytes(true_bytes, (cluster.name, "produce", None), growth, unknown_racks, leaders)
            for replica_number in range(max(map(len, topic.replicas))):
                broker = np.array(
                    [r[replica_number] if replica_number < len(r) else -1 for r in topic.replicas]
                )
                copies = np.where(
                    (broker[:, None] != log.leader) & (broker[:, None] >= 0), growth, 0.0
                )
                targets = _racks(cluster.racks, np.repeat(broker[:, None], steps, axis=1))
                _add_bytes(true_bytes, (cluster.name, "replicate", None), copies, leaders, targets)
    return Simulation(seed, hours, faults, layout, logs, readings, true_bytes)


def _steps(hours: int) -> int:
    """Return the number of steps: those of the history and the hours, and ten minutes more."""
    return HISTORY + hours * STEPS_PER_HOUR + STEPS_PER_HOUR // 6


def _racks(
    racks: tuple[str | None, ...], index: Ints
) -> np.ndarray[tuple[int, ...], np.dtype[np.object_]]:
    return np.array([*racks, None], object)[index]


def _bytes_per_step(log: Log) -> Floats:
    growth = np.diff(log.bytes_at_end, axis=1, prepend=0.0)
    if log.recreated_at:
        growth[:, log.recreated_at] = log.bytes_at_end[:, log.recreated_at]
    return growth


def _add_bytes(
    true_bytes: Counter[Cell],
    key: tuple[str, str, str | None],
    bytes_read: Floats,
    sources: np.ndarray[tuple[int, ...], np.dtype[np.object_]],
    targets: np.ndarray[tuple[int, ...], np.dtype[np.object_]],
) -> None:
    """Add the bytes of each step in the simulated hours to the cell of its racks and hour."""
    for hour in range((bytes_read.shape[1] - HISTORY) // STEPS_PER_HOUR):
        begin = HISTORY + hour * STEPS_PER_HOUR
        hour_steps = slice(begin, begin + STEPS_PER_HOUR)
        pairs = set(
            zip(sources[:, hour_steps].ravel(), targets[:, hour_steps].ravel(), strict=True)
        )
        for source, target in pairs:
            current = (sources[:, hour_steps] == source) & (targets[:, hour_steps] == target)
            if amount := float(bytes_read[:, hour_steps][current].sum()):
                true_bytes[(*key, source, target, hour)] += amount  # type: ignore[assignment]


BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)
"""The start of the first hour."""

Rows = dict[str, list[dict[str, Any]]]


def observe(simulation: Simulation, every: int = 20) -> Rows:
    """Return the rows of each table, from 20 minutes before the first hour to 10 after the last.

    Snapshots are taken every ``every`` seconds, plus or minus a step.
    """
    rng, other_rng = (np.random.default_rng([simulation.seed, number]) for number in (2, 3))
    faults = simulation.faults
    passes = range(HISTORY - STEPS_PER_HOUR // 3, simulation.steps, every // STEP)
    gap = range(HISTORY + int(0.92 * STEPS_PER_HOUR), HISTORY + int(1.12 * STEPS_PER_HOUR))
    rows: Rows = {"brokers": [], "partitions": [], "members": [], "commits": []}
    for number, planned in enumerate(passes):
        step = min(max(planned + int(rng.integers(-1, 2)), 0), simulation.steps - 1)
        if Fault.GAP in faults and step in gap:
            continue
        # The state at the end of the step.
        at = BEGIN + timedelta(seconds=(step + 1 - HISTORY) * STEP)
        clocks = {"collector-0": at}
        if Fault.SKEWED in faults and number % 2:
            clocks["collector-1"] = at - timedelta(seconds=every * 1.2)
        if Fault.AHEAD in faults and number % 2:
            clocks["collector-2"] = at + timedelta(seconds=every * 0.8)
        if Fault.RELIEVED in faults and step >= HISTORY + STEPS_PER_HOUR // 2:
            clocks = {"collector-3": at - timedelta(seconds=every * 0.6)}
        is_rebalancing = Fault.REBALANCING in faults and number % 7 == 3
        for cluster, (collector, time) in product(simulation.clusters, clocks.items()):
            rows["brokers"] += _brokers(cluster, time)
            seen: Rows = {"partitions": [], "members": [], "commits": []}
            draws = rng if collector == "collector-0" else other_rng
            flaky = Fault.FLAKY in faults
            if not (flaky and draws.random() < 0.1):
                for topic in cluster.topics:
                    log = simulation.logs[cluster.name, topic.name]
                    seen["partitions"] += _partitions(cluster, log, step, time)
            for owner, reading in simulation.readings:
                if owner is not cluster:
                    continue
                seen["members"] += _members(cluster, reading, step, time, is_rebalancing)
                if not (flaky and draws.random() < 0.1):
                    seen["commits"] += _commits(cluster, reading, step, time)
            for name, observed in seen.items():
                rows[name] += [row | {"collector": collector} for row in observed]
    if Fault.DUPLICATES in faults:
        for table in rows.values():
            duplicates = rng.choice(len(table), len(table) // 10, replace=False)
            table += [table[index] for index in duplicates]
    if Fault.LATE in faults:
        for table in rows.values():
            order = rng.permutation(len(table))
            table[:] = [table[index] for index in order]
    return rows


def _brokers(cluster: Cluster, at: datetime) -> list[dict[str, Any]]:
    return [
        {"cluster": cluster.name, "broker": broker, "rack": rack, "host": "h", "taken_at": at}
        for broker, rack in enumerate(cluster.racks)
    ]


def _partitions(cluster: Cluster, log: Log, step: int, at: datetime) -> list[dict[str, Any]]:
    is_recreated = bool(log.recreated_at) and step >= log.recreated_at
    return [
        {
            "cluster": cluster.name,
            "topic": log.topic.name,
            "topic_id": f"{log.topic.name}-{int(is_recreated)}",
            "partition": p,
            "leader": int(log.leader[p, step]),
            "leader_epoch": 0,
            "replicas": list(replicas),
            "isr": list(replicas),
            "start_offset": int(log.start[p, step]),
            "end_offset": int(log.end[p, step]),
            "size_bytes": int(log.size[p, step]),
            "taken_at": at,
        }
        for p, replicas in enumerate(log.topic.replicas)
    ]


def _members(
    cluster: Cluster, reading: Reading, step: int, at: datetime, is_rebalancing: bool
) -> list[dict[str, Any]]:
    group, owner = reading.group, reading.owner[:, step]
    common = {
        "cluster": cluster.name,
        "group": group.name,
        "group_type": "classic",
        "protocol_type": "consumer" if group.racks else "",
        "protocol": "range" if group.racks else "",
        "generation": 1,
        "taken_at": at,
    }
    present: Sequence[int] = sorted({int(index) for index in owner if index >= 0})
    if not present:
        return [common | {"state": "Empty", "member_id": None, "assignment": []}]
    return [
        common
        | {
            "state": "PreparingRebalance" if is_rebalancing else "Stable",
            "member_id": f"{group.name}-{index}",
            "client_id": f"{group.name}-{index}",
            "host": "h",
            "rack": group.racks[index],
            "rack_source": None if group.racks[index] is None else "subscription",
            "topics": [group.topic],
            "assignment": []
            if is_rebalancing
            else [{"topic": group.topic, "partitions": np.flatnonzero(owner == index).tolist()}],
        }
        for index in present
    ]


def _commits(cluster: Cluster, reading: Reading, step: int, at: datetime) -> list[dict[str, Any]]:
    return [
        {
            "cluster": cluster.name,
            "group": reading.group.name,
            "topic": reading.group.topic,
            "partition": p,
            "committed_offset": int(offset),
            "taken_at": at,
        }
        for p, offset in enumerate(reading.position[:, step])
    ]


# ---- Compacted logs.


def compacted_logs() -> tuple[Rows, dict[tuple[str, str], float]]:
    """Return snapshots of logs, one a minute, and the bytes that each group of each cluster read.

    A group lags by as many minutes as its name says. Bytes are those after the first two hours. A
    log's cleaner runs every 15 or 40 minutes: it leaves a share of the bytes of the segments that
    were closed since, and nine tenths of those that it cleaned before.
    """
    rng = np.random.default_rng(3)
    history, minutes, segment = 120, 120, 10
    rows: Rows = {"brokers": [], "partitions": [], "members": [], "commits": []}
    true: dict[tuple[str, str], float] = {}
    for left, every in product((0.2, 0.5, 0.8), (15, 40)):
        cluster = f"{left:.0%} left every {every} minutes"
        records = rng.integers(80, 120, history + minutes)
        sizes = records * 100 * (1 + 0.2 * np.sin(np.arange(history + minutes) / 25))
        offsets = np.concatenate([[0], np.cumsum(records)])
        first = {"cluster": cluster, "taken_at": BEGIN - timedelta(minutes=history)}
        rows["brokers"].append(first | {"broker": 0, "rack": "a"})
        cleaned = 0
        for minute in range(history + minutes):
            if minute % every == every - 1:
                closed = minute // segment * segment
                sizes[:cleaned] *= 0.9
                sizes[cleaned:closed] *= left
                cleaned = max(cleaned, closed)
            at = BEGIN + timedelta(minutes=minute - history)
            of_log = {"cluster": cluster, "topic": "t", "partition": 0, "taken_at": at}
            log = {"topic_id": "x", "leader": 0, "replicas": [0], "start_offset": 0}
            ends = {
                "end_offset": int(offsets[minute + 1]),
                "size_bytes": int(sizes[: minute + 1].sum()),
            }
            rows["partitions"].append(of_log | log | ends)
            for lag in (2, 8, 20, 40, 70):
                if minute < lag:
                    continue
                offset = int(offsets[minute - lag + 1])
                rows["commits"].append(of_log | {"group": f"{lag}", "committed_offset": offset})
                if minute > history:
                    cell = (cluster, f"{lag}")
                    true[cell] = true.get(cell, 0.0) + float(sizes[minute - lag])
    return rows, true
