"""The limit of bytes per broker: kept whenever any choice of leaders keeps it."""

from __future__ import annotations

import random
from itertools import product

import pytest

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.leaders import (
    ConsumerDemand,
    CurrentAssignment,
    Obstacle,
    WriterDemand,
    plan_leaders,
)

TOPIC_RATES = (1.0, 2.0, 5.0, 13.0)


def random_cluster(
    rng: random.Random,
) -> tuple[ClusterView, list[ConsumerDemand], list[CurrentAssignment], list[WriterDemand]]:
    """Return at most 7 partitions of 2 topics on at most 5 brokers, with readers and writers."""
    brokers = tuple(Broker(n, rng.choice("abc")) for n in range(rng.randint(2, 5)))
    replicas = {
        TopicPartition(topic, n): tuple(
            rng.sample(range(len(brokers)), rng.randint(1, min(3, len(brokers))))
        )
        for topic in "tu"
        for n in range(rng.randint(1, 4 if topic == "t" else 3))
    }
    demands = [
        ConsumerDemand(
            name, frozenset(topics), {rack: rng.randint(0, 2) for rack in "abc"}, rng.choice((1, 3))
        )
        for name, topics in (("g", "t"), ("h", rng.choice(("u", "tu"))))
    ]
    kept = CurrentAssignment(
        "k",
        frozenset("u"),
        {p: rng.choice("abc") for p in replicas if p.topic == "u"},
        {p: rng.choice(TOPIC_RATES) for p in replicas if p.topic == "u"},
    )
    written: dict[str | TopicPartition, dict[str | None, float]] = {
        p: {rng.choice("abc"): rng.choice(TOPIC_RATES)} for p in replicas if p.topic == "t"
    }
    aware: dict[str | TopicPartition, dict[str | None, float]] = {
        "u": {rack: rng.choice(TOPIC_RATES) for rack in "abc"}
    }
    writers = [WriterDemand("w", written), WriterDemand("x", aware, rack_aware=True)]
    return ClusterView(brokers, replicas), demands, [kept] if rng.random() < 0.3 else [], writers


def served(
    view: ClusterView,
    demands: list[ConsumerDemand],
    kept: list[CurrentAssignment],
    writers: list[WriterDemand],
) -> dict[TopicPartition, float]:
    """Return what the leader of each partition serves, from the definition."""
    topics: dict[str, list[TopicPartition]] = {}
    for partition in view.replicas:
        topics.setdefault(partition.topic, []).append(partition)
    found = dict.fromkeys(view.replicas, 0.0)
    for demand in demands:
        if sum(demand.consumers.values()):
            for topic in demand.topics:
                for partition in topics.get(topic, ()):
                    found[partition] += demand.weight
    for each in kept:
        for partition in each.racks:
            found[partition] += each.weight(partition)
    for writer in writers:
        for partition, row in writer.by_partition(topics).items():
            found[partition] += sum(row.values())
    return found


def heaviest(view: ClusterView, size: dict[TopicPartition, float], leaders: list[int]) -> float:
    loads = dict.fromkeys(view.racks(), 0.0)
    for partition, leader in zip(view.replicas, leaders, strict=True):
        loads[leader] += size[partition]
    return max(loads.values()) * len(loads) / sum(loads.values())


@pytest.mark.parametrize("seed", range(40))
def test_the_limit_is_kept_whenever_it_can_be(seed: int) -> None:
    rng = random.Random(f"bytes {seed}")
    for _ in range(5):
        view, demands, kept, writers = random_cluster(rng)
        size = served(view, demands, kept, writers)
        share = rng.choice((0.05, 0.2, 0.5, 1.0))
        layout = plan_leaders(
            view, demands, assignments=kept, writers=writers, max_byte_imbalance=share
        )
        found = heaviest(view, size, [layout.order[p][0] for p in view.replicas])
        assert layout.heaviest_broker == pytest.approx(found, rel=1e-3)
        least = min(heaviest(view, size, list(row)) for row in product(*view.replicas.values()))
        if least <= (1 + share) * (1 - 1e-3):
            assert found <= (1 + share) * (1 + 1e-3)
        for partition, row in view.replicas.items():
            assert sorted(layout.order[partition]) == sorted(row)


@pytest.mark.parametrize("seed", range(20))
def test_a_limit_that_is_kept_anyway_changes_nothing(seed: int) -> None:
    rng = random.Random(f"kept {seed}")
    view, demands, kept, writers = random_cluster(rng)
    free = plan_leaders(view, demands, assignments=kept, writers=writers)
    share = max(0.0, free.heaviest_broker - 1) + 1e-6
    limited = plan_leaders(
        view, demands, assignments=kept, writers=writers, max_byte_imbalance=share
    )
    assert limited == free


def test_busy_partitions_are_led_by_different_brokers() -> None:
    """Both are read in rack a, where broker 0 alone could serve them; the limit moves one."""
    brokers = (Broker(0, "a"), Broker(1, "b"))
    view = ClusterView(brokers, {TopicPartition("t", n): (0, 1) for n in range(2)})
    demand = ConsumerDemand("g", frozenset("t"), {"a": 1})
    free = plan_leaders(view, [demand])
    limited = plan_leaders(view, [demand], max_byte_imbalance=0.0)
    assert (free.heaviest_broker, free.consumed[0].after) == (2.0, 0.0)
    assert (limited.heaviest_broker, limited.consumed[0].after) == (1.0, 1.0)
    assert limited.gap == 0  # No layout that keeps the limit is better.


def test_what_the_limit_keeps_across_racks_is_named() -> None:
    brokers = (Broker(0, "a"), Broker(1, "b"))
    view = ClusterView(brokers, {TopicPartition("t", n): (0, 1) for n in range(2)})
    owned = CurrentAssignment("g", frozenset("t"), dict.fromkeys(view.replicas, "a"))
    (unmet,) = plan_leaders(view, assignments=[owned], max_byte_imbalance=0.0).unmet
    assert (unmet.obstacle, unmet.rack, len(unmet.partitions)) == (Obstacle.BYTE_LIMIT, "a", 1)
    assert plan_leaders(view, assignments=[owned], max_byte_imbalance=1.0).unmet == ()


def test_the_limit_keeps_that_of_leaders_as_well() -> None:
    rng = random.Random(3)
    brokers = tuple(Broker(n, "abc"[n % 3]) for n in range(6))
    replicas = {TopicPartition("t", n): tuple(rng.sample(range(6), 3)) for n in range(200)}
    view = ClusterView(brokers, replicas)
    written: dict[str | TopicPartition, dict[str | None, float]] = {
        p: {rng.choice("aab"): rng.lognormvariate(0, 1)} for p in replicas
    }
    layout = plan_leaders(
        view, writers=[WriterDemand("w", written)], max_imbalance=0.2, max_byte_imbalance=0.2
    )
    led = [sum(row[0] == broker for row in layout.order.values()) for broker in range(6)]
    now = [sum(row[0] == broker for row in replicas.values()) for broker in range(6)]
    assert layout.leader_limit == 40
    assert all(count <= max(40, before) for count, before in zip(led, now, strict=True))
    assert layout.heaviest_broker <= 1.2
    assert 0 < layout.gap < 0.01
