"""The guarantees of KIP-36, and the scenarios of Kafka's tests for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import PlacementSpec
from placement_core.placers import MissingRacksError, RackAlternatingPlacer, SimplePlacer
from placement_core.placers.round_robin import SAMPLE, RackRotation
from placement_core.placers.spec import candidates
from tests.support.placement import (
    check_form,
    check_leaders,
    check_present_first,
    check_racks,
    check_replicas,
    cluster,
    rack_sizes,
)

EQUAL = {0: "rack1", 1: "rack2", 2: "rack2", 3: "rack3", 4: "rack3", 5: "rack1"}
SEED_11 = ((1, 4, 0), (3, 0, 1))
seeds = st.integers(0, 1 << 32)


@given(rack_sizes(), st.integers(1, 7), st.integers(1, 60), seeds, st.integers(0, 40))
def test_any_cluster(
    racks: dict[int, str], replicas: int, partitions: int, seed: int, first: int
) -> None:
    replicas = min(replicas, len(racks))
    spec = PlacementSpec(partitions, replicas, first_partition=first)
    placed = RackAlternatingPlacer(seed=seed).place(spec, cluster(racks))
    check_form(placed, partitions, replicas, racks)
    check_racks(placed, racks)
    check_leaders(placed, racks, slack=int(partitions % len(racks) > 0))


def walk_one(
    rotation: RackRotation, partition: int, present: tuple[int, ...], replicas: int, shift: int
) -> tuple[int, ...]:
    """Return the replicas of a partition by the rule, broker by broker; it starts at index 0."""
    order, racks, size = rotation.order, rotation.racks, len(rotation.order)
    leader = order[partition % size]
    row = list(present or (leader,))
    offset = (shift + partition // size) * racks % max(size - 1, 1)
    position = partition + 1 + offset
    if len(present) > 1 and present[0] == leader and present[-1] in order:
        position = order.index(present[-1]) + 1
    while len(row) < replicas:
        broker = order[position % size]
        used = {rotation.rack_of[other] for other in row if other in rotation.rack_of}
        if broker not in row and (rotation.rack_of[broker] not in used or len(used) == racks):
            row.append(broker)
        position += 1
    return tuple(row)


@given(rack_sizes(), st.integers(1, 7), st.integers(1, 60), st.integers(0, 40), st.data())
def test_partitions_are_placed_by_the_rule(
    racks: dict[int, str], replicas: int, partitions: int, first: int, data: st.DataObject
) -> None:
    replicas = min(replicas, len(racks))
    shift = data.draw(st.integers(0, 99))
    brokers = st.lists(st.sampled_from([*racks, 10**9]), max_size=replicas, unique=True)
    present = tuple(map(tuple, data.draw(st.lists(brokers, max_size=partitions))))
    spec = PlacementSpec(partitions, replicas, first_partition=first, present=present)
    rotation = RackRotation.of(candidates(spec, cluster(racks), None))
    assert RackAlternatingPlacer(start_index=0, shift=shift).place(spec, cluster(racks)) == tuple(
        walk_one(rotation, first + index, spec.present_replicas(index), replicas, shift)
        for index in range(partitions)
    )


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), seeds)
def test_equal_racks(racks: int, each: int, replicas: int, rounds: int, seed: int) -> None:
    view = cluster([f"rack{index % racks}" for index in range(racks * each)])
    brokers = range(racks * each)
    replicas = min(replicas, len(brokers))
    spec = PlacementSpec(rounds * len(brokers), replicas)
    placed = RackAlternatingPlacer(seed=seed).place(spec, view)
    check_leaders(placed, brokers)
    check_replicas(placed, brokers)
    check_racks(placed, view.racks())


@given(rack_sizes(), st.integers(1, 5), st.data())
def test_partitions_may_be_added_in_any_number_of_steps(
    racks: dict[int, str], replicas: int, data: st.DataObject
) -> None:
    replicas = min(replicas, len(racks))
    placer = RackAlternatingPlacer(seed=data.draw(seeds))
    complete = placer.place(PlacementSpec(40, replicas, topic="t"), cluster(racks))
    cut = data.draw(st.integers(len(racks), 40))
    if cut < 40:
        spec = PlacementSpec(40 - cut, replicas, topic="t", first_partition=cut)
        assert placer.place(spec, cluster(racks)) == complete[cut:]
        # Another placer derives from the present lists at least where leaders continue.
        other = RackAlternatingPlacer(seed=placer.seed + 1)
        added = other.place(spec, cluster(racks, t=complete[:cut]))
        assert [row[0] for row in added] == [row[0] for row in complete[cut:]]


def test_another_seed_continues_if_lists_determine_the_shift() -> None:
    complete = RackAlternatingPlacer(seed=5).place(PlacementSpec(24, 3, topic="t"), cluster(EQUAL))
    for cut in (1, 6, 7, 13):
        spec = PlacementSpec(24 - cut, 3, topic="t", first_partition=cut)
        added = RackAlternatingPlacer(seed=6).place(spec, cluster(EQUAL, t=complete[:cut]))
        assert added == complete[cut:], cut


@given(rack_sizes(), st.integers(2, 5), st.integers(1, 30), st.integers(0, 40), seeds, st.data())
def test_the_derived_shift_reproduces_most_lists(
    racks: dict[int, str],
    replicas: int,
    partitions: int,
    shift: int,
    seed: int,
    data: st.DataObject,
) -> None:
    """The expected shift is computed by trying every shift on every list."""
    replicas = min(replicas, len(racks))
    view = cluster(racks)
    placer = RackAlternatingPlacer(start_index=seed % len(racks), shift=shift)
    placed = placer.place(PlacementSpec(partitions, replicas), view)
    rows = {p: tuple(data.draw(st.permutations(row))) for p, row in enumerate(placed) if p % 3 == 2}
    rows = {**dict(enumerate(placed)), **rows}
    rotation = RackRotation.of(candidates(PlacementSpec(1, 1), view, None))
    start = rotation.most_likely_start(rows)
    assert start is not None
    sample = [(p, row) for p, row in rows.items() if len(row) > 1][:SAMPLE]

    def reproduced(shift: int) -> int:
        return sum(
            rotation.place(PlacementSpec(1, len(row), first_partition=p), start, shift) == (row,)
            for p, row in sample
        )

    expected = max(range(max(len(racks) - 1, 1)), key=reproduced)
    assert rotation.most_likely_shift(rows, start) == expected


@given(rack_sizes(), st.integers(1, 6), st.integers(1, 6), st.integers(1, 30), seeds)
def test_added_replicas_equal_those_of_a_new_topic(
    racks: dict[int, str], first: int, second: int, partitions: int, seed: int
) -> None:
    low, high = sorted((min(first, len(racks)), min(second, len(racks))))
    placer = RackAlternatingPlacer(start_index=seed % 7, shift=seed % 5)
    present = placer.place(PlacementSpec(partitions, low), cluster(racks))
    spec = PlacementSpec(partitions, high, present=present)
    extended = placer.place(spec, cluster(racks))
    check_present_first(extended, present)
    assert extended == placer.place(PlacementSpec(partitions, high), cluster(racks))


@given(rack_sizes(), st.integers(1, 6), st.integers(0, 30), st.data())
def test_replicas_are_added_to_any_lists(
    racks: dict[int, str], replicas: int, partitions: int, data: st.DataObject
) -> None:
    """Dead brokers (ids from 100) keep their replicas; racks without a replica come first."""
    replicas = min(replicas, len(racks))
    ids = st.sampled_from([*racks, 100, 101])
    lists = st.lists(ids, unique=True, max_size=replicas).map(tuple)
    present = tuple(data.draw(st.lists(lists, min_size=1, max_size=9)))
    spec = PlacementSpec(len(present), replicas, present=present)
    placed = RackAlternatingPlacer(seed=partitions).place(spec, cluster(racks))
    check_form(placed, len(present), replicas, [*racks, 100, 101])
    check_present_first(placed, present)
    for row, before in zip(placed, present, strict=True):
        present_racks = {racks[broker] for broker in before if broker in racks}
        added_racks = [racks[broker] for broker in row[len(before) :]]
        all_racks = set(racks.values())
        assert len(present_racks.union(added_racks)) == min(
            len(present_racks) + len(added_racks), len(all_racks)
        ), (row, before)


def test_added_replicas_are_even_if_leaders_are_not() -> None:
    spec = PlacementSpec(12, 3, present=((0,),) * 12)
    placed = RackAlternatingPlacer(seed=1).place(spec, cluster(EQUAL))
    check_racks(placed, EQUAL)
    others = [row[1:] for row in placed]
    assert {len([row for row in others if broker in row]) for broker in (1, 2, 3, 4)} == {6}


@pytest.mark.parametrize("seed", range(5))
def test_racks_can_be_ignored(seed: int) -> None:
    partial = {**EQUAL, 1: None, 4: ""}
    placer = RackAlternatingPlacer(seed=seed)
    with pytest.raises(MissingRacksError, match="brokers 1, 4 without a rack") as raised:
        placer.place(PlacementSpec(6, 3), cluster(partial))
    assert raised.value.broker_ids == (1, 4)
    # The options of the commands, not the names of arguments.
    assert "(--brokers; --drain of placement plan)" in str(raised.value)
    assert "broker_ids" not in str(raised.value)
    spec = PlacementSpec(6, 3, ignore_racks=True)
    placed = placer.place(spec, cluster(partial))
    assert placed == SimplePlacer(seed=seed).place(spec, cluster(partial))
    check_leaders(placed, partial)


@pytest.mark.parametrize("seed", range(5))
def test_brokers_without_a_rack_can_be_left_out(seed: int) -> None:
    partial = {**EQUAL, 1: None}
    placer = RackAlternatingPlacer(seed=seed)
    placed = placer.place(PlacementSpec(6, 3), cluster(partial), broker_ids=[0, 2, 3])
    check_form(placed, 6, 3, [0, 2, 3])
    check_racks(placed, {broker: EQUAL[broker] for broker in (0, 2, 3)})


def test_layouts_depend_on_seed_and_topic() -> None:
    view = cluster(EQUAL)
    placer = RackAlternatingPlacer(seed=11)
    layouts = [placer.place(PlacementSpec(6, 3, topic=f"t{n}"), view) for n in range(20)]
    assert layouts == [placer.place(PlacementSpec(6, 3, topic=f"t{n}"), view) for n in range(20)]
    assert len({rows[0][0] for rows in layouts}) == 6
    # A plan with a seed must be the same in every release of Python.
    assert placer.place(PlacementSpec(2, 3, topic="orders"), view) == SEED_11


def test_a_new_placer_draws_a_seed_and_exposes_it() -> None:
    one, other = RackAlternatingPlacer(), RackAlternatingPlacer()
    assert one.seed != other.seed
    view = cluster([f"rack{index % 3}" for index in range(99)])
    again = RackAlternatingPlacer(seed=one.seed)
    assert one.place(PlacementSpec(9, 3), view) == again.place(PlacementSpec(9, 3), view)
