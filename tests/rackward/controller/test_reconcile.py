"""What a controller does about intents: pure."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from placement_core import ClusterView, TopicPartition
from rackward.admin import ClusterState, Ongoing
from rackward.controller.pending_replicas import Intent
from rackward.controller.reconcile import Decision, Memory, Patience, decide
from tests.support.pending_replicas import RACKS, intent, state, with_id, without_topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Rows = Mapping[int, tuple[int, ...]]
PATIENCE = Patience(unfit=60.0, stuck=300.0)


def decided(
    intents: list[Intent],
    found: ClusterState,
    now: float = 0.0,
    memory: Memory | None = None,
    at_once: int = 100,
) -> Decision:
    by_key = {each.key: each for each in intents}
    return decide(by_key, found, found.view, now, memory or Memory(), at_once, PATIENCE)


def test_nothing_can_be_done_without_a_broker() -> None:
    found = decided([intent()], state([0, 1], {"t": {0: (0, 1)}}))
    assert (found.targets, found.records, found.forgotten) == ({}, (), {})
    assert found.waiting == 1


def test_a_broker_joins() -> None:
    rows = {0: (0, 1), 1: (1, 0)}
    found = decided([intent(rows=rows)], state([0, 1, 2], {"t": rows}))
    assert found.targets == {T0: (0, 1, 2), T1: (1, 0, 2)}
    (record,) = found.records
    assert record.filling == {0: (0, 1, 2), 1: (1, 0, 2)}
    assert record.open == (0, 1)
    assert found.waiting == 0
    assert found.told == ("t: 2 partitions get replicas on brokers [2]",)


def test_what_was_decided_on_is_asked_for_again_as_it_was() -> None:
    """Whoever wrote it may have been killed before it asked. Broker 5 would do as well."""
    kept = intent(filling={0: (0, 1, 5)})
    found = decided([kept], state([0, 1, 2, 5], {"t": {0: (0, 1)}}))
    assert found.targets == {T0: (0, 1, 5)}
    assert found.records == ()


def test_what_was_decided_on_and_cannot_be_had_is_decided_on_anew() -> None:
    kept = intent(filling={0: (0, 1, 5)})
    found = decided([kept], state([0, 1, 2], {"t": {0: (0, 1)}}))
    assert found.targets == {T0: (0, 1, 2)}
    assert found.records[0].filling == {0: (0, 1, 2)}


def test_what_somebody_has_moved_meanwhile_is_not_moved_back() -> None:
    kept = intent(filling={0: (0, 1, 5)})
    found = decided([kept], state(RACKS, {"t": {0: (3, 4)}}))
    (row,) = found.targets.values()
    assert row is not None
    assert row[:2] == (3, 4)


def test_what_is_under_way_goes_on() -> None:
    kept = intent(filling={0: (0, 1, 2)})
    there = state(
        [0, 1, 2], {"t": {0: (0, 1, 2)}}, ongoing={T0: Ongoing((0, 1, 2), adding=(2,), removing=())}
    )
    found = decided([kept], there)
    assert (found.targets, found.records, found.forgotten) == ({}, (), {})
    assert found.under_way == 1


def test_what_is_there_is_forgotten() -> None:
    found = decided([intent(filling={0: (0, 1, 2)})], state([0, 1, 2], {"t": {0: (0, 1, 2)}}))
    assert found.forgotten == {"t/i": "all of it is filled"}
    assert found.targets == {}


def test_a_part_that_is_there_leaves_the_intent() -> None:
    kept = intent(rows={0: (0, 1), 1: (1, 0)}, filling={0: (0, 1, 2), 1: (1, 0, 2)})
    lists = {"t": {0: (0, 1, 2), 1: (1, 0, 2)}}
    there = state([0, 1, 2], lists, ongoing={T1: Ongoing((1, 0, 2), (2,), ())})
    (record,) = decided([kept], there).records
    assert record.open == (1,)
    assert record.filling == {1: (1, 0, 2)}


def test_a_broker_that_dies_while_it_copies_is_waited_for_and_then_replaced() -> None:
    kept = intent(filling={0: (0, 1, 2)})
    copying = {T0: Ongoing((0, 1, 2), adding=(2,), removing=())}
    away = state([0, 1, 5], {"t": {0: (0, 1, 2)}}, ongoing=copying)
    first = decided([kept], away, now=10.0)
    assert first.targets == {}
    assert first.memory.stuck == {T0: 10.0}
    assert decided([kept], away, now=309.0, memory=first.memory).targets == {}
    late = decided([kept], away, now=310.0, memory=first.memory)
    assert late.targets == {T0: None}
    assert late.records[0].filling == {}
    # Nobody else could take it: it is waited for without end.
    alone = state([0, 1], {"t": {0: (0, 1, 2)}}, ongoing=copying)
    assert decided([kept], alone, now=1e9, memory=first.memory).targets == {}


def test_somebody_elses_reassignment_is_never_cancelled() -> None:
    foreign = {T0: Ongoing((0, 1, 2), adding=(2,), removing=())}
    away = state([0, 1, 5], {"t": {0: (0, 1, 2)}}, ongoing=foreign)
    memory = Memory(stuck={T0: 0.0})
    assert decided([intent()], away, now=1e9, memory=memory).targets == {}


def test_only_so_many_at_a_time() -> None:
    rows = dict.fromkeys(range(5), (0, 1))
    there = state(
        [0, 1, 2],
        {"t": {**rows, 0: (0, 1, 2)}},
        ongoing={T0: Ongoing((0, 1, 2), adding=(2,), removing=())},
    )
    found = decided([intent(rows=rows)], there, at_once=3)
    assert [place.partition for place in found.targets] == [1, 2]
    assert set(found.records[0].filling) == {1, 2}


def test_a_topic_that_is_gone_is_forgotten_after_a_while() -> None:
    gone = without_topic(state(RACKS, {"t": {0: (0, 1)}}), "t")
    first = decided([intent()], gone, now=100.0)
    assert first.forgotten == {}
    assert decided([intent()], gone, now=159.0, memory=first.memory).forgotten == {}
    late = decided([intent()], gone, now=160.0, memory=first.memory)
    assert late.forgotten == {"t/i": "the topic is gone"}


def test_a_broker_that_has_not_heard_of_a_topic_makes_nobody_forget_it() -> None:
    there = state([0, 1, 2], {"t": {0: (0, 1)}})
    first = decided([intent()], without_topic(there, "t"), now=0.0)
    back = decided([intent()], there, now=50.0, memory=first.memory)
    assert back.memory.unfit == {}
    again = decided([intent()], without_topic(there, "t"), now=70.0, memory=back.memory)
    assert again.forgotten == {}


def test_another_topic_of_the_same_name_is_left_alone() -> None:
    other = with_id(state(RACKS, {"t": {0: (0, 1)}}), "t", "another")
    first = decided([intent()], other, now=0.0)
    assert first.targets == {}
    late = decided([intent()], other, now=60.0, memory=first.memory)
    assert late.forgotten == {"t/i": "the topic is another one of the same name"}


def test_a_topic_without_an_id_yet_is_known_by_its_layout() -> None:
    kept = intent(topic_id=None)
    found = decided([kept], state([0, 1, 2], {"t": {0: (0, 1)}}))
    assert found.records[0].topic_id == "t-id"
    assert found.targets == {T0: (0, 1, 2)}
    other = decided([kept], state([0, 1, 2], {"t": {0: (1, 0)}}))
    assert other.targets == {}
    assert "t/i" in other.memory.unfit


def test_a_stand_in_that_has_come_back_counts_once_it_has_caught_up() -> None:
    kept = intent(rows={0: (0, 1, 2)}, stand_ins=[2])
    lists = {"t": {0: (0, 1, 2)}}
    behind = decided([kept], state([0, 1, 2], lists, behind={T0: [2]}))
    assert (behind.targets, behind.forgotten) == ({}, {})
    assert decided([kept], state([0, 1, 2], lists)).forgotten


def test_a_stand_in_gives_its_place_to_whoever_comes() -> None:
    kept = intent(rows={0: (0, 1, 2)}, stand_ins=[2])
    found = decided([kept], state([0, 1, 5], {"t": {0: (0, 1, 2)}}))
    assert found.targets == {T0: (0, 1, 5)}


def test_two_intents_of_one_partition_ask_once() -> None:
    both = [intent(id="i"), intent(id="j", factor=4)]
    found = decided(both, state([0, 1, 2], {"t": {0: (0, 1)}}))
    assert found.targets == {T0: (0, 1, 2)}


@st.composite
def lives(draw: st.DrawFn) -> list[frozenset[int]]:
    """Who is up, moment by moment."""
    up = st.frozensets(st.sampled_from(sorted(RACKS)), min_size=1)
    return draw(st.lists(up, min_size=1, max_size=6))


@settings(max_examples=200)
@given(lives(), st.integers(1, 4), st.integers(3, 5), st.data())
def test_whatever_happens_each_placeholder_is_filled_once(
    moments: list[frozenset[int]], partitions: int, factor: int, data: st.DataObject
) -> None:
    """Brokers come and go; controllers are killed between any two steps; copies end or do not."""
    lists = {number: (0, 1)[: 1 + number % 2] for number in range(partitions)}
    kept: dict[str, Intent] = {each.key: each for each in [intent(rows=lists, factor=factor)]}
    before = dict(lists)
    ongoing: dict[int, tuple[int, ...]] = {}
    memory = Memory()
    for now, live in enumerate([*moments, frozenset(RACKS), frozenset(RACKS), frozenset(RACKS)]):
        last = now >= len(moments)
        found = decide(kept, *_seen(live, lists, ongoing), float(now), memory, 100, PATIENCE)
        memory = found.memory
        killed = "" if last else data.draw(st.sampled_from(["", "record", "ask"]))
        if killed != "record":
            kept.update((each.key, each) for each in found.records)
            for key in found.forgotten:
                del kept[key]
            if killed != "ask":
                for place, row in found.targets.items():
                    assert row is not None
                    assert place.partition not in ongoing, "what is under way is left alone"
                    assert row[: len(lists[place.partition])] == lists[place.partition]
                    assert len(set(row)) == len(row) <= factor
                    ongoing[place.partition] = row
        for number in list(ongoing):
            if ongoing[number] and set(ongoing[number]) <= live:
                lists[number] = ongoing.pop(number)
    found = decide(kept, *_seen(frozenset(RACKS), lists, ongoing), 99.0, memory, 100, PATIENCE)
    assert all(len(row) == factor for row in lists.values())
    assert all(row[: len(before[number])] == before[number] for number, row in lists.items())
    assert found.forgotten or not kept


def _seen(live: frozenset[int], lists: Rows, ongoing: Rows) -> tuple[ClusterState, ClusterView]:
    found = state(
        live,
        {"t": {**lists, **ongoing}},
        ongoing={
            TopicPartition("t", number): Ongoing(
                row, tuple(b for b in row if b not in lists[number]), ()
            )
            for number, row in ongoing.items()
        },
    )
    return found, found.view
