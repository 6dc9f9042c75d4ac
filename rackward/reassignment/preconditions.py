"""Whether a plan still fits the cluster.

A plan is stale if the cluster is another one, a topic was deleted (and maybe created again), the
replicas of a partition are neither those that the plan saw nor its target nor on their way there,
a broker that shall get replicas is not live, or its rack has changed and the plan depends on it.
Other leaders, other topics and additional brokers do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

from placement_core import RackwardError
from rackward.admin import ClusterState
from rackward.reassignment.plan import Plan, RackSource
from rackward.reassignment.status import PartitionState, partition_state
from rackward.units import format_brokers


class StalePlanError(RackwardError):
    """A plan does not fit the cluster.

    ``changes`` holds everything that changed, a line each; the message has the first.
    """

    def __init__(self, message: str, changes: tuple[str, ...] = ()) -> None:
        self.changes = changes
        super().__init__(message)


def check_preconditions(
    source: str, plan: Plan, state: ClusterState, *, allow_diverted: bool = False
) -> None:
    """Raise StalePlanError, which names ``source`` and the change, if the plan is stale.

    ``state`` must contain the topics of the plan and their reassignments in progress. With
    ``allow_diverted``, partitions that are being reassigned to another target do not count.
    """
    if plan.cluster_id and state.cluster_id and plan.cluster_id != state.cluster_id:
        raise StalePlanError(
            f"{source} was made for the cluster {plan.cluster_id}, and this is "
            f"{state.cluster_id}: check --bootstrap-server"
        )
    changes = tuple(_changes(plan, state, allow_diverted))
    if changes:
        more = len(changes) - 1
        raise StalePlanError(
            f"the cluster has changed since {source} was made: {changes[0]}"
            + (f" (and {more} more change{'s' if more > 1 else ''})" if more else "")
            + ": make a new plan",
            changes,
        )


def _changes(plan: Plan, state: ClusterState, allow_diverted: bool) -> Iterator[str]:
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
            case PartitionState.PENDING:
                receiving.update(move.after)
            case PartitionState.DIVERTED if allow_diverted:
                receiving.update(move.after)
            case PartitionState.DIVERTED:
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
            before, now = plan.brokers.get(broker) or "none", racks[broker] or "none"
            if before != now:
                yield f"broker {broker} is in rack {now}, and was in {before}"
