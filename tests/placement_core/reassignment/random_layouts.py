"""Random clusters with faults, and what is asked of them: seeded."""

from __future__ import annotations

import random
from dataclasses import dataclass

from placement_core import Broker, ClusterView, TopicPartition

RACKS = ("a", "b", "c", "d")
TREES = ("/x/r1", "/x/r2", "/x/r3", "/y/r1", "/y/r2", "/z")


@dataclass(frozen=True, slots=True)
class Case:
    """A layout, the arguments of ``plan_reassignment``, and the factor wanted per partition."""

    view: ClusterView
    replication_factor: int | dict[str, int] | None
    drain: tuple[int, ...]
    topics: tuple[str, ...] | None
    wanted: dict[TopicPartition, int]


def random_case(seed: int) -> Case:
    """A small cluster: racks of unequal size or levels of racks, gone brokers, odd lists."""
    rng = random.Random(seed)
    count = rng.randint(2, 7)
    kind = rng.choice(("flat", "flat", "tree", "none"))
    names = {"flat": RACKS[: rng.randint(1, 4)], "tree": TREES, "none": (None,)}[kind]
    brokers = tuple(Broker(n, rng.choice(names)) for n in range(count))
    gone = [count] if rng.random() < 0.3 else []
    drain = tuple(rng.sample(range(count), rng.choice((0, 0, 1)) if count > 2 else 0))
    staying = count - len(drain)
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    present_factor: dict[str, int] = {}
    crowd = rng.sample([*range(count), *gone], rng.randint(2, count))
    for topic in "ts"[: rng.randint(1, 2)]:
        present_factor[topic] = rng.randint(1, min(4, staying, len(crowd)))
        for number in range(rng.randint(1, 6)):
            replicas[TopicPartition(topic, number)] = tuple(
                rng.sample(crowd, present_factor[topic])
            )
    topics = ("t",) if rng.random() < 0.2 else None
    factor: int | dict[str, int] | None = None
    if rng.random() < 0.4:
        factor = rng.randint(1, min(4, staying))
        if rng.random() < 0.5:
            factor = {"t": factor}
    wanted: dict[TopicPartition, int] = {}
    for partition in replicas:
        if topics and partition.topic not in topics:
            continue
        chosen = factor.get(partition.topic) if isinstance(factor, dict) else factor
        wanted[partition] = chosen or present_factor[partition.topic]
    return Case(ClusterView(brokers, replicas), factor, drain, topics, wanted)
