"""What a world is made of, before time starts: clusters, topics and groups, from a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEP = 5
"""Seconds of a step."""

STEPS_PER_HOUR = 3600 // STEP


@dataclass(frozen=True)
class Topic:
    name: str
    partitions: int
    per_second: float
    """Records per second and partition, at the world's mean."""
    record_bytes: float
    replicas: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Group:
    name: str
    topic: str
    kind: str
    """head, lagging, bursts, or alone (consumers that assign partitions to themselves)."""
    racks: tuple[str | None, ...]
    """A member per rack."""


@dataclass(frozen=True)
class Cluster:
    name: str
    racks: tuple[str | None, ...]
    """Index: broker."""
    topics: tuple[Topic, ...]
    groups: tuple[Group, ...]


def clusters(seed: int) -> tuple[Cluster, ...]:
    """One cluster of plain racks, and one of racks with levels where a broker says none."""
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
                Group("flink", "clicks", "alone", ()),
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


# ---- What can go wrong between a cluster and its snapshots.


class Fault(StrEnum):
    """One kind of trouble."""

    GAP = "gap"
    """The collector is down for a while, across the turn of an hour."""
    SET_BACK = "set back"
    """An operator sets a running group's offsets back; it reads a stretch again, fast."""
    SET_FORWARD = "set forward"
    """An operator stops a group and sets its offsets to the end of the log."""
    OVERTAKEN = "overtaken"
    """A slow group is overtaken by retention, and skips what is gone."""
    RECREATED = "re-created"
    """A topic is deleted and created again, with offsets that start at 0."""
    COMPACTED = "compacted"
    """A cleaner shrinks a log under its readers."""
    DUPLICATES = "duplicates"
    """A tenth of the rows come twice."""
    LATE = "late"
    """Rows come in any order."""
    FLAKY = "flaky"
    """A tenth of the snapshots of partitions and of commits fail, each on its own."""
    REBALANCING = "rebalancing"
    """Some snapshots of a group are taken in the middle of a rebalance, without assignments."""


# ---- The partitions of a topic over time: offsets, bytes, leaders.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SEGMENT = STEPS_PER_HOUR // 5
"""Retention deletes a segment's worth at a time."""

RETENTION = STEPS_PER_HOUR * 3 // 4

HISTORY = STEPS_PER_HOUR
"""Steps that were before the world's first hour, so that logs are not empty."""


@dataclass(frozen=True)
class Log:
    """Arrays of (partition, step); steps count from ``HISTORY`` before the first hour."""

    topic: Topic
    end: Ints
    """The next offset, at the end of the step."""
    bytes_at_end: Floats
    """Bytes that were ever appended, at the end of the step."""
    start: Ints
    size: Ints
    leader: Ints
    """Broker."""
    born: int
    """The step at whose beginning the topic was created again; 0 where it was not."""

    def bytes_between(self, first: Ints, last: Ints) -> Floats:
        """Bytes of the offsets from ``first`` to ``last``, both of (partition, step).

        They are of the incarnation that the topic is in at that step.
        """
        found = np.zeros(first.shape)
        steps = first.shape[1]
        for life in (slice(0, self.born), slice(self.born, steps)):
            for p in range(len(first)):
                # Offset 0 of an incarnation is where its bytes begin.
                offsets = np.concatenate([[0], self.end[p, life]])
                sizes = np.concatenate([[0.0], self.bytes_at_end[p, life]])
                low, high = (np.interp(each[p, life], offsets, sizes) for each in (first, last))
                found[p, life] = high - low
        return found


def log_of(topic: Topic, steps: int, faults: frozenset[Fault], rng: np.random.Generator) -> Log:
    """Rates and record sizes wander over the day; keys differ by up to a factor of three."""
    time = np.arange(steps) / STEPS_PER_HOUR
    weight = rng.uniform(0.5, 1.5, (topic.partitions, 1))
    rate = topic.per_second * STEP * weight * (1 + 0.3 * np.sin(time / 3 + rng.uniform(0, 6)))
    records = rng.poisson(rate)
    drift = 1 + 0.15 * np.sin(time / 2 + rng.uniform(0, 6)) + 0.02 * rng.normal(size=steps)
    appended = records * topic.record_bytes * weight**0.3 * drift
    # Every fourth offset of this topic is a transaction's marker, which no consumer sees.
    if topic.name == "clicks":
        appended = appended + 78.0 * (records // 4)
        records = records + records // 4
    born = 0
    if Fault.RECREATED in faults and topic.name == "state":
        born = HISTORY + STEPS_PER_HOUR + 97
    end, sizes = _from(records, born), _from(appended, born)
    compacted = Fault.COMPACTED in faults and topic.name == "state"
    start = np.zeros_like(end) if compacted else _retained(end, born)
    kept = sizes - np.array([np.interp(start[p], end[p], sizes[p]) for p in range(len(end))])
    if born:
        kept[:, born:] = sizes[:, born:]
    if compacted:
        kept = kept - _cleaned(kept, born)
    return Log(
        topic,
        end.astype(np.int64),
        sizes,
        start.astype(np.int64),
        np.round(kept).astype(np.int64),
        _leaders(topic, steps, rng),
        born,
    )


def _from(increments: Floats | Ints, born: int) -> Floats:
    total = np.cumsum(increments, axis=1, dtype=np.float64)
    if born:
        total[:, born:] -= total[:, [born - 1]]
    return total


def _retained(end: Floats, born: int) -> Floats:
    """The first offset that is kept: three quarters of an hour of records, by segments."""
    start = np.zeros_like(end)
    for step in range(RETENTION + SEGMENT, end.shape[1]):
        cut = (step - RETENTION) // SEGMENT * SEGMENT
        if cut > born or (not born) or step < born:
            start[:, step] = end[:, cut]
    return start


def _cleaned(kept: Floats, born: int) -> Floats:
    """Bytes that a cleaner has taken away by the end of each step."""
    gone = np.zeros_like(kept)
    for step in range(HISTORY // 2, kept.shape[1]):
        if step != born:
            gone[:, step] = gone[:, step - 1]
        if step % 211 == 0:
            gone[:, step] = np.maximum(gone[:, step], 0.7 * kept[:, step])
    return gone


def _leaders(topic: Topic, steps: int, rng: np.random.Generator) -> Ints:
    """The preferred ones, but for a broker that is away a while, and some that are moved.

    None of it lasts for seconds only: how long is known no better than snapshots are frequent.
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


# ---- Groups that read: where their offsets stand, what they took, and where, at every step.

LAG = STEPS_PER_HOUR // 4
BURST = STEPS_PER_HOUR // 30
FASTEST = 5.0
"""How many times its topic's mean rate a partition is read at most."""


@dataclass(frozen=True)
class Reading:
    """Arrays of (partition, step)."""

    group: Group
    position: Ints
    """The committed offset at the end of the step."""
    took: Floats
    """Bytes that were read in the step."""
    owner: Ints
    """Index of the member; -1: nobody."""


def read(group: Group, log: Log, faults: frozenset[Fault], rng: np.random.Generator) -> Reading:
    """The group's way through the log."""
    partitions, steps = log.end.shape
    position = np.zeros((partitions, steps), np.int64)
    first, last = np.zeros_like(position), np.zeros_like(position)
    owner = _owners(group, partitions, steps, rng)
    speed = int(FASTEST * log.topic.per_second * STEP)
    set_back = HISTORY + int(0.4 * STEPS_PER_HOUR) + 3
    stop = range(HISTORY + int(0.6 * STEPS_PER_HOUR), HISTORY + int(0.7 * STEPS_PER_HOUR))
    here = log.end[:, HISTORY // 2].copy()
    for step in range(HISTORY // 2 + 1, steps):
        if step == log.born:
            here[:] = 0
        if Fault.SET_BACK in faults and group.name == "billing" and step == set_back:
            here = log.end[:, step - STEPS_PER_HOUR // 6].copy()
        goal = _goal(group, log, faults, step, here)
        stopped = Fault.SET_FORWARD in faults and group.name == "audit" and step in stop
        if stopped:
            owner[:, step] = -1
            if step == stop[len(stop) // 2]:
                here = log.end[:, step].copy()
        else:
            # Out of range: the consumer begins again at the earliest that there is.
            here = np.maximum(here, log.start[:, step])
            then = np.clip(goal, here, here + speed)
            first[:, step], last[:, step] = here, then
            here = then
        position[:, step] = here
    return Reading(group, position, log.bytes_between(first, last), owner)


def _goal(group: Group, log: Log, faults: frozenset[Fault], step: int, here: Ints) -> Ints:
    """How far the group would read by the end of this step."""
    if Fault.OVERTAKEN in faults and group.name == "search":
        # Half as fast as is written, and so out of the log in the end.
        return here + (log.end[:, step] - log.end[:, step - 1]) // 2
    if group.kind == "lagging":
        return log.end[:, max(step - LAG, log.born if step >= log.born else 0)]
    if group.kind == "bursts" and step // BURST % 2:
        return np.zeros_like(log.end[:, step])
    return log.end[:, step - 1] if step != log.born else np.zeros_like(log.end[:, step])


def _owners(group: Group, partitions: int, steps: int, rng: np.random.Generator) -> Ints:
    """Partitions dealt to the members; the last member is away for twenty minutes."""
    members = len(group.racks)
    if not members:
        return np.full((partitions, steps), -1, np.int64)
    owner: Ints = np.repeat(np.arange(partitions)[:, None] % members, steps, axis=1)
    if members > 1:
        begin = HISTORY + STEPS_PER_HOUR + int(rng.uniform(0.3, 0.4) * STEPS_PER_HOUR)
        away = slice(begin, begin + int(0.35 * STEPS_PER_HOUR))
        owner[:, away] = (np.arange(partitions) % (members - 1))[:, None]
    return owner


# ---- A world over some hours, and its true traffic.

Cell = tuple[str, str, str | None, str | None, str | None, int]
"""(cluster, kind, group or None, from rack, to rack, hour from 0)."""


@dataclass(frozen=True)
class World:
    seed: int
    hours: int
    faults: frozenset[Fault]
    clusters: tuple[Cluster, ...]
    logs: dict[tuple[str, str], Log]
    readings: tuple[tuple[Cluster, Reading], ...]
    truth: Counter[Cell]

    @property
    def steps(self) -> int:
        return _steps(self.hours)


def simulate(seed: int, hours: int = 2, faults: frozenset[Fault] = frozenset()) -> World:
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
    truth: Counter[Cell] = Counter()
    for cluster, reading in readings:
        log = logs[cluster.name, reading.group.topic]
        sources = _racks(cluster.racks, log.leader)
        targets = _racks(reading.group.racks, reading.owner)
        _book(truth, (cluster.name, "consume", reading.group.name), reading.took, sources, targets)
    for cluster in layout:
        for topic in cluster.topics:
            log = logs[cluster.name, topic.name]
            grown = _grown(log)
            leaders = _racks(cluster.racks, log.leader)
            nowhere = np.full(leaders.shape, None, object)
            _book(truth, (cluster.name, "produce", None), grown, nowhere, leaders)
            for place in range(max(map(len, topic.replicas))):
                broker = np.array([r[place] if place < len(r) else -1 for r in topic.replicas])
                copies = np.where(
                    (broker[:, None] != log.leader) & (broker[:, None] >= 0), grown, 0.0
                )
                targets = _racks(cluster.racks, np.repeat(broker[:, None], steps, axis=1))
                _book(truth, (cluster.name, "replicate", None), copies, leaders, targets)
    return World(seed, hours, faults, layout, logs, readings, truth)


def _steps(hours: int) -> int:
    """Some minutes more than the hours that count: a collector does not stop with the hour."""
    return HISTORY + hours * STEPS_PER_HOUR + STEPS_PER_HOUR // 6


def _racks(
    racks: tuple[str | None, ...], index: Ints
) -> np.ndarray[tuple[int, ...], np.dtype[np.object_]]:
    return np.array([*racks, None], object)[index]


def _grown(log: Log) -> Floats:
    grown = np.diff(log.bytes_at_end, axis=1, prepend=0.0)
    if log.born:
        grown[:, log.born] = log.bytes_at_end[:, log.born]
    return grown


def _book(
    truth: Counter[Cell],
    what: tuple[str, str, str | None],
    took: Floats,
    sources: np.ndarray[tuple[int, ...], np.dtype[np.object_]],
    targets: np.ndarray[tuple[int, ...], np.dtype[np.object_]],
) -> None:
    """Add each step's bytes, of the hours that count, under its racks."""
    for hour in range((took.shape[1] - HISTORY) // STEPS_PER_HOUR):
        begin = HISTORY + hour * STEPS_PER_HOUR
        cut = slice(begin, begin + STEPS_PER_HOUR)
        pairs = set(zip(sources[:, cut].ravel(), targets[:, cut].ravel(), strict=True))
        for source, target in pairs:
            here = (sources[:, cut] == source) & (targets[:, cut] == target)
            if amount := float(took[:, cut][here].sum()):
                truth[(*what, source, target, hour)] += amount  # type: ignore[assignment]


# ---- The snapshots that a collector takes of a world, with the faults on the way.

BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)
"""When the first hour begins."""

Rows = dict[str, list[dict[str, Any]]]


def observe(world: World, every: int = 20) -> Rows:
    """Table to rows, from 20 minutes before the first hour to ten after the last one.

    Every pass begins ``every`` seconds after the one before, give or take a step.
    """
    rng = np.random.default_rng([world.seed, 2])
    faults = world.faults
    passes = range(HISTORY - STEPS_PER_HOUR // 3, world.steps, every // STEP)
    gap = range(HISTORY + int(0.92 * STEPS_PER_HOUR), HISTORY + int(1.12 * STEPS_PER_HOUR))
    rows: Rows = {"brokers": [], "partitions": [], "members": [], "commits": []}
    for number, planned in enumerate(passes):
        step = min(max(planned + int(rng.integers(-1, 2)), 0), world.steps - 1)
        if Fault.GAP in faults and step in gap:
            continue
        for cluster in world.clusters:
            # A pass over one cluster takes a while: what it reads is not of one instant.
            at = BEGIN + timedelta(seconds=(step + 1 - HISTORY) * STEP)
            rows["brokers"] += _brokers(cluster, at)
            flaky = Fault.FLAKY in faults
            if not (flaky and rng.random() < 0.1):
                for topic in cluster.topics:
                    rows["partitions"] += _partitions(
                        cluster, world.logs[cluster.name, topic.name], step, at
                    )
            for owner, reading in world.readings:
                if owner is not cluster:
                    continue
                unsettled = Fault.REBALANCING in faults and number % 7 == 3
                rows["members"] += _members(cluster, reading, step, at, unsettled)
                if not (flaky and rng.random() < 0.1):
                    rows["commits"] += _commits(cluster, reading, step, at)
    if Fault.DUPLICATES in faults:
        for table in rows.values():
            again = rng.choice(len(table), len(table) // 10, replace=False)
            table += [table[index] for index in again]
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
    reborn = bool(log.born) and step >= log.born
    return [
        {
            "cluster": cluster.name,
            "topic": log.topic.name,
            "topic_id": f"{log.topic.name}-{int(reborn)}",
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
    cluster: Cluster, reading: Reading, step: int, at: datetime, unsettled: bool
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
            "state": "PreparingRebalance" if unsettled else "Stable",
            "member_id": f"{group.name}-{index}",
            "client_id": f"{group.name}-{index}",
            "host": "h",
            "rack": group.racks[index],
            "rack_source": None if group.racks[index] is None else "subscription",
            "topics": [group.topic],
            "assignment": []
            if unsettled
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
