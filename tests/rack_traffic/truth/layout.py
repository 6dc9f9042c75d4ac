"""What a world is made of, before time starts: clusters, topics and groups, from a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
