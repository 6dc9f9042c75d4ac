"""A world over some hours, and its true traffic."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from tests.rack_traffic.truth.faults import Fault
from tests.rack_traffic.truth.layout import STEPS_PER_HOUR, Cluster, clusters
from tests.rack_traffic.truth.logs import HISTORY, Floats, Ints, Log, log_of
from tests.rack_traffic.truth.readers import Reading, read

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
