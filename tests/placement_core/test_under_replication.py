"""Placeholders become replicas: who takes which place (KIP-409)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from placement_core import Broker, ClusterView, TopicPartition, parse_rack
from placement_core.under_replication import ReplicationTarget, counted_replicas, fill_placeholders
from tests.support.placement import cluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Lists = dict[TopicPartition, tuple[int, ...]]


def test_the_rack_that_is_not_covered_comes_first() -> None:
    view = cluster({0: "a", 1: "b", 2: "a", 3: "c"}, t=((0, 1), (1, 0)))
    want = dict.fromkeys((T0, T1), ReplicationTarget(3))
    assert fill_placeholders(view, want) == {T0: (0, 1, 3), T1: (1, 0, 3)}


def test_the_widest_level_comes_first() -> None:
    racks = {0: "/d1/r1", 1: "/d2/r1", 2: "/d1/r2", 3: "/d1/r3", 4: "/d2/r1"}
    view = cluster(dict(racks), t=((0,),))
    assert fill_placeholders(view, {T0: ReplicationTarget(2)}) == {T0: (0, 1)}
    assert fill_placeholders(view, {T0: ReplicationTarget(3)}) == {T0: (0, 1, 2)}
    assert fill_placeholders(view, {T0: ReplicationTarget(5)}) == {T0: (0, 1, 2, 4, 3)}


def test_equals_are_filled_with_what_holds_least() -> None:
    view = cluster("abcc", t=((0, 1),) * 4, u=((2,),))
    want = {TopicPartition("t", number): ReplicationTarget(3) for number in range(4)}
    assert [row[-1] for row in fill_placeholders(view, want).values()] == [3, 2, 3, 2]


def test_a_replica_on_a_broker_that_is_down_still_covers_its_rack() -> None:
    view = cluster({0: "a", 2: "b", 3: "c"}, t=((0, 1),))
    assert fill_placeholders(
        view, {T0: ReplicationTarget(3)}, offline_brokers=[Broker(1, "b")]
    ) == {T0: (0, 1, 3)}


def test_as_many_as_there_are() -> None:
    view = cluster("ab", t=((0,),))
    assert fill_placeholders(view, {T0: ReplicationTarget(4)}) == {T0: (0, 1)}
    assert fill_placeholders(cluster("a", t=((0,),)), {T0: ReplicationTarget(4)}) == {}


def test_what_is_under_way_or_gone_is_left_alone() -> None:
    view = cluster("abc", t=((0,), (1,)))
    want = {
        T0: ReplicationTarget(3),
        T1: ReplicationTarget(3),
        TopicPartition("gone", 0): ReplicationTarget(3),
    }
    assert list(fill_placeholders(view, want, reassigning=[T0])) == [T1]


def test_brokers_without_a_rack_are_the_last_choice() -> None:
    view = cluster({0: "a", 1: None, 2: "a", 3: "b"}, t=((0,),))
    assert fill_placeholders(view, {T0: ReplicationTarget(2)}) == {T0: (0, 3)}
    assert fill_placeholders(
        cluster({0: None, 1: None}, t=((0,),)), {T0: ReplicationTarget(2)}
    ) == {T0: (0, 1)}


def test_a_stand_in_that_is_down_gives_its_place_away() -> None:
    want = {T0: ReplicationTarget(3, frozenset({2, 3}))}
    assert fill_placeholders(cluster("ab", t=((0, 1, 2),)), want) == {}
    joined = cluster({0: "a", 1: "b", 5: "c"}, t=((0, 1, 2),))
    assert fill_placeholders(joined, want) == {T0: (0, 1, 5)}
    assert fill_placeholders(cluster({0: "a", 5: "c"}, t=((0, 2, 3),)), want) == {T0: (0, 5, 2)}


def test_a_stand_in_that_has_come_back_is_a_replica() -> None:
    want = ReplicationTarget(3, frozenset({2}))
    view = cluster("abcd", t=((0, 1, 2),))
    assert fill_placeholders(view, {T0: want}) == {}
    assert counted_replicas((0, 1, 2, -1), want, {0, 1, 2}) == (0, 1, 2)
    assert counted_replicas((0, 1, 2, -1), want, {0, 1}) == (0, 1)


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[int, str | None], Lists, dict[TopicPartition, int]]:
    """All brokers' racks, lists on some of them, and what each partition shall have."""
    rack = st.sampled_from(["/x/1", "/x/2", "/y/1", "/y/2", "/z", None])
    racks = draw(st.dictionaries(st.integers(0, 12), rack, min_size=1, max_size=7))
    ids = sorted(racks)
    lists: Lists = {}
    wanted = {}
    for number in range(draw(st.integers(1, 5))):
        held = draw(st.permutations(ids))[: draw(st.integers(1, len(ids)))]
        lists[TopicPartition("t", number)] = tuple(held)
        wanted[TopicPartition("t", number)] = draw(st.integers(len(held), 8))
    return racks, lists, wanted


def view_of(racks: dict[int, str | None], live: set[int], lists: Lists) -> ClusterView:
    return ClusterView(tuple(Broker(each, racks[each]) for each in sorted(live)), lists)


@given(situations(), st.data())
def test_whatever_comes_and_goes(
    situation: tuple[dict[int, str | None], Lists, dict[TopicPartition, int]], data: st.DataObject
) -> None:
    """Never a broker twice, never one that is down, nothing taken away, nothing done twice."""
    racks, lists, factors = situation
    wanted = {place: ReplicationTarget(factor) for place, factor in factors.items()}
    for _ in range(4):
        live = data.draw(st.sets(st.sampled_from(sorted(racks))))
        down = [Broker(each, racks[each]) for each in sorted(racks.keys() - live)]
        view = view_of(racks, live, lists)
        filled = fill_placeholders(view, wanted, offline_brokers=down)
        for place, row in filled.items():
            before = lists[place]
            assert row[: len(before)] == before, "what is filled is never unfilled"
            assert len(set(row)) == len(row) <= factors[place]
            assert set(row[len(before) :]) <= live
            check_nearest_first(racks, live, before, row)
        for place, before in lists.items():
            row = filled.get(place, before)
            assert len(row) == min(factors[place], len(live.union(before)))
        lists = {**lists, **filled}
        again = view_of(racks, live, lists)
        assert fill_placeholders(again, wanted, offline_brokers=down) == {}, (
            "a second look changes nothing"
        )
        shuffled = replace(again, brokers=again.brokers[::-1])
        assert (
            fill_placeholders(
                replace(shuffled, replicas=view.replicas), wanted, offline_brokers=down
            )
            == filled
        )


def check_nearest_first(
    racks: dict[int, str | None], live: set[int], before: tuple[int, ...], row: tuple[int, ...]
) -> None:
    """No broker was passed over that stands where the partition has fewer replicas."""
    for end in range(len(before), len(row)):
        there, chosen = row[:end], row[end]
        for other in live - set(there):
            assert crowd(racks, there, chosen) <= crowd(racks, there, other)


def crowd(racks: dict[int, str | None], there: tuple[int, ...], broker: int) -> tuple[int, ...]:
    """Per level, the replicas that stand where the broker stands; as many as there are where
    nobody knows."""
    path = parse_rack(racks[broker])
    if path is None:
        return (len(there),)
    depth = max(len(parse_rack(rack) or ()) for rack in racks.values())
    paths = [found for each in there if (found := parse_rack(racks[each])) is not None]
    return tuple(
        Counter(other[: level + 1] for other in paths)[path[: level + 1]] for level in range(depth)
    )
