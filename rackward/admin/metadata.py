"""Reading a cluster: its brokers, its topics, and the reassignments under way.

One request serves all topics, or a thousand of those that are named, so that hundreds of
thousands of partitions take a handful of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from placement_core import Broker, ClusterView, TopicPartition
from rackward.admin.client import AdminConnection
from rackward.admin.errors import UNKNOWN_TOPIC, Deadline, RefusedError, TooOldError, refusal

# ---- A cluster at one moment, as its brokers tell it.

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Ongoing:
    """A reassignment under way: all ``replicas`` now, those to come and those to go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas at the end, in order."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a cluster's metadata says; empty where nobody asked for it.

    cluster_id
        None where the brokers do not tell.
    view
        Live brokers, replicas and present leaders of the topics asked for.
    in_sync
        Per partition, the replicas in sync, in the brokers' order.
    offline
        Partition to the replicas that are away, or on a broken disk; only where there are any.
    fenced
        Brokers that the cluster knows and that are not live.
    addresses
        Broker id to ``host:port``, of live and of fenced ones.
    topic_ids
        Topic to its id, which a new topic of the same name does not have; None from brokers
        before Kafka 2.8.
    internal
        Topics that Kafka keeps for itself.
    ongoing
        Reassignments under way.
    """

    cluster_id: str | None
    view: ClusterView
    in_sync: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    offline: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    fenced: tuple[Broker, ...] = ()
    addresses: Mapping[int, str] = field(default_factory=dict)
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)
    internal: frozenset[str] = frozenset()
    ongoing: Mapping[TopicPartition, Ongoing] = field(default_factory=dict)

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics, sorted."""
        return tuple(sorted(self.topic_ids))

    def with_ongoing(self, ongoing: Mapping[TopicPartition, Ongoing]) -> ClusterState:
        """With those of the reassignments that are of its own topics."""
        known = self.view.replicas
        return replace(
            self, ongoing={place: each for place, each in ongoing.items() if place in known}
        )

    def only(self, topics: Collection[str]) -> ClusterState:
        """The same, of these topics alone."""
        chosen = frozenset(topics)

        def of(found: Mapping[TopicPartition, Value]) -> dict[TopicPartition, Value]:
            return {place: each for place, each in found.items() if place.topic in chosen}

        return replace(
            self,
            view=replace(
                self.view,
                replicas=of(self.view.replicas),
                leaders=of(self.view.leaders),
            ),
            in_sync=of(self.in_sync),
            offline=of(self.offline),
            topic_ids={name: each for name, each in self.topic_ids.items() if name in chosen},
            internal=self.internal & chosen,
            ongoing=of(self.ongoing),
        )


# ---- The answer to a metadata request, as values. Any version from 4 on; no I/O.

NO_LEADER = -1
_NO_ID = "00000000-0000-0000-0000-000000000000"


def state_of(answer: Any, *, internal: bool = True) -> ClusterState:
    """The state that a MetadataResponse of kafka-python holds.

    Topics with an error (unknown, not allowed, being deleted) are left out, and those that
    Kafka keeps for itself where ``internal`` is False.
    """
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    leaders: dict[TopicPartition, int] = {}
    in_sync: dict[TopicPartition, tuple[int, ...]] = {}
    offline: dict[TopicPartition, tuple[int, ...]] = {}
    topic_ids: dict[str, str | None] = {}
    kept: set[str] = set()
    for topic in sorted(answer.topics, key=lambda topic: str(topic.name)):
        if topic.error_code or (topic.is_internal and not internal):
            continue
        name = topic.name
        topic_ids[name] = _id(topic)
        if topic.is_internal:
            kept.add(name)
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index):
            place = TopicPartition(name, partition.partition_index)
            replicas[place] = tuple(partition.replica_nodes)
            in_sync[place] = tuple(partition.isr_nodes)
            if partition.leader_id > NO_LEADER:
                leaders[place] = partition.leader_id
            if away := getattr(partition, "offline_replicas", None):
                offline[place] = tuple(away)
    brokers = sorted(answer.brokers, key=lambda broker: broker.node_id)
    return ClusterState(
        cluster_id=getattr(answer, "cluster_id", None),
        view=ClusterView(
            brokers=tuple(Broker(each.node_id, each.rack or None) for each in brokers),
            replicas=replicas,
            leaders=leaders,
        ),
        in_sync=in_sync,
        offline=offline,
        addresses={each.node_id: f"{each.host}:{each.port}" for each in brokers},
        topic_ids=topic_ids,
        internal=frozenset(kept),
    )


def errors_of(answer: Any) -> dict[str, int]:
    """Topic to error code, for the topics of a MetadataResponse that have one."""
    return {topic.name: topic.error_code for topic in answer.topics if topic.error_code}


def _id(topic: Any) -> str | None:
    found = getattr(topic, "topic_id", None)
    return None if found is None or str(found) == _NO_ID else str(found)


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
