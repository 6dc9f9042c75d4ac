"""Reading a cluster: its brokers, its topics, and the reassignments under way.

One request serves all topics, or a thousand of those that are named, so that hundreds of
thousands of partitions take a handful of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from placement_core import Broker, TopicPartition
from rackward.admin.connection import AdminConnection
from rackward.admin.deadline import Deadline
from rackward.admin.errors import RefusedError, TooOldError
from rackward.admin.metadata import errors_of, state_of
from rackward.admin.refusals import UNKNOWN_TOPIC, refusal
from rackward.admin.state import ClusterState, Ongoing

Item = TypeVar("Item")

AT_ONCE = 1000
"""Topics that one request names."""


def read_state(
    admin: AdminConnection,
    topics: Collection[str] | None = None,
    *,
    internal: bool = True,
    ongoing: bool = True,
    deadline: Deadline | None = None,
) -> ClusterState:
    """The cluster now: brokers, live and fenced, and ``topics`` (None: all that may be seen).

    Named topics that do not exist are left out: see `check_topics`. ``internal`` False leaves
    out those that Kafka keeps for itself, ``ongoing`` False does not ask for reassignments
    (which takes Describe on the cluster). All questions together have ``deadline``.

    Raises AdminError.
    """
    until = deadline or admin.deadline()
    state = _topics(admin, topics, internal, until)
    state = _with_fenced(admin, state, until)
    return state.with_ongoing(read_ongoing(admin, until)) if ongoing else state


def check_topics(state: ClusterState, names: Iterable[str]) -> None:
    """Raise RefusedError, naming them, where some of the topics are not in the state."""
    if missing := sorted(set(names) - set(state.topic_ids)):
        several = len(missing) > 1
        named = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise RefusedError(
            f"the cluster has no topic{'s' if several else ''} {named} that this user may see: "
            "check the name",
            UNKNOWN_TOPIC,
            "UnknownTopicOrPartitionError",
        )


def read_ongoing(
    admin: AdminConnection, deadline: Deadline | None = None
) -> dict[TopicPartition, Ongoing]:
    """All reassignments under way. Raises AdminError."""
    from kafka.protocol.admin import ListPartitionReassignmentsRequest

    doing = "listing the reassignments under way"
    until = deadline or admin.deadline()
    request = ListPartitionReassignmentsRequest(timeout_ms=milliseconds(until), topics=None)
    answer = admin.ask_controller(doing, request, until)
    if answer.error_code:
        raise refusal(doing, request.name, answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): Ongoing(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def milliseconds(deadline: Deadline) -> int:
    """What is left, as requests take it; at least one."""
    return max(1, int(deadline.remaining * 1000))


def batches(items: Sequence[Item], size: int = AT_ONCE) -> Iterator[Sequence[Item]]:
    """The items, ``size`` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _topics(
    admin: AdminConnection, topics: Collection[str] | None, internal: bool, until: Deadline
) -> ClusterState:
    doing = "reading the topics"
    if topics is None:
        return state_of(admin.ask(doing, _request(None), deadline=until), internal=internal)
    parts = []
    for names in batches(sorted(set(topics))) if topics else [()]:
        answer = admin.ask(doing, _request(names), deadline=until)
        for name, code in errors_of(answer).items():
            if code != UNKNOWN_TOPIC:
                raise refusal(f"{doing}: {name}", "Metadata", code, needs=f"Describe on {name}")
        parts.append(state_of(answer, internal=internal))
    return _joined(parts)


def _request(names: Sequence[str] | None) -> Any:
    from kafka.protocol.metadata import MetadataRequest

    asked = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=None if names is None else [asked(name=name) for name in names],
        allow_auto_topic_creation=False,
    )


def _joined(parts: Sequence[ClusterState]) -> ClusterState:
    """States of different topics as one; the brokers are those of the last."""
    last = parts[-1]
    if len(parts) == 1:
        return last

    def union(of: Iterable[Mapping[Any, Any]]) -> dict[Any, Any]:
        return {key: value for each in of for key, value in each.items()}

    return replace(
        last,
        view=replace(
            last.view,
            replicas=union(part.view.replicas for part in parts),
            leaders=union(part.view.leaders for part in parts),
        ),
        in_sync=union(part.in_sync for part in parts),
        offline=union(part.offline for part in parts),
        topic_ids=union(part.topic_ids for part in parts),
        internal=frozenset().union(*(part.internal for part in parts)),
    )


def _with_fenced(admin: AdminConnection, state: ClusterState, until: Deadline) -> ClusterState:
    """With the brokers that are down, which Kafka tells from 4.0 on."""
    from kafka.protocol.admin import DescribeClusterRequest

    request = DescribeClusterRequest(include_fenced_brokers=True)
    try:
        answer = admin.ask("reading the brokers", request, deadline=until)
    except TooOldError:
        return state
    if answer.error_code:
        return state
    live = state.view.racks()
    gone = sorted(
        (each for each in answer.brokers if each.broker_id not in live),
        key=lambda broker: broker.broker_id,
    )
    return replace(
        state,
        cluster_id=state.cluster_id or answer.cluster_id,
        fenced=tuple(Broker(each.broker_id, each.rack or None) for each in gone),
        addresses={**state.addresses, **{b.broker_id: f"{b.host}:{b.port}" for b in gone}},
    )
