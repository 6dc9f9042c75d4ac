"""plan_leaders: worked layouts, invalid options, and CP-SAT for mid-size layouts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from placement_core import Broker, ClusterView, InvalidOptionError, TopicPartition
from placement_core.leaders import (
    ConsumerDemand,
    CurrentAssignment,
    Locality,
    WriterDemand,
    components,
    plan_leaders,
)

ORDERS = frozenset({"orders"})
INF, NAN = float("inf"), float("nan")


def six_brokers(partitions: int, topic: str = "orders", seed: int = 1) -> ClusterView:
    """Return a layout with RF 3 on three racks of two brokers; leaders are even, but shuffled."""
    rng = random.Random(seed)
    brokers = tuple(Broker(n, "abc"[n // 2]) for n in range(6))
    rows = []
    for n in range(partitions):
        row = [n % 2, 2 + n // 2 % 2, 4 + n // 4 % 2]
        rows.append(tuple(row[n % 3 :] + row[: n % 3]))
    rng.shuffle(rows)
    return ClusterView(brokers, {TopicPartition(topic, n): row for n, row in enumerate(rows)})


def test_leaders_are_in_the_racks_of_the_consumers() -> None:
    view = six_brokers(36)
    layout = plan_leaders(view, [ConsumerDemand("g", ORDERS, {"a": 2, "b": 1})])
    leaders = Counter(row[0] for row in layout.order.values())
    assert leaders == {0: 12, 1: 12, 2: 6, 3: 6}
    assert layout.localities == (Locality("g", 36, 24, 36),)
    assert layout.locality_proved
    assert layout.balance_proved
    assert len(layout.moves) == 12, "only the twelve partitions led in rack c move"
    reordered = ClusterView(
        view.brokers, layout.order, {p: row[0] for p, row in layout.order.items()}
    )
    for assignor in (LeaderRackAwareCooperativeSticky(), LeaderRackAwareRange()):
        members = [Member(f"m{n}", ORDERS, rack) for n, rack in enumerate("aab")]
        assert assignor.assign(members, reordered.leader_racks()).off_rack == 0


def test_an_optimal_layout_is_unchanged() -> None:
    view = six_brokers(36)
    readers = [ConsumerDemand("g", ORDERS, {"a": 2, "b": 1})]
    order = plan_leaders(view, readers).order
    again = plan_leaders(replace(view, replicas=order), readers)
    assert again.moves == ()
    assert again.localities == (Locality("g", 36, 36, 36),)


def test_the_demand_with_more_weight_has_priority() -> None:
    view = six_brokers(12)
    readers = [
        ConsumerDemand("few bytes", ORDERS, {"a": 1}, weight=1.0),
        ConsumerDemand("many bytes", ORDERS, {"c": 3}, weight=2.0),
    ]
    layout = plan_leaders(view, readers)
    assert [locality.after for locality in layout.localities] == [0, 12]


def test_known_leaders_determine_the_locality_before() -> None:
    view = six_brokers(36)
    readers = [ConsumerDemand("g", ORDERS, {"a": 2, "b": 1})]
    with_leaders = replace(view, leaders=dict.fromkeys(list(view.replicas)[:10], 0))
    [locality] = plan_leaders(with_leaders, readers).localities
    assert (locality.before, locality.after) == (10, 36)
    [locality] = plan_leaders(replace(view, leaders={}), readers).localities
    assert (locality.before, locality.after) == (0, 36)
    [locality] = plan_leaders(replace(view, leaders=None), readers).localities
    assert (locality.before, locality.after) == (24, 36)


def test_only_the_given_topics_change() -> None:
    view = six_brokers(12, "orders")
    view = replace(view, replicas={**view.replicas, **six_brokers(12, "fixed").replicas})
    readers = [ConsumerDemand("g", frozenset({"orders", "fixed"}), {"a": 1})]
    layout = plan_leaders(view, readers, topics=["orders"])
    assert {p.topic for p in layout.order} == {"orders"}
    assert layout.localities == (Locality("g", 24, 8, 16),)
    assert all(row[0] in (0, 1) for row in layout.order.values())


def test_racks_can_be_compared_by_their_widest_levels() -> None:
    brokers = tuple(Broker(n, f"/dc{n // 2}/r{n}") for n in range(4))
    view = ClusterView(brokers, {TopicPartition("orders", n): (n % 4, 3 - n % 4) for n in range(8)})
    readers = [ConsumerDemand("g", ORDERS, {"/dc0/r9": 1})]
    assert plan_leaders(view, readers).localities == (Locality("g", 8, 0, 0),)
    layout = plan_leaders(view, readers, levels=1)
    assert layout.localities == (Locality("g", 8, 4, 8),)
    assert Counter(row[0] for row in layout.order.values()) == {0: 4, 1: 4}


def test_leaders_of_topics_without_readers_are_even() -> None:
    view = six_brokers(36)
    crowded = {p: tuple(sorted(row)) for p, row in view.replicas.items()}
    layout = plan_leaders(replace(view, replicas=crowded), [])
    assert set(Counter(row[0] for row in layout.order.values()).values()) == {6}
    assert layout.localities == ()


def test_unknown_topics_and_missing_brokers_are_ignored() -> None:
    view = six_brokers(6)
    deleted = {TopicPartition("gone", 0): (8, 9), TopicPartition("gone", 1): (9, 0)}
    layout = plan_leaders(
        replace(view, replicas={**view.replicas, **deleted}),
        [
            ConsumerDemand("g", frozenset({"gone", "nowhere"}), {"a": 1}),
            ConsumerDemand("idle", ORDERS, {"a": 0}),
        ],
    )
    assert TopicPartition("gone", 0) not in layout.order
    assert layout.order[TopicPartition("gone", 1)] == (0, 9)
    assert layout.localities == (Locality("g", 2, 0, 1),)
    assert plan_leaders(ClusterView(()), []).order == {}


def demand(count: object = 1, weight: float = 1.0) -> ConsumerDemand:
    return ConsumerDemand("g", ORDERS, {"a": count}, weight)  # type: ignore[dict-item]


def kept(weight: float = 1.0) -> CurrentAssignment:
    partition = TopicPartition("orders", 0)
    return CurrentAssignment("g", ORDERS, {partition: "a"}, {partition: weight})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": ["nowhere"]}, "no topic nowhere"),
        ({"levels": 0}, "levels is 0"),
        *(({"max_imbalance": share}, f"max_imbalance is {share}") for share in (-1, INF, NAN)),
        ({"max_byte_imbalance": -1}, "max_byte_imbalance is -1"),
        ({"demands": [demand(), demand()]}, "two readers are named g"),
        ({"demands": [demand()], "assignments": [kept()]}, "two readers are named g"),
        ({"writers": [WriterDemand("w", {})] * 2}, "two writers are named w"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        plan_leaders(six_brokers(6), **options)


def test_invalid_demands_are_rejected() -> None:
    for count in (-1, True, 1.5):
        with pytest.raises(InvalidOptionError, match="consumers in rack a: give a whole number"):
            demand(count)
    for weight in (0.0, -1.0, NAN, INF):
        with pytest.raises(InvalidOptionError, match="the weight of g is"):
            demand(weight=weight)
        with pytest.raises(InvalidOptionError, match="the weight of orders-0 for g is"):
            kept(weight)
    with pytest.raises(InvalidOptionError, match="writes -1 to t from rack a"):
        WriterDemand("w", {"t": {"a": -1}})


def test_groups_are_connected_through_others() -> None:
    assert components([]) == []
    assert components([["t"], ["u"], ["t", "u"], [], ["v"], ["v"]]) == [0, 0, 0, 3, 4, 4]
    chain = [[number, number + 1] for number in range(2000)]
    assert set(components(chain)) == {0}
    assert set(components(chain[::-1])) == {0}


def test_a_light_reader_counts_beside_a_very_heavy_one() -> None:
    """Of two groups that want other leaders, the one with more weight decides, however light."""
    view = ClusterView(
        (Broker(0, "a"), Broker(1, "b")),
        {TopicPartition(topic, 0): (0, 1) for topic in ("hot", "t")},
    )
    readers = [
        ConsumerDemand("hot", frozenset({"hot"}), {"a": 1}, weight=1e9),
        ConsumerDemand("light", frozenset({"t"}), {"a": 1}, weight=1.0),
        ConsumerDemand("heavier", frozenset({"t"}), {"b": 1}, weight=800.0),
    ]
    layout = plan_leaders(view, readers)
    assert layout.order[TopicPartition("t", 0)] == (1, 0)
    assert layout.locality_proved
