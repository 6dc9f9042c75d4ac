"""Check a plan against the cluster before its run, and find what is left of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from placement_core import ClusterView, RackwardError, TopicPartition
from placement_core.cluster import Move
from rackward.kafka import AdminConnection, AdminError, ClusterState, read_partition_sizes
from rackward.reassignment.executor import ExecutionOptions, LiveCluster
from rackward.reassignment.plan import Plan, PlanFileError, PlannedChange, RackSource
from rackward.reassignment.progress import PartitionState, partition_state, partition_states
from rackward.reassignment.throttle import ThrottleSettings
from rackward.units import format_brokers, format_bytes, format_count, format_list


class ForeignReassignmentError(RackwardError):
    """Reassignments that are not the plan's are in progress."""


class ThrottleOwnedError(RackwardError):
    """Another run of rackward has set a throttle."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """The part of a change that is not completed, and the number of partitions by state.

    ``throttle`` is what is set in the cluster, if replicas are to be copied.
    """

    change: PlannedChange
    completed: int
    in_progress: int
    throttle: ThrottleSettings


def prepare_run(
    change: PlannedChange,
    cluster: LiveCluster,
    check: Callable[[ClusterState], None],
    options: ExecutionOptions,
) -> PreparedRun:
    """Read the state of a change's partitions.

    ``check`` raises an error if the change does not fit the state of its topics. Raises that
    error, ForeignReassignmentError unless ``allow_foreign``, ThrottleOwnedError unless
    ``allow_foreign`` or ``adopt_throttle``, and AdminError.
    """
    topics = sorted({move.partition.topic for move in change.moves})
    state, reassignments = cluster.describe(topics)
    check(state)
    states = partition_states(change.moves, state)
    count = Counter(states.values())
    if not options.allow_foreign:
        _check_no_foreign_reassignments(
            tp for tp in reassignments if states.get(tp) is not PartitionState.IN_PROGRESS
        )
    left = tuple(
        move for move in change.moves if states[move.partition] is not PartitionState.COMPLETED
    )
    throttle = ThrottleSettings()
    if any(move.adding for move in left):
        throttle = cluster.throttle.read_all()
        if not (options.allow_foreign or options.adopt_throttle):
            _check_no_throttle_of_a_run(throttle, count[PartitionState.IN_PROGRESS])
    # Moves in progress are part of the change: the view shows them as not started.
    before = {move.partition: move.before for move in left}
    view = replace(change.view, replicas={**change.view.replicas, **before})
    return PreparedRun(
        replace(change, view=view, moves=left),
        completed=count[PartitionState.COMPLETED],
        in_progress=count[PartitionState.IN_PROGRESS],
        throttle=throttle,
    )


def _check_no_foreign_reassignments(partitions: Iterable[TopicPartition]) -> None:
    foreign = [f"{topic}-{number}" for topic, number in sorted(partitions)]
    if foreign:
        raise ForeignReassignmentError(
            f"{format_count(len(foreign), 'reassignment')} not of this plan "
            f"{'is' if len(foreign) == 1 else 'are'} in progress ({format_list(foreign, 3)}): "
            "wait, cancel with rackward placement cancel, or run beside them with --additional"
        )


def _check_no_throttle_of_a_run(throttle: ThrottleSettings, in_progress: int) -> None:
    """Raise ThrottleOwnedError if a run of rackward has set a throttle.

    The cluster does not tell a run that goes on from one that was killed.
    """
    if not throttle.default.markers:
        return
    rates = {marker.rate for marker in throttle.default.markers}
    shown = ", ".join(f"{format_bytes(rate)}/s" for rate in sorted(rates))
    raise ThrottleOwnedError(
        f"another run of rackward has set a throttle of {shown} "
        f"({format_count(in_progress, 'partition')} of this plan in progress): wait for it, or run "
        "beside it with --additional. If it was killed, adopt its throttle with --adopt-throttle, "
        "or remove it with rackward placement throttle --remove"
    )


def moves_to_target(
    source: str, target: Mapping[TopicPartition, tuple[int, ...]], state: ClusterState
) -> tuple[Move, ...]:
    """Return the moves from the present replicas to those of ``target``, sorted.

    Replicas that a reassignment in progress is adding do not count as present. Raises
    PlanFileError, which names ``source``, for partitions and brokers that the cluster does not
    have.
    """
    live, moves = state.view.racks(), []
    for tp, after in sorted(target.items()):
        name = f"{tp.topic}-{tp.partition}"
        replicas = state.view.replicas.get(tp)
        if replicas is None:
            raise PlanFileError(f"{source}: the cluster has no partition {name}: remove it")
        if unknown := [broker for broker in after if broker not in live]:
            raise PlanFileError(
                f"{source}: {name} has a replica on broker {unknown[0]}, which is not live: the "
                f"cluster has {format_brokers(live)}"
            )
        reassignment = state.reassignments.get(tp)
        moves.append(Move(tp, reassignment.original if reassignment else replicas, after))
    return tuple(moves)


def read_leader_sizes(
    admin: AdminConnection, view: ClusterView, moves: Iterable[Move]
) -> dict[TopicPartition, int]:
    """Return the bytes on the leader of each partition to copy, as far as brokers report them."""
    try:
        return read_partition_sizes(admin, view, [move.partition for move in moves if move.adding])
    except AdminError:
        return {}


# ---- Whether a plan still fits the cluster.
#
# A plan is stale if the cluster is another one, a topic was deleted (and maybe created again), the
# replicas of a partition are neither those that the plan saw nor its target nor on their way there,
# a broker that shall get replicas is not live, or its rack has changed and the plan depends on it.
# Other leaders, other topics and additional brokers do not matter.


class StalePlanError(RackwardError):
    """A plan does not fit the cluster.

    ``changes`` holds everything that changed, a line each; the message has the first.
    """

    def __init__(self, message: str, changes: tuple[str, ...] = ()) -> None:
        self.changes = changes
        super().__init__(message)


def check_preconditions(
    source: str, plan: Plan, state: ClusterState, *, allow_other_target: bool = False
) -> None:
    """Raise StalePlanError, which names ``source`` and the change, if the plan is stale.

    ``state`` must contain the topics of the plan and their reassignments in progress. With
    ``allow_other_target``, partitions that are being reassigned to another target do not count.
    """
    if plan.cluster_id and state.cluster_id and plan.cluster_id != state.cluster_id:
        raise StalePlanError(
            f"{source} was made for the cluster {plan.cluster_id}, and this is "
            f"{state.cluster_id}: check --bootstrap-server"
        )
    changes = tuple(_changes(plan, state, allow_other_target))
    if changes:
        more = len(changes) - 1
        raise StalePlanError(
            f"the cluster has changed since {source} was made: {changes[0]}"
            + (f" (and {more} more change{'s' if more > 1 else ''})" if more else "")
            + ": make a new plan",
            changes,
        )


def _changes(plan: Plan, state: ClusterState, allow_other_target: bool) -> Iterator[str]:
    deleted = set()
    for topic, planned_id in plan.topic_ids.items():
        if topic not in state.topic_ids:
            deleted.add(topic)
            yield f"topic {topic} was deleted"
        elif planned_id and state.topic_ids[topic] and state.topic_ids[topic] != planned_id:
            deleted.add(topic)
            yield f"topic {topic} was deleted and created again"
    receiving: set[int] = set()
    for move in plan.moves:
        if move.partition.topic in deleted:
            continue
        name = f"{move.partition.topic}-{move.partition.partition}"
        match partition_state(move, state):
            case PartitionState.NOT_STARTED:
                receiving.update(move.after)
            case PartitionState.OTHER_TARGET if allow_other_target:
                receiving.update(move.after)
            case PartitionState.OTHER_TARGET:
                target = state.reassignments[move.partition].target
                yield f"{name} is being reassigned to {format_brokers(target)}"
            case PartitionState.DELETED:
                yield f"partition {name} was deleted"
            case PartitionState.UNEXPECTED:
                replicas = state.view.replicas[move.partition]
                yield f"{name} is on {format_brokers(replicas)}, and was on " + (
                    format_brokers(move.before)
                )
    yield from _broker_changes(plan, state, receiving)


def _broker_changes(plan: Plan, state: ClusterState, receiving: set[int]) -> Iterator[str]:
    racks = state.view.racks()
    for broker in sorted(receiving):
        if broker not in racks:
            yield f"broker {broker}, a target of the plan, is not live"
        elif plan.rack_source is RackSource.METADATA:
            before, now = plan.racks.get(broker) or "none", racks[broker] or "none"
            if before != now:
                yield f"broker {broker} is in rack {now}, and was in {before}"
