"""Groups as brokers describe them: given ones, and random ones with what they read."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from placement_core import ClusterView
from rackward.groups.readers import topics_read
from rackward.kafka import ClusterState
from rackward.kafka.groups import Group, GroupMember
from tests.support.placement import random_view

PROTOCOLS = (("classic", "range"), ("classic", "cooperative-sticky"), ("consumer", "uniform"))


def member(
    id: str,
    rack: str | None = None,
    owned: Mapping[str, Sequence[int]] | None = None,
    **fields: Any,
) -> GroupMember:
    """Return a member that reads ``owned``, and by default subscribes to these topics."""
    assignment = {topic: tuple(numbers) for topic, numbers in (owned or {}).items()}
    values = {"client_id": id, "host": "/10.0.0.1", "topics": frozenset(assignment), **fields}
    return GroupMember(
        id, values.pop("instance_id", None), rack=rack, assignment=assignment, **values
    )


def group(*members: GroupMember, id: str = "g", protocol: str = "range", **fields: Any) -> Group:
    """Return a stable classic group, unless ``fields`` say otherwise."""
    values = {"type": "classic", "state": "Stable", "protocol_type": "consumer", "generation": 1}
    return Group(id, protocol=protocol, members=members, **{**values, **fields})


def random_group(rng: random.Random, view: ClusterView, name: str = "g") -> Group:
    """Return members with random partitions, some claimed twice or by nobody, some rackless."""
    kind, protocol = rng.choice(PROTOCOLS)
    shares: list[dict[str, list[int]]] = [{} for _ in range(rng.randint(1, 5))]
    for tp in sorted(view.replicas):
        for share in rng.sample(shares, rng.choice((0, 1, 1, 1, 1, min(2, len(shares))))):
            share.setdefault(tp.topic, []).append(tp.partition)
    members = (
        member(
            f"m{n}",
            rng.choice(("a", "b", "c", "/a", "e", None)),
            share,
            topics=frozenset(rng.sample(["t", "s", "absent"], 2)),
        )
        for n, share in enumerate(shares)
    )
    return group(*members, id=name, type=kind, protocol=protocol, generation=None)


def random_state(rng: random.Random) -> ClusterState:
    """Return a cluster with topics t, s and u; the first live replica of each partition leads."""
    view = random_view(rng, rng.randint(1, 30), "tsu")
    live = view.racks()
    leaders = {
        tp: next(broker for broker in row if broker in live)
        for tp, row in view.replicas.items()
        if any(broker in live for broker in row)
    }
    topic_ids = dict.fromkeys(tp.topic for tp in view.replicas)
    return ClusterState("c", replace(view, leaders=leaders), topic_ids=topic_ids)


def view_of(group: Group, view: ClusterView) -> ClusterView:
    """Return the view of the topics that the group reads, as `groups explain` reads it."""
    return ClusterState(None, view).only(topics_read(group)).view
