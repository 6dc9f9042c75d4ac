"""plan_leaders for groups that keep their assignment: enumeration, an integer program, reasons."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.leaders import (
    ConsumerDemand,
    CurrentAssignment,
    Locality,
    Obstacle,
    UnmetReads,
    plan_leaders,
)
from tests.support.placement import (
    best_value,
    check_layout,
    chosen,
    random_readers,
    random_view,
    value,
)


def random_assignment(rng: random.Random, name: str, view: ClusterView) -> CurrentAssignment:
    """Return owners of most partitions, some in unknown racks or in racks without brokers."""
    topics = sorted({tp.topic for tp in view.replicas})
    read = frozenset(rng.sample(topics, rng.randint(1, len(topics))))
    racks = {
        tp: rng.choice(("a", "b", "c", "d", "e", None))
        for tp in view.replicas
        if tp.topic in read and rng.random() < 0.9
    }
    weights = {tp: rng.choice((1.0, 2.0, 5.0, 10.0)) for tp in racks if rng.random() < 0.5}
    return CurrentAssignment(name, read, racks, weights if rng.random() < 0.5 else {})


def limits_of(view: ClusterView, max_imbalance: float | None) -> dict[int, int] | None:
    """Return the maximum leaders of each broker, counted from the replica lists."""
    if max_imbalance is None:
        return None
    live = view.racks()
    now = Counter(
        row[0] if row[0] in live else next((broker for broker in row if broker in live), -1)
        for row in view.replicas.values()
    )
    mean = sum(now[b] for b in live) / len(live)
    ceiling = -int(-round(mean * (1 + max_imbalance), 6) // 1)
    return {broker: max(now[broker], ceiling) for broker in live}


@pytest.mark.parametrize("block", range(8))
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_layouts_are_optimal_at_every_rank(block: int, groups: int) -> None:
    for seed in range(block * 15, block * 15 + 15):
        rng = random.Random(seed)
        view = random_view(rng, rng.randint(1, 7), "tsu"[: 1 + seed % 3])
        assignments = [random_assignment(rng, str(n), view) for n in range(groups)]
        bound = rng.choice((None, 0.0, 0.3, 1.0))
        layout = plan_leaders(view, assignments=assignments, max_imbalance=bound)
        check_layout(view, [], layout, assignments)
        actual, limits = value(view, [], chosen(view, layout), assignments), limits_of(view, bound)
        assert actual == best_value(view, [], assignments, limits), f"seed {seed}"
        assert layout.locality_proved
        assert layout.balance_proved
        loads = Counter(chosen(view, layout).values())
        assert limits is None or all(loads[b] <= limits[b] for b in limits)


@pytest.mark.parametrize("seed", range(80))
def test_layouts_for_both_kinds_of_groups_are_optimal_together(seed: int) -> None:
    rng = random.Random(seed)
    view = random_view(rng, rng.randint(1, 6), "t")
    assignments = [random_assignment(rng, f"fixed {n}", view) for n in range(1 + seed % 2)]
    demands = [
        replace(random_readers(rng, f"following {n}"), weight=rng.choice((1.0, 2.0)))
        for n in range(1 + seed // 2 % 2)
    ]
    bound = rng.choice((None, 0.3, 1.0))
    layout = plan_leaders(view, demands, assignments=assignments, max_imbalance=bound)
    check_layout(view, demands, layout, assignments)
    actual = value(view, demands, chosen(view, layout), assignments)
    # Weights are rounded to integers of up to 10,000, so 1, 2, 5 and 10 keep their proportions.
    assert actual == best_value(view, demands, assignments, limits_of(view, bound))
    assert layout.locality_proved


@pytest.mark.parametrize("seed", range(20))
def test_a_layout_is_stable(seed: int) -> None:
    rng = random.Random(seed)
    view = random_view(rng, rng.randint(5, 40), "ts")
    assignments = [random_assignment(rng, str(n), view) for n in range(2)]
    layout = plan_leaders(view, assignments=assignments, max_imbalance=0.5)
    after = replace(view, replicas={**view.replicas, **layout.order})
    again = plan_leaders(after, assignments=assignments, max_imbalance=0.5)
    assert again.moves == ()
    assert [each.after for each in again.localities] == [each.after for each in layout.localities]


BROKERS = tuple(Broker(n, "abc"[n // 2]) for n in range(6))
ORDERS = frozenset({"orders"})


def orders(*rows: tuple[int, ...]) -> ClusterView:
    return ClusterView(BROKERS, {TopicPartition("orders", n): row for n, row in enumerate(rows)})


def owned_in(*racks: str | None, name: str = "g", weight: float = 1.0) -> CurrentAssignment:
    owners = {TopicPartition("orders", n): rack for n, rack in enumerate(racks)}
    return CurrentAssignment(name, ORDERS, owners, dict.fromkeys(owners, weight))


def test_a_group_that_gains_nothing_moves_nothing() -> None:
    # Uneven leaders, which a layout for a group of rackward's assignors would make even.
    view = orders((0, 2, 4), (0, 2, 4), (0, 3, 5), (0, 3, 5), (4, 0, 2))
    assert plan_leaders(view, assignments=[owned_in("a", "a", "a", "a", "c")]).moves == ()
    assert plan_leaders(view, assignments=[owned_in(None, None, "e", "e")]).moves == ()
    demand = ConsumerDemand("g", ORDERS, {None: 1})
    assert plan_leaders(view, [demand]).moves != ()
    assert plan_leaders(view, [demand], only_gains=True).moves == ()
    # Another class of topics that gains does not move this one.
    other = {TopicPartition("other", 0): (0, 2, 4)}
    both = replace(view, replicas={**view.replicas, **other})
    demands = [demand, ConsumerDemand("h", frozenset({"other"}), {"b": 1})]
    layout = plan_leaders(both, demands, only_gains=True)
    assert [move.partition for move in layout.moves] == list(other)


def test_two_groups_that_want_other_racks_are_weighed() -> None:
    view = orders((4, 0, 2), (4, 0, 2), (4, 0, 2))
    groups = [owned_in("a", "a", "a", name="g"), owned_in("b", "b", "a", name="h", weight=3.0)]
    layout = plan_leaders(view, assignments=groups)
    assert [layout.order[tp][0] for tp in view.replicas] == [2, 2, 0]
    assert [(each.before, each.after) for each in layout.localities] == [(0, 1), (0, 3)]
    (unmet,) = layout.unmet
    assert (unmet.name, unmet.obstacle, unmet.rack) == ("g", Obstacle.OTHER_READERS, "a")
    assert [tp.partition for tp in unmet.partitions] == [0, 1]


def test_leaders_per_broker_are_bounded() -> None:
    view = orders(*[(n, (n + 2) % 6, (n + 4) % 6) for n in range(6)] * 2)
    layout = plan_leaders(view, assignments=[owned_in(*"a" * 12)], max_imbalance=0.5)
    assert layout.leader_limit == 3
    loads = Counter(row[0] for row in layout.order.values())
    assert (loads[0], loads[1]) == (3, 3)
    assert layout.localities == (Locality("g", 12, 4, 6),)
    assert {each.obstacle for each in layout.unmet} == {Obstacle.LEADER_LIMIT}
    free = plan_leaders(view, assignments=[owned_in(*"a" * 12)])
    assert free.leader_limit is None
    assert free.localities == (Locality("g", 12, 4, 12),)
    # A broker that has more than the limit keeps what it has.
    crowded = orders(*[(0, 2, 4)] * 6)
    kept = plan_leaders(crowded, assignments=[owned_in(*"a" * 6)], max_imbalance=0.0)
    assert (kept.moves, kept.leader_limit) == ((), 1)


def test_every_obstacle_is_named() -> None:
    view = orders((0, 2), (0, 2), (0, 2), (0, 2), (0, 2))
    view = replace(view, replicas={**view.replicas, TopicPartition("fixed", 0): (0, 2)})
    group = CurrentAssignment(
        "g",
        frozenset({"orders", "fixed", "absent"}),
        {
            TopicPartition("orders", 0): None,
            TopicPartition("orders", 1): "elsewhere",
            TopicPartition("orders", 2): "c",
            TopicPartition("orders", 3): "b",
            TopicPartition("fixed", 0): "b",
            TopicPartition("absent", 0): "b",
        },
    )
    layout = plan_leaders(view, assignments=[group], topics=["orders"])
    assert {(each.obstacle, each.rack): each.partitions for each in layout.unmet} == {
        (Obstacle.UNREAD, None): (TopicPartition("orders", 4),),
        (Obstacle.RACKLESS_MEMBER, None): (TopicPartition("orders", 0),),
        (Obstacle.NO_BROKER_IN_RACK, "elsewhere"): (TopicPartition("orders", 1),),
        (Obstacle.NO_REPLICA_IN_RACK, "c"): (TopicPartition("orders", 2),),
        (Obstacle.NOT_SELECTED, "b"): (TopicPartition("fixed", 0),),
    }
    assert layout.localities == (Locality("g", 6, 0, 1),)


def test_present_leaders_count_and_racks_compare_by_levels() -> None:
    view = orders((0, 2, 4), (0, 2, 4))
    led = replace(view, leaders={TopicPartition("orders", 0): 4})
    layout = plan_leaders(led, assignments=[owned_in("c", "c")])
    assert layout.localities == (Locality("g", 2, 1, 2),)
    deep = replace(view, brokers=tuple(Broker(n, f"/dc{n // 3}/r{n}") for n in range(6)))
    group = owned_in("/dc1/r9", "/dc1/r9")
    assert plan_leaders(deep, assignments=[group]).localities == (Locality("g", 2, 0, 0),)
    layout = plan_leaders(deep, assignments=[group], levels=1)
    assert layout.localities == (Locality("g", 2, 0, 2),)
    assert layout.unmet == ()
    owners = {TopicPartition("orders", 0): "/dc1/r9", TopicPartition("orders", 1): "/dc9/r0"}
    group = CurrentAssignment("g", ORDERS, owners)
    near = replace(deep, replicas=dict.fromkeys(owners, (0, 2)))
    assert [each.obstacle for each in plan_leaders(near, assignments=[group], levels=1).unmet] == [
        Obstacle.NO_REPLICA_IN_RACK,
        Obstacle.NO_BROKER_IN_RACK,
    ]


def test_a_partition_without_a_weight_counts_once() -> None:
    """Two groups that want partition 0 in other racks: a weight above 1 wins, one below loses."""
    view = orders((4, 0, 2))
    for weight, leader in ((1.1, 2), (0.9, 0)):
        weighted = owned_in("b", name="h", weight=weight)
        layout = plan_leaders(
            view, assignments=[CurrentAssignment("g", ORDERS, owned_in("a").racks), weighted]
        )
        assert [row[0] for row in layout.order.values()] == [leader]


def test_readers_of_a_shared_partition_read_equal_parts() -> None:
    view = orders((0, 2, 4), (4, 2, 0))
    first, second = sorted(view.replicas)
    shared = {first: ["a", "b", "b"], second: ["c", "d"]}
    group = CurrentAssignment("g", ORDERS, {}, {first: 6.0, second: 2.0}, shared)
    layout = plan_leaders(view, assignments=[group])
    assert [layout.order[tp][0] for tp in (first, second)] == [2, 4]
    assert layout.localities == (Locality("g", 5, 2, 3),)
    (bytes_across,) = layout.consumed
    assert (bytes_across.total, bytes_across.before, bytes_across.after) == (8.0, 5.0, 3.0)
    assert {(each.obstacle, each.rack, each.partitions) for each in layout.unmet} == {
        (Obstacle.OTHER_READERS, "a", (first,)),
        (Obstacle.NO_BROKER_IN_RACK, "d", (second,)),
    }
    # A reader of all of a partition outweighs a third of a share group.
    owner = CurrentAssignment("h", ORDERS, {first: "c"}, {first: 4.5})
    assert plan_leaders(view, assignments=[group, owner]).order[first][0] == 4


def test_groups_of_unknown_topics_are_left_out() -> None:
    absent = CurrentAssignment("g", frozenset({"absent"}), {})
    layout = plan_leaders(orders((0, 2)), assignments=[absent, owned_in("b", name="h")])
    assert [each.name for each in layout.localities] == ["h"]


def test_a_layout_without_movable_partitions_is_proved() -> None:
    layout = plan_leaders(orders((0, 2)), assignments=[owned_in("b")], topics=[])
    assert (layout.order, layout.locality_proved, layout.balance_proved) == ({}, True, True)
    assert layout.localities == (Locality("g", 1, 0, 0),)


def test_classes_of_topics_that_may_still_improve_are_not_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Leaders of one class take the place of those of the other; the second pass ends it."""
    rows = {TopicPartition(topic, n): (0, 2, 4) for topic in ("orders", "other") for n in range(3)}
    view = ClusterView((Broker(0, "a"), Broker(2, "b"), Broker(4, "c")), rows)
    demands = [
        ConsumerDemand("g", ORDERS, {"a": 1, "b": 1, "c": 1}),
        ConsumerDemand("h", frozenset({"other"}), {"a": 1, "b": 1, "c": 1}),
    ]
    assert plan_leaders(view, demands).balance_proved
    monkeypatch.setattr("placement_core.leaders.plan.MAX_PASSES", 1)
    assert not plan_leaders(view, demands).balance_proved


def test_planted_faults_are_detected() -> None:
    view = orders(*[(4, 0, 2)] * 6)
    groups = [owned_in(*"ab" * 3)]
    layout = plan_leaders(view, assignments=groups)
    check_layout(view, [], layout, groups)
    best = best_value(view, [], groups)
    assert value(view, [], chosen(view, layout), groups) == best == (0, 6, 18)
    for faulty in (
        replace(layout, localities=(Locality("g", 6, 0, 5),)),
        replace(layout, localities=()),
        replace(layout, order={}),
        replace(layout, moves=()),
        replace(
            layout, unmet=(UnmetReads("g", Obstacle.UNREAD, "a", (next(iter(view.replicas)),)),)
        ),
    ):
        with pytest.raises(AssertionError):
            check_layout(view, [], faulty, groups)
    # Fewer changes at the cost of locality.
    worse = dict(zip(view.replicas, (0, 2, 0, 2, 0, 4), strict=True))
    assert value(view, [], worse, groups) > best


@pytest.mark.parametrize("block", range(4))
def test_some_topics_need_only_the_number_of_other_leaders(block: int) -> None:
    bounded = 0
    for seed in range(block * 25, block * 25 + 25):
        rng = random.Random(seed)
        view = random_view(rng, rng.randint(2, 40), "tsuv")
        topics = frozenset(rng.sample(sorted({tp.topic for tp in view.replicas}), 1))
        part = replace(
            view, replicas={tp: row for tp, row in view.replicas.items() if tp.topic in topics}
        )
        assignments = [random_assignment(rng, "keeps", part)]
        demands = [random_readers(rng, "follows", "".join(topics))]
        max_imbalance = rng.choice((None, 0.0, 0.3, 1.0))
        others = Counter(
            row[0] for tp, row in view.replicas.items() if tp.topic not in topics and row
        )
        whole, alone = (
            plan_leaders(
                of,
                demands,
                assignments=assignments,
                topics=topics,
                max_imbalance=max_imbalance,
                only_gains=True,
                other_leaders=other_leaders,
            )
            for of, other_leaders in ((view, None), (part, others))
        )
        assert alone.heaviest_broker == pytest.approx(whole.heaviest_broker, rel=1e-3)
        assert replace(alone, heaviest_broker=whole.heaviest_broker) == whole, f"seed {seed}"
        bounded += whole.leader_limit is not None and bool(others)
    assert bounded
