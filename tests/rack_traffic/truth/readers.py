"""Groups that read: where their offsets stand, what they took, and where, at every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.rack_traffic.truth.faults import Fault
from tests.rack_traffic.truth.layout import STEP, STEPS_PER_HOUR, Group
from tests.rack_traffic.truth.logs import HISTORY, Floats, Ints, Log

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
