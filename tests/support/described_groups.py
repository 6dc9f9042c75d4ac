"""Random groups as brokers describe them: racks, subscriptions and what members own."""

from __future__ import annotations

import random

from placement_core import ClusterView
from rackward.kafka.groups import Group, GroupMember

PROTOCOLS = (("classic", "range"), ("classic", "cooperative-sticky"), ("consumer", "uniform"))


def random_group(rng: random.Random, view: ClusterView, name: str = "g") -> Group:
    """Return members with random partitions, some claimed twice or by nobody, some rackless."""
    kind, protocol = rng.choice(PROTOCOLS)
    shares: list[dict[str, list[int]]] = [{} for _ in range(rng.randint(1, 5))]
    for tp in sorted(view.replicas):
        for share in rng.sample(shares, rng.choice((0, 1, 1, 1, 1, min(2, len(shares))))):
            share.setdefault(tp.topic, []).append(tp.partition)
    members = tuple(
        GroupMember(
            f"m{n}",
            None,
            f"m{n}",
            "/10.0.0.1",
            rng.choice(("a", "b", "c", "/a", "e", None)),
            frozenset(rng.sample(["t", "s", "absent"], 2)),
            {topic: tuple(numbers) for topic, numbers in share.items()},
        )
        for n, share in enumerate(shares)
    )
    return Group(name, kind, "Stable", "consumer", protocol, None, members)
