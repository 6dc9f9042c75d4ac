"""The partitions of a topic over time: offsets, bytes, leaders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.rack_traffic.truth.faults import Fault
from tests.rack_traffic.truth.layout import STEP, STEPS_PER_HOUR, Topic

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
