"""plan_reassignment in small scenarios with known results."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from placement_core import Broker, ClusterView, InvalidOptionError, TopicPartition
from placement_core.reassignment import (
    Reassignment,
    plan_reassignment,
)
from tests.support.reassignments import check_reassignment


def cluster(
    partitions: int = 12, factor: int = 3, racks: str = "abc", each: int = 2
) -> ClusterView:
    """Brokers 0, 1 in a; 2, 3 in b; 4, 5 in c. Everything even."""
    brokers = tuple(Broker(n, racks[n // each]) for n in range(len(racks) * each))
    rows = {}
    for n in range(partitions):
        row = [r * each + (n // len(racks)) % each for r in range(len(racks))]
        rows[TopicPartition("t", n)] = tuple((row[n % len(racks) :] + row)[:factor])
    return ClusterView(brokers, rows)


def loads(target: dict[TopicPartition, tuple[int, ...]]) -> Counter[int]:
    return Counter(broker for row in target.values() for broker in row)


def with_brokers(*added: Broker, without: int | None = None) -> ClusterView:
    view = cluster()
    staying = tuple(broker for broker in view.brokers if broker.id != without)
    return replace(view, brokers=(*staying, *added))


@pytest.mark.parametrize(
    ("view", "drain", "copies", "expected"),
    [
        (cluster(), [], 0, [6, 6, 6, 6, 6, 6]),
        (cluster().without_racks(), [], 0, [6, 6, 6, 6, 6, 6]),
        # Only the replicas of a broker that is drained or missing are copied.
        (cluster(), [1], 6, [12, 0, 6, 6, 6, 6]),
        (with_brokers(without=1), [], 6, [12, 0, 6, 6, 6, 6]),
        # A new broker takes a share from its rack, a new rack takes one from all racks.
        (with_brokers(Broker(6, "a")), [], 4, [4, 4, 6, 6, 6, 6, 4]),
        (with_brokers(Broker(6, "d"), Broker(7, "d")), [], 8, None),
    ],
)
def test_brokers_that_leave_or_join(
    view: ClusterView, drain: list[int], copies: int, expected: list[int] | None
) -> None:
    plan = plan_reassignment(view, drain=drain)
    check_reassignment(view, dict.fromkeys(view.replicas, 3), drain, plan)
    assert plan.copies == copies
    assert bool(plan.moves) == bool(copies)
    on_brokers = loads(dict(plan.target))
    if expected is None:
        assert set(on_brokers.values()) <= {4, 5}
    else:
        assert [on_brokers[broker] for broker in range(len(expected))] == expected


def test_rack_rules_do_not_hold_if_racks_are_ignored() -> None:
    """Even over brokers, and both replicas of each partition in one rack."""
    view = cluster(partitions=0, racks="ab")
    view = replace(view, replicas={TopicPartition("t", n): (2 * n, 2 * n + 1) for n in (0, 1)})
    assert plan_reassignment(view).copies > 0
    assert plan_reassignment(view, ignore_racks=True).copies == 0


def test_raising_the_factor_keeps_replicas_lowering_copies_none() -> None:
    view = cluster(factor=1)
    plan = plan_reassignment(view, replication_factor=3)
    assert plan.copies == 24
    assert all(set(view.replicas[p]) <= set(row) for p, row in plan.target.items())
    assert plan.leader_changes == 0
    back = plan_reassignment(replace(view, replicas=plan.target), replication_factor={"t": 1})
    assert (back.copies, set(loads(dict(back.target)).values())) == (0, {2})


def test_without_even_leaders_keep_their_replicas() -> None:
    view = cluster()
    rows = {TopicPartition("t", n): (0, 2 + n % 2, 4 + n % 2) for n in range(4)}
    view = replace(view, replicas=rows)
    uneven = plan_reassignment(view, replication_factor=1, even=False)
    assert set(uneven.target.values()) == {(0,)}
    assert loads(dict(plan_reassignment(view, replication_factor=1).target))[0] < 4


def test_without_even_only_faults_are_repaired() -> None:
    view = cluster()
    rows = {**view.replicas, TopicPartition("t", 0): (0, 1, 4)}
    extended = ClusterView((*view.brokers, Broker(6, "a"), Broker(7, "d")), rows)
    assert plan_reassignment(extended).copies > 1
    plan = plan_reassignment(extended, even=False)
    assert plan.copies == 1
    assert sum(bool(move.adding) for move in plan.moves) == 1


def test_other_topics_are_unchanged_and_count_as_load() -> None:
    view = cluster(partitions=4, factor=1, racks="a", each=4)
    other_topic = {TopicPartition("s", n): (n % 2,) for n in range(4)}
    view = replace(view, replicas={**view.replicas, **other_topic})
    plan = plan_reassignment(view, topics=["t"])
    assert {p.topic for p in plan.target} == {"t"}
    assert loads({**other_topic, **plan.target}) == {0: 2, 1: 2, 2: 2, 3: 2}


def test_rackless_brokers_get_nothing_and_keep_partitions() -> None:
    view = cluster()
    partly_known = replace(view, brokers=(*view.brokers[:5], Broker(5), Broker(6), Broker(7, "b")))
    on_rackless = {p for p, row in view.replicas.items() if 5 in row}
    plan = plan_reassignment(partly_known)
    assert plan.target.keys() == view.replicas.keys() - on_rackless
    assert {broker for move in plan.moves for broker in move.adding} == {7}
    assert plan_reassignment(partly_known, drain=[5, 6]).target.keys() == view.replicas.keys()
    assert plan_reassignment(partly_known, even=False, ignore_racks=True).copies == 0
    for change in ({"drain": [1]}, {"replication_factor": 2}):
        with pytest.raises(InvalidOptionError, match=r"on broker 5 without a rack.*--drain"):
            plan_reassignment(partly_known, **change)


def test_the_order_of_the_input_does_not_matter() -> None:
    rng = random.Random(3)
    view = cluster(partitions=20)
    extended = replace(view, brokers=(*view.brokers, Broker(6, "d"), Broker(7, "d")))
    expected = plan_reassignment(extended)
    for _ in range(5):
        brokers, rows = list(extended.brokers), list(extended.replicas.items())
        rng.shuffle(brokers)
        rng.shuffle(rows)
        assert plan_reassignment(ClusterView(tuple(brokers), dict(rows))) == expected


def test_moves_reverse() -> None:
    plan = plan_reassignment(cluster(), drain=[1])
    for move in plan.moves:
        assert move.reversed().reversed() == move
        assert move.reversed().adding == move.removing
        assert move.order_only == (not move.adding and not move.removing)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drain": [9]}, "cannot drain broker 9: the cluster has brokers 0, 1"),
        ({"drain": range(6)}, "no broker would stay"),
        ({"drain": range(4)}, "cannot have 3 replicas on 2 brokers"),
        ({"replication_factor": 7}, "t-0 cannot have 7 replicas on 6 brokers"),
        ({"replication_factor": 0}, "replication factor of t-0 is 0"),
        ({"replication_factor": {"t": True}}, "replication factor of t-0 is True"),
        ({"replication_factor": {"nowhere": 2}}, "replication factor for nowhere"),
        ({"topics": ["nowhere"]}, "no topic nowhere"),
    ],
)
def test_impossible_plans_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message) as raised:
        plan_reassignment(cluster(), **options)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_empty_and_invalid_layouts() -> None:
    assert plan_reassignment(ClusterView((Broker(0),))) == Reassignment({}, (), 0, 0)
    with pytest.raises(InvalidOptionError, match="names a broker twice"):
        plan_reassignment(ClusterView((Broker(0), Broker(1)), {TopicPartition("t", 0): (0, 0)}))
    with pytest.raises(InvalidOptionError, match="no broker would stay"):
        plan_reassignment(ClusterView(()))


def test_at_most_ten_topics_are_named_for_exclude() -> None:
    brokers = (Broker(0), Broker(1))
    for topics, end in ((10, r"t09\)"), (11, r"t09,\.\.\.\)")):
        rows = {TopicPartition(f"t{n:02}", 0): (0, 1, 2) for n in range(topics)}
        with pytest.raises(InvalidOptionError, match=end):
            plan_reassignment(ClusterView(brokers, rows))


def test_topics_with_too_many_replicas_are_named_for_exclude() -> None:
    view = cluster(partitions=2, racks="ab", each=1, factor=2)
    rows = {TopicPartition(topic, 0): (0, 1) for topic in ("s", "u")}
    with pytest.raises(InvalidOptionError, match=r"s-0 cannot .*--exclude s,t,u\)"):
        plan_reassignment(replace(view, replicas={**view.replicas, **rows}), drain=[1])
