"""Small clusters with consumers in odd places: seeded."""

from __future__ import annotations

import random

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.leaders import Readers

RACKS = ("a", "b", "c", "d")


def random_view(rng: random.Random, partitions: int, topics: str = "t") -> ClusterView:
    """Replicas anywhere, some on a broker that is gone, some brokers without a rack."""
    racks: list[str | None] = list(RACKS[: rng.randint(1, 4)])
    if rng.random() < 0.15:
        racks.append(None)
    brokers = tuple(Broker(n, rng.choice(racks)) for n in range(rng.randint(2, 6)))
    ids = [broker.id for broker in brokers] + ([9] if rng.random() < 0.2 else [])
    replicas = {}
    for n in range(partitions):
        count = min(rng.choice((1, 2, 3, 3)), len(ids))
        replicas[TopicPartition(topics[n % len(topics)], n // len(topics))] = tuple(
            rng.sample(ids, count)
        )
    return ClusterView(brokers, replicas)


def random_readers(rng: random.Random, name: str, topics: str = "t") -> Readers:
    """A few consumers, now and then in a rack without brokers, or in none."""
    racks: list[str | None] = [*RACKS, None]
    consumers = {rack: rng.choice((0, 0, 1, 1, 2, 3)) for rack in rng.sample(racks, 4)}
    return Readers(name, frozenset(topics), consumers, rng.choice((1.0, 1.0, 0.5, 2.0)))
