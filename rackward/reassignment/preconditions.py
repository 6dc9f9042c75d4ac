"""Whether a plan may still be carried out: the cluster, the topics, the brokers, the replicas.

What matters: another cluster; a topic that is gone, or made anew under its old name; replicas
that are neither as the plan saw them, nor as it wants them, nor on their way there; a broker
that is to hold replicas and is not live; a rack that changed, where the plan rests on racks.
What does not: who leads now, other topics, further brokers.
"""

from __future__ import annotations

from collections.abc import Iterator

from rackward.admin import ClusterState
from rackward.reassignment.plan import Plan, RacksFrom
from rackward.reassignment.plan_file import StalePlanError
from rackward.reassignment.status import Phase, phase_of


def check_current(source: str, plan: Plan, state: ClusterState, *, divert: bool = False) -> None:
    """Raise StalePlanError, naming the plan and what changed, where it may not be carried out.

    ``state`` must hold the topics of the plan and what is under way in them. ``divert`` permits
    partitions that another reassignment has taken away from what the plan saw.
    """
    if plan.cluster_id and state.cluster_id and plan.cluster_id != state.cluster_id:
        raise StalePlanError(
            f"{source} was made for the cluster {plan.cluster_id}, and this is "
            f"{state.cluster_id}: name the brokers of the right one"
        )
    changes = tuple(_changes(plan, state, divert))
    if changes:
        more = len(changes) - 1
        raise StalePlanError(
            f"the cluster has changed since {source} was made: {changes[0]}"
            + (f" (and {more} more change{'s' if more > 1 else ''})" if more else "")
            + ": plan again",
            changes,
        )


def _changes(plan: Plan, state: ClusterState, divert: bool) -> Iterator[str]:
    gone = set()
    for topic, seen in plan.topic_ids.items():
        if topic not in state.topic_ids:
            gone.add(topic)
            yield f"the topic {topic} is gone"
        elif seen and state.topic_ids[topic] and state.topic_ids[topic] != seen:
            gone.add(topic)
            yield f"the topic {topic} was deleted and made anew"
    outstanding: set[int] = set()
    for planned in plan.moves:
        move = planned.move
        if move.partition.topic in gone:
            continue
        name = f"{move.partition.topic}-{move.partition.partition}"
        phase = phase_of(move, state)
        if phase is Phase.TO_DO or (phase is Phase.DIVERTED and divert):
            outstanding.update(move.after)
        elif phase is Phase.GONE:
            yield f"there is no partition {name} any more"
        elif phase is Phase.ELSEWHERE:
            now = _listed(state.view.replicas[move.partition])
            yield f"{name} is on brokers {now}, and was on {_listed(move.before)}"
        elif phase is Phase.DIVERTED:
            to = _listed(state.ongoing[move.partition].target)
            yield f"{name} is being reassigned to brokers {to} by somebody else"
    yield from _broker_changes(plan, state, outstanding)


def _broker_changes(plan: Plan, state: ClusterState, outstanding: set[int]) -> Iterator[str]:
    racks = state.view.racks()
    for broker in sorted(outstanding):
        if broker not in racks:
            yield f"broker {broker}, which is to hold replicas, is not live"
        elif plan.racks_from is RacksFrom.METADATA and (racks[broker] or None) != plan.brokers.get(
            broker
        ):
            was, now = plan.brokers.get(broker) or "none", racks[broker] or "none"
            yield f"broker {broker} stands in rack {now}, and stood in {was}"


def _listed(brokers: tuple[int, ...]) -> str:
    return ", ".join(map(str, brokers))
