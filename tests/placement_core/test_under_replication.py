"""Filling placeholders with replicas (KIP-409)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from placement_core import Broker, ClusterView, TopicPartition, parse_rack
from placement_core.placers.under_replicated import (
    ReplicationTarget,
    counted_replicas,
    fill_placeholders,
)
from tests.support.placement import cluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Lists = dict[TopicPartition, tuple[int, ...]]


def test_uncovered_racks_are_preferred() -> None:
    view = cluster({0: "a", 1: "b", 2: "a", 3: "c"}, t=((0, 1), (1, 0)))
    wanted = dict.fromkeys((T0, T1), ReplicationTarget(3))
    assert fill_placeholders(view, wanted) == {T0: (0, 1, 3), T1: (1, 0, 3)}


def test_wider_levels_are_preferred() -> None:
    racks = {0: "/d1/r1", 1: "/d2/r1", 2: "/d1/r2", 3: "/d1/r3", 4: "/d2/r1"}
    view = cluster(dict(racks), t=((0,),))
    assert fill_placeholders(view, {T0: ReplicationTarget(2)}) == {T0: (0, 1)}
    assert fill_placeholders(view, {T0: ReplicationTarget(3)}) == {T0: (0, 1, 2)}
    assert fill_placeholders(view, {T0: ReplicationTarget(5)}) == {T0: (0, 1, 2, 4, 3)}


def test_ties_are_broken_by_fewest_replicas() -> None:
    view = cluster("abcc", t=((0, 1),) * 4, u=((2,),))
    wanted = {TopicPartition("t", number): ReplicationTarget(3) for number in range(4)}
    assert [row[-1] for row in fill_placeholders(view, wanted).values()] == [3, 2, 3, 2]


def test_a_replica_on_a_dead_broker_still_covers_its_rack() -> None:
    view = cluster({0: "a", 2: "b", 3: "c"}, t=((0, 1),))
    assert fill_placeholders(
        view, {T0: ReplicationTarget(3)}, offline_brokers=[Broker(1, "b")]
    ) == {T0: (0, 1, 3)}


def test_at_most_one_replica_per_live_broker() -> None:
    view = cluster("ab", t=((0,),))
    assert fill_placeholders(view, {T0: ReplicationTarget(4)}) == {T0: (0, 1)}
    assert fill_placeholders(cluster("a", t=((0,),)), {T0: ReplicationTarget(4)}) == {}


def test_reassigning_and_deleted_partitions_are_not_filled() -> None:
    view = cluster("abc", t=((0,), (1,)))
    wanted = {
        T0: ReplicationTarget(3),
        T1: ReplicationTarget(3),
        TopicPartition("gone", 0): ReplicationTarget(3),
    }
    assert list(fill_placeholders(view, wanted, reassigning=[T0])) == [T1]


def test_brokers_without_a_rack_are_used_last() -> None:
    view = cluster({0: "a", 1: None, 2: "a", 3: "b"}, t=((0,),))
    assert fill_placeholders(view, {T0: ReplicationTarget(2)}) == {T0: (0, 3)}
    assert fill_placeholders(
        cluster({0: None, 1: None}, t=((0,),)), {T0: ReplicationTarget(2)}
    ) == {T0: (0, 1)}


def test_a_temporary_replica_on_a_dead_broker_is_replaced() -> None:
    wanted = {T0: ReplicationTarget(3, frozenset({2, 3}))}
    assert fill_placeholders(cluster("ab", t=((0, 1, 2),)), wanted) == {}
    joined = cluster({0: "a", 1: "b", 5: "c"}, t=((0, 1, 2),))
    assert fill_placeholders(joined, wanted) == {T0: (0, 1, 5)}
    assert fill_placeholders(cluster({0: "a", 5: "c"}, t=((0, 2, 3),)), wanted) == {T0: (0, 5, 2)}


def test_a_temporary_replica_on_a_live_broker_is_counted() -> None:
    wanted = ReplicationTarget(3, frozenset({2}))
    view = cluster("abcd", t=((0, 1, 2),))
    assert fill_placeholders(view, {T0: wanted}) == {}
    assert counted_replicas((0, 1, 2, -1), wanted, {0, 1, 2}) == (0, 1, 2)
    assert counted_replicas((0, 1, 2, -1), wanted, {0, 1}) == (0, 1)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[int, str | None], Lists, dict[TopicPartition, int]]:
    """Draw the racks of all brokers, replica lists, and the target size of each list."""
    rack = st.sampled_from(["/x/1", "/x/2", "/y/1", "/y/2", "/z", None])
    racks = draw(st.dictionaries(st.integers(0, 12), rack, min_size=1, max_size=7))
    ids = sorted(racks)
    lists: Lists = {}
    factors = {}
    for number in range(draw(st.integers(1, 5))):
        row = draw(st.permutations(ids))[: draw(st.integers(1, len(ids)))]
        lists[TopicPartition("t", number)] = tuple(row)
        factors[TopicPartition("t", number)] = draw(st.integers(len(row), 8))
    return racks, lists, factors


def view_of(racks: dict[int, str | None], live: set[int], lists: Lists) -> ClusterView:
    return ClusterView(tuple(Broker(each, racks[each]) for each in sorted(live)), lists)


@given(clusters(), st.data())
def test_any_sequence_of_broker_failures(
    drawn: tuple[dict[int, str | None], Lists, dict[TopicPartition, int]], data: st.DataObject
) -> None:
    """Brokers do not repeat, added ones are live, and a second call changes nothing."""
    racks, lists, factors = drawn
    wanted = {tp: ReplicationTarget(factor) for tp, factor in factors.items()}
    for _ in range(4):
        live = data.draw(st.sets(st.sampled_from(sorted(racks))))
        down = [Broker(each, racks[each]) for each in sorted(racks.keys() - live)]
        view = view_of(racks, live, lists)
        filled = fill_placeholders(view, wanted, offline_brokers=down)
        for tp, row in filled.items():
            before = lists[tp]
            assert row[: len(before)] == before, "present replicas were removed"
            assert len(set(row)) == len(row) <= factors[tp]
            assert set(row[len(before) :]) <= live
            check_spread(racks, live, before, row)
        for tp, before in lists.items():
            row = filled.get(tp, before)
            assert len(row) == min(factors[tp], len(live.union(before)))
        lists = {**lists, **filled}
        again = view_of(racks, live, lists)
        assert fill_placeholders(again, wanted, offline_brokers=down) == {}, (
            "the second call changed something"
        )
        shuffled = replace(again, brokers=again.brokers[::-1])
        assert (
            fill_placeholders(
                replace(shuffled, replicas=view.replicas), wanted, offline_brokers=down
            )
            == filled
        )


def check_spread(
    racks: dict[int, str | None], live: set[int], before: tuple[int, ...], row: tuple[int, ...]
) -> None:
    """Assert that each added broker's rack has the fewest replicas, the widest level first."""
    for end in range(len(before), len(row)):
        present, chosen = row[:end], row[end]
        for other in live - set(present):
            assert replicas_per_level(racks, present, chosen) <= replicas_per_level(
                racks, present, other
            )


def replicas_per_level(
    racks: dict[int, str | None], present: tuple[int, ...], broker: int
) -> tuple[int, ...]:
    """Return the number of present replicas in the broker's rack at each level, widest first.

    Return the number of all present replicas if the broker's rack is unknown.
    """
    path = parse_rack(racks[broker])
    if path is None:
        return (len(present),)
    depth = max(len(parse_rack(rack) or ()) for rack in racks.values())
    paths = [known for each in present if (known := parse_rack(racks[each])) is not None]
    return tuple(
        Counter(other[: level + 1] for other in paths)[path[: level + 1]] for level in range(depth)
    )
