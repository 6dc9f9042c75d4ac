"""Topics on fewer brokers than replicas, and filling their placeholders later (KIP-409)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import Broker, InvalidOptionError, PlacementSpec, TopicPartition, parse_rack
from placement_core.cluster import placeholders, with_placeholders, without_placeholders
from placement_core.placers import (
    LikeTopicPlacer,
    MultiLevelPlacer,
    PlacementError,
    PlacerError,
    RackAlternatingPlacer,
    ReplicaPlacer,
    SimplePlacer,
    UnderReplicatedPlacer,
    place,
)
from placement_core.placers.under_replicated import (
    ReplicationTarget,
    counted_replicas,
    fill_placeholders,
)
from tests.support.placement import FixedPlacer, check_form, check_racks, cluster

PLACERS: list[ReplicaPlacer] = [
    SimplePlacer(seed=3),
    RackAlternatingPlacer(seed=3),
    MultiLevelPlacer(seed=3),
]


def test_the_example_of_kip_409() -> None:
    alone = cluster({1: "a"})
    assert place(PlacementSpec(2, 3), alone, UnderReplicatedPlacer()) == ((1, -1, -2), (1, -1, -2))


@pytest.mark.parametrize("min_insync", [2, 3, 9])
def test_fewer_brokers_than_min_insync_replicas_are_refused(min_insync: int) -> None:
    needed = min(min_insync, 3)
    with pytest.raises(PlacementError, match=f"{needed} in-sync replicas are needed") as error:
        place(
            PlacementSpec(1, 3),
            cluster({4: "a"}),
            UnderReplicatedPlacer(min_insync_replicas=min_insync),
        )
    assert f"min.insync.replicas {min_insync}" in str(error.value)
    assert "there are 1 live brokers (broker 4)" in str(error.value)
    with pytest.raises(PlacementError, match=r"there are 0 live brokers \(none\)"):
        place(PlacementSpec(1, 3), cluster({}), UnderReplicatedPlacer())


def test_only_the_requested_brokers_count() -> None:
    view = cluster("aabbcc")
    placed = place(PlacementSpec(3, 3), view, UnderReplicatedPlacer(), broker_ids=[4, 5])
    assert all(set(row) == {4, 5, -1} and row[-1] == -1 for row in placed)
    with pytest.raises(PlacementError, match="broker 9 requested"):
        place(PlacementSpec(1, 3), view, UnderReplicatedPlacer(), broker_ids=[9])


@pytest.mark.parametrize("placer", PLACERS, ids=lambda each: type(each).__name__)
@given(
    racks=st.dictionaries(st.integers(0, 20), st.sampled_from("abc"), min_size=1, max_size=7),
    partitions=st.integers(1, 12),
    replicas=st.integers(1, 9),
    min_insync=st.integers(1, 9),
)
def test_one_placeholder_per_missing_broker(
    placer: ReplicaPlacer, racks: dict[int, str], partitions: int, replicas: int, min_insync: int
) -> None:
    view, spec = cluster(dict(racks)), PlacementSpec(partitions, replicas, topic="t")
    wrapped = UnderReplicatedPlacer(placer, min_insync)
    if len(racks) < min(min_insync, replicas):
        with pytest.raises(PlacementError, match="needed to write"):
            place(spec, view, wrapped)
        return
    placed = place(spec, view, wrapped)
    on_live = tuple(map(without_placeholders, placed))
    live_count = min(replicas, len(racks))
    check_form(on_live, partitions, live_count, racks)
    assert all(row[live_count:] == placeholders(replicas - live_count) for row in placed)
    if not isinstance(placer, SimplePlacer):
        check_racks(on_live, racks)
    if live_count == replicas:
        assert placed == place(spec, view, placer)


def test_partitions_with_replicas_get_no_placeholders() -> None:
    """Broker 9 is down: with a replica there, a partition can have three."""
    view = cluster({0: "a", 1: "b"})
    placer = UnderReplicatedPlacer(SimplePlacer(seed=1))
    assert place(PlacementSpec(1, 3, present=((9, 0),)), view, placer) == ((9, 0, 1),)
    with pytest.raises(PlacementError, match=r"which has replicas on \[0\]"):
        place(PlacementSpec(1, 3, present=((0,),)), view, placer)


def test_added_partitions_continue_the_rotation() -> None:
    placer = UnderReplicatedPlacer(RackAlternatingPlacer())
    view = cluster("ab", t=((1, 0, -1), (0, 1, -1), (1, 0, -1)))
    assert place(PlacementSpec(2, 3, topic="t", first_partition=3), view, placer) == (
        (0, 1, -1),
        (1, 0, -1),
    )


def test_the_fallback_of_a_deferring_placer_may_lack_replicas() -> None:
    simple = SimplePlacer(start_index=0)
    wrapped = UnderReplicatedPlacer(FixedPlacer(None))
    assert place(PlacementSpec(2, 3), cluster("ab"), wrapped, fallback=simple) == (
        (0, 1, -1),
        (1, 0, -1),
    )


def test_errors_name_the_wrapped_placer() -> None:
    with pytest.raises(PlacerError, match="placer like-topic: there is no topic 'x'"):
        place(PlacementSpec(1, 3), cluster("ab"), UnderReplicatedPlacer(LikeTopicPlacer("x")))
    with pytest.raises(PlacerError, match="which does not end in"):
        place(PlacementSpec(1, 3), cluster("ab"), UnderReplicatedPlacer(FixedPlacer(((0, 1, 5),))))


@pytest.mark.parametrize("min_insync", [0, -1, True, 1.0, "2"])
def test_invalid_min_insync_replicas_are_rejected(min_insync: object) -> None:
    with pytest.raises(InvalidOptionError, match=r"^min_insync_replicas is "):
        UnderReplicatedPlacer(min_insync_replicas=min_insync)  # type: ignore[arg-type]


def test_a_wrapped_placer_cannot_be_wrapped_again() -> None:
    with pytest.raises(InvalidOptionError, match="wrap it once"):
        UnderReplicatedPlacer(UnderReplicatedPlacer())


def test_placeholders_are_counted_from_minus_one() -> None:
    assert placeholders(0) == ()
    assert with_placeholders((7, -1, 3), 5) == (7, 3, -1, -2, -3)
    assert with_placeholders((7, 3), 1) == (7, 3)


# ---- Filling placeholders.

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Lists = dict[TopicPartition, tuple[int, ...]]


def test_ties_are_broken_by_fewest_replicas() -> None:
    view = cluster("abcc", t=((0, 1),) * 4, u=((2,),))
    wanted = {TopicPartition("t", number): ReplicationTarget(3) for number in range(4)}
    assert [row[-1] for row in fill_placeholders(view, wanted).values()] == [3, 2, 3, 2]


def test_a_replica_on_a_dead_broker_still_covers_its_rack() -> None:
    view = cluster({0: "a", 2: "b", 3: "c"}, t=((0, 1),))
    assert fill_placeholders(
        view, {T0: ReplicationTarget(3)}, offline_brokers=[Broker(1, "b")]
    ) == {T0: (0, 1, 3)}


def test_reassigning_and_deleted_partitions_are_not_filled() -> None:
    view = cluster("abc", t=((0,), (1,)))
    wanted = {
        T0: ReplicationTarget(3),
        T1: ReplicationTarget(3),
        TopicPartition("gone", 0): ReplicationTarget(3),
    }
    assert list(fill_placeholders(view, wanted, reassigning=[T0])) == [T1]


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
        view = cluster({each: racks[each] for each in sorted(live)}, t=tuple(lists.values()))
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
        again = cluster({each: racks[each] for each in sorted(live)}, t=tuple(lists.values()))
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
