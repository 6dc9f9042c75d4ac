"""The plan of one pass over pending replicas."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_core import ClusterView, TopicPartition
from rackward.controller.reconcile import (
    ReconcilePlan,
    ReconcileState,
    is_safe,
    plan,
)
from rackward.kafka import ClusterState, Reassignment
from rackward.topics.pending_replicas import PendingReplicas
from tests.support.pending_replicas import RACKS, pending, state, with_id, without_topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Rows = Mapping[int, tuple[int, ...]]


def plan_pass(
    records: list[PendingReplicas],
    cluster: ClusterState,
    now: float = 0.0,
    since: ReconcileState | None = None,
    max_in_progress: int = 100,
) -> ReconcilePlan:
    return plan(
        {each.key: each for each in records},
        cluster,
        cluster.view,
        now,
        since or ReconcileState(),
        max_in_progress,
    )


def test_placeholders_wait_for_a_broker() -> None:
    steps = plan_pass([pending()], state([0, 1], {"t": {0: (0, 1)}}))
    assert (steps.targets, steps.records, steps.deleted) == ({}, [], {})
    assert steps.waiting == 1


def test_placeholders_are_filled_when_a_broker_joins() -> None:
    rows = {0: (0, 1), 1: (1, 0)}
    steps = plan_pass([pending(rows=rows)], state([0, 1, 2], {"t": rows}))
    assert steps.targets == {T0: (0, 1, 2), T1: (1, 0, 2)}
    (record,) = steps.records
    assert record.assigned == {0: (0, 1, 2), 1: (1, 0, 2)}
    assert record.partitions == (0, 1)
    assert steps.waiting == 0
    assert steps.log_lines == ["t: adding replicas of 2 partitions on brokers [2]"]


def test_a_recorded_replica_list_is_requested_again() -> None:
    """The controller may have been killed before it requested it. Broker 2 would do as well."""
    record = pending(assigned={0: (0, 1, 5)})
    steps = plan_pass([record], state([0, 1, 2, 5], {"t": {0: (0, 1)}}))
    assert steps.targets == {T0: (0, 1, 5)}
    assert steps.records == []


def test_a_recorded_list_with_a_broker_that_is_down_is_replaced() -> None:
    record = pending(assigned={0: (0, 1, 5)})
    steps = plan_pass([record], state([0, 1, 2], {"t": {0: (0, 1)}}))
    assert steps.targets == {T0: (0, 1, 2)}
    assert steps.records[0].assigned == {0: (0, 1, 2)}


def test_a_partition_moved_by_another_program_is_not_moved_back() -> None:
    record = pending(assigned={0: (0, 1, 5)})
    steps = plan_pass([record], state(RACKS, {"t": {0: (3, 4)}}))
    (row,) = steps.targets.values()
    assert row is not None
    assert row[:2] == (3, 4)


def test_a_reassignment_in_progress_is_not_changed() -> None:
    record = pending(assigned={0: (0, 1, 2)})
    cluster = state(
        [0, 1, 2],
        {"t": {0: (0, 1, 2)}},
        reassignments={T0: Reassignment((0, 1, 2), adding=(2,), removing=())},
    )
    steps = plan_pass([record], cluster)
    assert (steps.targets, steps.records, steps.deleted) == ({}, [], {})
    assert steps.in_progress == 1


def test_the_record_of_a_complete_topic_is_deleted() -> None:
    steps = plan_pass([pending(assigned={0: (0, 1, 2)})], state([0, 1, 2], {"t": {0: (0, 1, 2)}}))
    assert steps.deleted == {"t/i": "all partitions are complete"}
    assert steps.targets == {}


def test_complete_partitions_are_removed_from_the_record() -> None:
    record = pending(rows={0: (0, 1), 1: (1, 0)}, assigned={0: (0, 1, 2), 1: (1, 0, 2)})
    lists = {"t": {0: (0, 1, 2), 1: (1, 0, 2)}}
    cluster = state([0, 1, 2], lists, reassignments={T1: Reassignment((1, 0, 2), (2,), ())})
    (record,) = plan_pass([record], cluster).records
    assert record.partitions == (1,)
    assert record.assigned == {1: (1, 0, 2)}


def test_a_broker_that_stays_down_while_it_copies_is_replaced() -> None:
    record = pending(assigned={0: (0, 1, 2)})
    copying = {T0: Reassignment((0, 1, 2), adding=(2,), removing=())}
    away = state([0, 1, 5], {"t": {0: (0, 1, 2)}}, reassignments=copying)
    first = plan_pass([record], away, now=10.0)
    assert first.targets == {}
    assert first.state.stuck == {T0: 10.0}
    assert plan_pass([record], away, now=309.0, since=first.state).targets == {}
    late = plan_pass([record], away, now=310.0, since=first.state)
    assert late.targets == {T0: None}
    assert late.records[0].assigned == {}
    # Without another broker, the reassignment is never cancelled.
    without_others = state([0, 1], {"t": {0: (0, 1, 2)}}, reassignments=copying)
    assert plan_pass([record], without_others, now=1e9, since=first.state).targets == {}


def test_reassignments_of_other_programs_are_not_cancelled() -> None:
    foreign = {T0: Reassignment((0, 1, 2), adding=(2,), removing=())}
    away = state([0, 1, 5], {"t": {0: (0, 1, 2)}}, reassignments=foreign)
    since = ReconcileState(stuck={T0: 0.0})
    assert plan_pass([pending()], away, now=1e9, since=since).targets == {}


def test_partitions_in_progress_are_limited() -> None:
    rows = dict.fromkeys(range(5), (0, 1))
    cluster = state(
        [0, 1, 2],
        {"t": {**rows, 0: (0, 1, 2)}},
        reassignments={T0: Reassignment((0, 1, 2), adding=(2,), removing=())},
    )
    steps = plan_pass([pending(rows=rows)], cluster, max_in_progress=3)
    assert [tp.partition for tp in steps.targets] == [1, 2]
    assert set(steps.records[0].assigned) == {1, 2}


def test_the_record_of_a_deleted_topic_expires() -> None:
    without_topic_t = without_topic(state(RACKS, {"t": {0: (0, 1)}}), "t")
    first = plan_pass([pending()], without_topic_t, now=100.0)
    assert first.deleted == {}
    assert plan_pass([pending()], without_topic_t, now=159.0, since=first.state).deleted == {}
    late = plan_pass([pending()], without_topic_t, now=160.0, since=first.state)
    assert late.deleted == {"t/i": "the topic was deleted"}


def test_a_topic_that_returns_restarts_the_timeout() -> None:
    cluster = state([0, 1, 2], {"t": {0: (0, 1)}})
    first = plan_pass([pending()], without_topic(cluster, "t"), now=0.0)
    back = plan_pass([pending()], cluster, now=50.0, since=first.state)
    assert back.state.missing == {}
    again = plan_pass([pending()], without_topic(cluster, "t"), now=70.0, since=back.state)
    assert again.deleted == {}


def test_another_topic_of_the_same_name() -> None:
    other = with_id(state(RACKS, {"t": {0: (0, 1)}}), "t", "another")
    first = plan_pass([pending()], other, now=0.0)
    assert first.targets == {}
    late = plan_pass([pending()], other, now=60.0, since=first.state)
    assert late.deleted == {"t/i": "the topic was deleted and created again"}


def test_a_topic_without_an_id_is_identified_by_its_layout() -> None:
    record = pending(topic_id=None)
    steps = plan_pass([record], state([0, 1, 2], {"t": {0: (0, 1)}}))
    assert steps.records[0].topic_id == "t-id"
    assert steps.targets == {T0: (0, 1, 2)}
    other = plan_pass([record], state([0, 1, 2], {"t": {0: (1, 0)}}))
    assert other.targets == {}
    assert "t/i" in other.state.missing


def test_an_offline_replica_counts_once_it_is_in_sync_again() -> None:
    record = pending(rows={0: (0, 1, 2)}, offline_replicas=[2])
    lists = {"t": {0: (0, 1, 2)}}
    behind = plan_pass([record], state([0, 1, 2], lists, behind={T0: [2]}))
    assert (behind.targets, behind.deleted) == ({}, {})
    assert plan_pass([record], state([0, 1, 2], lists)).deleted


def test_an_offline_replica_is_replaced() -> None:
    record = pending(rows={0: (0, 1, 2)}, offline_replicas=[2])
    steps = plan_pass([record], state([0, 1, 5], {"t": {0: (0, 1, 2)}}))
    assert steps.targets == {T0: (0, 1, 5)}


def test_two_records_of_one_partition_give_one_request() -> None:
    both = [pending(id="i"), pending(id="j", factor=4)]
    steps = plan_pass(both, state([0, 1, 2], {"t": {0: (0, 1)}}))
    assert steps.targets == {T0: (0, 1, 2)}


@st.composite
def live_brokers(draw: st.DrawFn) -> list[frozenset[int]]:
    """Generate the live brokers at successive moments."""
    up = st.frozensets(st.sampled_from(sorted(RACKS)), min_size=1)
    return draw(st.lists(up, min_size=1, max_size=6))


@settings(max_examples=200)
@given(live_brokers(), st.integers(1, 4), st.integers(3, 5), st.data())
def test_each_placeholder_is_filled_once(
    moments: list[frozenset[int]], partitions: int, factor: int, data: st.DataObject
) -> None:
    """Brokers stop and start, controllers are killed between steps, copies complete or do not."""
    lists = {number: (0, 1)[: 1 + number % 2] for number in range(partitions)}
    record = pending(rows=lists, factor=factor)
    records: dict[str, PendingReplicas] = {record.key: record}
    before = dict(lists)
    ongoing: dict[int, tuple[int, ...]] = {}
    since = ReconcileState()
    for now, live in enumerate([*moments, frozenset(RACKS), frozenset(RACKS), frozenset(RACKS)]):
        last = now >= len(moments)
        steps = plan(records, *_observe(live, lists, ongoing), float(now), since, 100)
        since = steps.state
        killed = "" if last else data.draw(st.sampled_from(["", "record", "request"]))
        if killed != "record":
            records.update((each.key, each) for each in steps.records)
            for key in steps.deleted:
                del records[key]
            if killed != "request":
                for tp, row in steps.targets.items():
                    assert row is not None
                    assert tp.partition not in ongoing, (
                        "a reassignment in progress was requested again"
                    )
                    assert row[: len(lists[tp.partition])] == lists[tp.partition]
                    assert len(set(row)) == len(row) <= factor
                    ongoing[tp.partition] = row
        for number in list(ongoing):
            if ongoing[number] and set(ongoing[number]) <= live:
                lists[number] = ongoing.pop(number)
    steps = plan(records, *_observe(frozenset(RACKS), lists, ongoing), 99.0, since, 100)
    assert all(len(row) == factor for row in lists.values())
    assert all(row[: len(before[number])] == before[number] for number, row in lists.items())
    assert steps.deleted or not records


def _observe(live: frozenset[int], lists: Rows, ongoing: Rows) -> tuple[ClusterState, ClusterView]:
    cluster = state(
        live,
        {"t": {**lists, **ongoing}},
        reassignments={
            TopicPartition("t", number): Reassignment(
                row, tuple(b for b in row if b not in lists[number]), ()
            )
            for number, row in ongoing.items()
        },
    )
    return cluster, cluster.view


@pytest.mark.parametrize(
    ("present", "live", "in_sync", "row", "factor", "offline", "safe"),
    [
        ((0, 1), {0, 1, 2}, {0, 1}, (0, 1, 2), 3, (), True),
        ((0, 1, 5), {0, 1, 2}, {0, 1}, (0, 1, 2), 3, (5,), True),
        ((0, 1, 5), {0, 1, 2}, {0, 1}, (0, 1, 2, 5), 3, (5,), False),
        ((5, 0, 1), {0, 1, 2}, {0, 1}, (0, 1, 2), 3, (5,), True),
        # A list that becomes shorter, while brokers are down or not.
        ((0, 1, 2), {3}, {2}, (3,), 1, (0, 1, 2), False),
        ((0, 1, 2, 3, 4), {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4}, (0, 1, 2, 3), 4, (), False),
        ((0, 1, 2, 3, 4), {0, 1, 2, 3, 5}, {0, 1, 2, 3}, (0, 1, 2, 3), 4, (4,), False),
        # A replica that is live, in sync, or not recorded is removed.
        ((0, 1, 2), {0, 1, 2, 3}, {0, 1, 2}, (0, 1, 3), 3, (2,), False),
        ((0, 1, 2), {0, 1, 3}, {0, 1, 2}, (0, 1, 3), 3, (2,), False),
        ((0, 1, 2), {0, 1, 3}, {0, 1}, (0, 1, 3), 3, (), False),
        # No live replica stays, so the data would have to come from a broker that is down.
        ((0, 1), {2, 3}, set(), (2, 3), 2, (0, 1), False),
        # Another leader, a broker twice, a broker that is down, more than the factor.
        ((0, 1), {0, 1, 2}, {0, 1}, (1, 0, 2), 3, (), False),
        ((0, 1), {0, 1, 2}, {0, 1}, (0, 1, 1), 3, (), False),
        ((0, 1), {0, 1, 2}, {0, 1}, (0, 1, 4), 3, (), False),
        ((0, 1), {0, 1, 2, 3}, {0, 1}, (0, 1, 2, 3), 3, (), False),
    ],
)
def test_which_lists_may_be_requested(
    present: tuple[int, ...],
    live: set[int],
    in_sync: set[int],
    row: tuple[int, ...],
    factor: int,
    offline: tuple[int, ...],
    safe: bool,
) -> None:
    record = pending(rows={0: present}, factor=factor, offline_replicas=offline)
    assert is_safe(row, present, record, live, in_sync) is safe


BROKERS = st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True).map(tuple)


@given(
    present=BROKERS,
    live=st.sets(st.integers(0, 5)),
    behind=st.sets(st.integers(0, 5)),
    factor=st.integers(1, 6),
    offline=st.sets(st.integers(0, 5)),
    assigned=st.none() | BROKERS,
)
@settings(max_examples=500)
def test_no_record_removes_data(
    present: tuple[int, ...],
    live: set[int],
    behind: set[int],
    factor: int,
    offline: set[int],
    assigned: tuple[int, ...] | None,
) -> None:
    """Whatever a record says: lists never become shorter, and live or in-sync replicas stay."""
    record = pending(
        rows={0: present},
        factor=factor,
        offline_replicas=offline,
        assigned={} if assigned is None else {0: assigned},
    )
    cluster = state(live, {"t": {0: present}}, behind={T0: behind})
    row = plan_pass([record], cluster).targets.get(T0)
    if row is not None:
        assert len(row) >= len(present)
        assert len(row) <= max(len(present), factor)
        assert set(cluster.in_sync[T0]) <= set(row)
        assert {broker for broker in present if broker in live} <= set(row)
        assert set(row) & set(present) & live
        assert set(row) - set(present) <= live
