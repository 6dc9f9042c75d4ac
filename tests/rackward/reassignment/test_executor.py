"""Execution of a plan on a simulated cluster: batches, failures, interruptions."""

from __future__ import annotations

import pytest

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.kafka import AdminError
from rackward.reassignment import BatchLimits, Event, ExecutionOptions, ExecutionResult, Executor
from rackward.reassignment import progress as events
from tests.support.simulated_cluster import SimulatedCluster, tp

MOVES = [
    Move(tp(0), (0,), (0, 1)),
    Move(tp(1), (1,), (1, 2)),
    Move(tp(2), (2,), (2, 3)),
    Move(tp(3), (3,), (3, 4)),
]
OPTIONS = ExecutionOptions(BatchLimits(partitions=2, throttle=7_000), stall_timeout=20.0)


def cluster_of(moves: list[Move], **fields: int) -> SimulatedCluster:
    return SimulatedCluster({move.partition: move.before for move in moves}, **fields)


def execute(
    cluster: SimulatedCluster, moves: list[Move], options: ExecutionOptions = OPTIONS
) -> tuple[ExecutionResult, list[Event]]:
    emitted: list[Event] = []
    sizes = {move.partition: 1000 for move in moves}
    result = Executor(moves, sizes, cluster, options, emitted.append, cluster.clock).run()
    return result, emitted


def of_type(emitted: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in emitted if isinstance(event, kind)]


def target(moves: list[Move]) -> dict[TopicPartition, tuple[int, ...]]:
    return {move.partition: move.after for move in moves}


def test_all_batches_are_moved_and_the_throttle_is_removed() -> None:
    cluster = cluster_of(MOVES)
    result, emitted = execute(cluster, MOVES)
    assert result == ExecutionResult(completed=4)
    assert result.ok
    assert cluster.replicas() == target(MOVES)
    assert [len(request) for request in cluster.requests] == [2, 2]
    assert of_type(emitted, events.BatchStarted) == [
        events.BatchStarted(1, 2, 2, 2, 2000),
        events.BatchStarted(2, 2, 2, 2, 2000),
    ]
    assert emitted[0] == events.Started(
        pending=4, in_progress=0, completed=0, batches=2, bytes=4000
    )
    assert events.ThrottleSet(7000) in emitted
    assert emitted[-1] == events.ThrottleRemoved()
    assert cluster.configs.settings == {}
    last = of_type(emitted, events.Progressed)[-1]
    assert isinstance(last, events.Progressed)
    progress = last.progress
    assert (progress.completed, progress.bytes_copied, progress.bytes) == (4, 4000, 4000)


def test_preferred_leaders_are_elected_if_they_are_in_sync() -> None:
    moves = [Move(tp(0), (0, 1), (1, 0)), Move(tp(1), (0, 1), (1, 0))]
    cluster = cluster_of(moves)
    cluster.partitions[tp(1)].bytes[1] = 10
    result, emitted = execute(cluster, moves)
    assert cluster.partitions[tp(0)].leader == 1
    assert events.LeadersElected(1) in emitted
    assert result.wrong_leader == {
        tp(1): "broker 0 is the leader, instead of broker 1 (not in sync)"
    }
    assert result.out_of_sync == {tp(1): (1,)}
    assert not result.ok
    # Nothing is copied, so there is no throttle.
    assert not cluster.configs.changes


def test_moves_that_copy_nothing_come_first() -> None:
    moves = [*MOVES[:2], Move(tp(2), (2, 3), (3, 2))]
    cluster = cluster_of(moves)
    result, _ = execute(cluster, moves)
    assert result.ok
    assert [sorted(request) for request in cluster.requests] == [[tp(0), tp(2)], [tp(1)]]


def test_a_refused_partition_fails_and_the_others_complete() -> None:
    cluster = cluster_of(MOVES)
    cluster.refuses[tp(1)] = "no such broker"
    result, emitted = execute(cluster, MOVES)
    assert result.failed == {tp(1): "the controller refused: no such broker"}
    assert events.PartitionFailed(tp(1), "the controller refused: no such broker") in emitted
    assert result.completed == 3
    assert cluster.configs.settings == {}


def test_a_deleted_topic_fails_and_the_others_complete() -> None:
    moves = [*MOVES, Move(tp(0, "u"), (0,), (0, 5)), Move(tp(1, "u"), (0,), (0, 5))]
    cluster = cluster_of(moves)
    cluster.at[0.5] = lambda: [cluster.partitions.pop(tp(n, "u")) for n in (0, 1)]
    result, _ = execute(cluster, moves, ExecutionOptions())
    assert result.failed == {tp(n, "u"): "the topic was deleted" for n in (0, 1)}
    assert result.completed == 4


def test_a_failed_broker_delays_only_its_partitions() -> None:
    cluster = cluster_of(MOVES)
    cluster.at[0.5] = lambda: cluster.live.discard(2)
    cluster.at[15.0] = lambda: cluster.live.add(2)
    result, emitted = execute(cluster, MOVES)
    assert events.WaitingForBrokers(1, (2,)) in emitted
    # The second batch did not wait; the first one was completed when the broker was back.
    assert cluster.requests[1].keys() == {tp(3)}
    assert result.failed == {tp(2): "not started: broker 2 is down"}
    assert result.completed == 3
    assert cluster.configs.settings == {}


def test_a_broker_that_stays_down_ends_the_run() -> None:
    moves = [MOVES[0], MOVES[3]]
    cluster = cluster_of(moves)
    cluster.at[0.5] = lambda: cluster.live.discard(1)
    result, emitted = execute(cluster, moves)
    assert result.failed == {tp(0): "waiting: broker 1 is down"}
    assert result.in_progress == (tp(0),)
    assert emitted[-1] == events.ThrottleRemoved()
    assert events.LeftInProgress(1, "no progress for 20 s") in emitted
    assert cluster.seconds == pytest.approx(20, abs=15)


def test_a_stalled_run_ends_and_starts_no_other_batch() -> None:
    cluster = cluster_of(MOVES, rate=0)
    result, _ = execute(cluster, MOVES)
    assert result.failed == {
        tp(0): "no progress for 20 s",
        tp(1): "no progress for 20 s",
        tp(2): "not started: the run made no progress",
        tp(3): "not started: the run made no progress",
    }
    assert len(cluster.requests) == 1
    assert cluster.configs.settings == {}


def test_slow_copying_is_progress() -> None:
    cluster = cluster_of(MOVES, rate=10)
    result, _ = execute(cluster, MOVES)
    assert result.ok
    assert cluster.seconds > 100


def test_changes_by_another_client_fail_the_partition() -> None:
    cluster = cluster_of(MOVES)
    options = ExecutionOptions()
    cluster.at[0.3] = lambda: cluster.cancel(tp(0))
    cluster.at[0.4] = lambda: [cluster.reassign({tp(1): row}) for row in (None, (1, 5))]
    result, _ = execute(cluster, MOVES, options)
    assert result.failed == {
        tp(0): "another client moved it, or cancelled its reassignment: it is on broker 0",
        tp(1): "another client reassigned it to brokers 1, 5",
    }
    assert result.completed == 2


def test_an_interrupted_run_is_resumed() -> None:
    cluster = cluster_of(MOVES)
    cluster.reassign({tp(0): (0, 1), tp(1): (1, 2)})
    cluster.sleep(1.0)
    cluster.reassign({tp(2): (2, 3)})
    cluster.sleep(1.5)
    assert set(cluster.reassignments()) == {tp(2)}
    cluster.requests.clear()
    result, emitted = execute(cluster, MOVES)
    assert emitted[0] == events.Started(
        pending=1, in_progress=1, completed=2, batches=2, bytes=1000
    )
    assert result == ExecutionResult(completed=4)
    assert cluster.requests == [{tp(3): (3, 4)}]


def test_a_completed_plan_requests_nothing() -> None:
    cluster = cluster_of(MOVES)
    execute(cluster, MOVES)
    cluster.requests.clear()
    cluster.configs.changes.clear()
    result, _ = execute(cluster, MOVES)
    assert result == ExecutionResult(completed=4)
    assert not cluster.requests
    assert not cluster.configs.changes


def test_a_foreign_target_is_cancelled_before_it_is_replaced() -> None:
    cluster = cluster_of(MOVES)
    cluster.reassign({tp(0): (0, 5)})
    options = ExecutionOptions(allow_foreign=True)
    cluster.requests.clear()
    result, _ = execute(cluster, MOVES, options)
    assert cluster.requests[0] == {tp(0): None}
    assert result == ExecutionResult(completed=4)


def test_requests_that_fail_for_a_while_are_retried() -> None:
    cluster = cluster_of(MOVES)
    cluster.at[0.5] = lambda: setattr(cluster, "unreachable", True)
    cluster.at[8.0] = lambda: setattr(cluster, "unreachable", False)
    result, emitted = execute(cluster, MOVES)
    assert result.ok
    assert events.RequestFailed("no broker responds") in emitted


def test_a_cluster_that_stays_unreachable_ends_the_run() -> None:
    cluster = cluster_of(MOVES)

    def disconnect() -> None:
        cluster.unreachable = True
        cluster.configs.fails = AdminError("no broker responds")

    cluster.at[0.5] = disconnect
    emitted: list[Event] = []
    executor = Executor(MOVES, {}, cluster, OPTIONS, emitted.append, cluster.clock)
    with pytest.raises(AdminError, match="no broker responds"):
        executor.run()
    assert emitted[-2:] == [
        events.ThrottleNotRemoved("no broker responds"),
        events.LeftInProgress(2, "the run was interrupted"),
    ]


class Signal(BaseException):
    """The exception that a signal handler raises."""


def test_signal_removes_throttle_and_run_can_be_resumed() -> None:
    cluster = cluster_of(MOVES)

    def stop() -> None:
        raise Signal

    cluster.at[0.5] = stop
    emitted: list[Event] = []
    with pytest.raises(Signal):
        Executor(MOVES, {}, cluster, OPTIONS, emitted.append, cluster.clock).run()
    assert emitted[-2:] == [
        events.ThrottleRemoved(),
        events.LeftInProgress(2, "the run was interrupted"),
    ]
    assert cluster.configs.settings == {}
    result, _ = execute(cluster, MOVES)
    assert result.ok


CHANGES_OF_A_BATCH = [[""], ["t"], ["t"], [""]]


@pytest.mark.parametrize("number", range(1, 1 + len(CHANGES_OF_A_BATCH)))
def test_a_signal_during_a_change_of_the_throttle_removes_it(number: int) -> None:
    cluster = cluster_of(MOVES[:2])
    execute(cluster, MOVES[:2])
    assert cluster.configs.changes == CHANGES_OF_A_BATCH
    cluster = cluster_of(MOVES[:2])
    cluster.configs.fails_at[number] = Signal()
    with pytest.raises(Signal):
        Executor(MOVES[:2], {}, cluster, OPTIONS, lambda _: None, cluster.clock).run()
    assert cluster.configs.settings == {}
