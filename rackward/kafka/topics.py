"""Topics and their replicas: creating, adding partitions, reassigning, electing leaders.

A request may be sent twice if its first response was lost. So an error that a topic exists, or has
these partitions already, is ignored here: the layout that brokers return afterwards decides whether
the request succeeded, see `wait_for_layout`.

A trap of Kafka 4.3: if a partition under reassignment gets a new target that lacks a broker which
was being added, that broker is listed as both adding and removing, and the reassignment never
completes. So a target is never replaced: the reassignment in progress is cancelled first.
Cancelling restores the former replicas, but in the order of the target; restoring their former
order takes another reassignment, which copies nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    ElectLeadersRequest,
)

from placement_core import ReplicaLists, TopicPartition
from rackward.kafka.client import AdminConnection
from rackward.kafka.errors import (
    ELECTION_NOT_NEEDED,
    INVALID_PARTITIONS,
    TOPIC_EXISTS,
    AdminError,
    from_code,
)
from rackward.kafka.metadata import ClusterState, batches, by_topic, read_state

_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """Partitions to create: all of a new topic, or (``first_partition`` > 0) more of an old one.

    ``replicas`` are their replica lists in order of their numbers, the preferred leader first;
    they may end in placeholders. ``configs`` are settings of a new topic. ``without_placeholders``
    are the lists to send to the cluster where they differ from ``replicas``: Kafka accepts no
    placeholders, and no lists that are shorter than those of the topic's other partitions.
    """

    topic: str
    replicas: ReplicaLists
    first_partition: int = 0
    configs: Mapping[str, str] = field(default_factory=dict)
    without_placeholders: ReplicaLists | None = None

    @property
    def requested(self) -> ReplicaLists:
        """The replica lists that are sent to the cluster."""
        return self.replicas if self.without_placeholders is None else self.without_placeholders

    @property
    def layout(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Partition to its requested replicas."""
        return {
            TopicPartition(self.topic, partition): row
            for partition, row in enumerate(self.requested, self.first_partition)
        }


def create_partitions(
    admin: AdminConnection, new: Sequence[NewPartitions], *, validate_only: bool = False
) -> dict[str, AdminError]:
    """Create all of them through the controller; return topic to error for the refused ones.

    ``new`` are either all new topics or all more partitions of old ones. With ``validate_only``
    the controller checks them and creates nothing. Brokers may need a moment to return the new
    partitions, and a topic that exists may have been created by this very call: see
    `wait_for_layout`. Raises AdminError if the controller does not respond.
    """
    timeout_ms = admin.deadline().remaining_ms
    names = ", ".join(each.topic for each in new[:3]) + (", ..." if len(new) > 3 else "")
    if new[0].first_partition:
        topic = CreatePartitionsRequest.CreatePartitionsTopic
        request: Any = CreatePartitionsRequest(
            topics=[
                topic(
                    name=each.topic,
                    count=each.first_partition + len(each.replicas),
                    assignments=[
                        topic.CreatePartitionsAssignment(broker_ids=list(row))
                        for row in each.requested
                    ],
                )
                for each in new
            ],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )
        response = admin.send_to_controller(f"adding partitions to {names}", request)
        results, operation = response.results, "adding partitions to {}"
        done_before = INVALID_PARTITIONS
    else:
        request = CreateTopicsRequest(
            topics=[_creatable_topic(each.topic, each.requested, each.configs) for each in new],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )
        response = admin.send_to_controller(f"creating {names}", request)
        results, operation = response.topics, "creating topic {}"
        done_before = TOPIC_EXISTS
    return {
        each.name: from_code(
            operation.format(each.name), request.name, each.error_code, each.error_message
        )
        for each in results
        if each.error_code and (validate_only or each.error_code != done_before)
    }


def read_topic_defaults(
    admin: AdminConnection, topic: str, configs: Mapping[str, str]
) -> tuple[int, int] | None:
    """Return the partition count and replication factor that the cluster would give ``topic``.

    None if it does not return them to this user. Nothing is created. Raises AdminError, also if
    the topic could not be created.
    """
    operation = f"creating topic {topic}"
    request = CreateTopicsRequest(
        topics=[_creatable_topic(topic, [], configs)],
        timeout_ms=admin.deadline().remaining_ms,
        validate_only=True,
    )
    (result,) = admin.send_to_controller(operation, request).topics
    if result.error_code:
        raise from_code(operation, request.name, result.error_code, result.error_message)
    partitions = getattr(result, "num_partitions", -1)
    replication_factor = getattr(result, "replication_factor", -1)
    if partitions <= 0 or replication_factor <= 0:
        return None
    return partitions, replication_factor


def wait_for_layout(admin: AdminConnection, new: Sequence[NewPartitions]) -> dict[str, str]:
    """Wait until brokers return all partitions, as requested and with a leader.

    Returns topic to what differs when the time is up: nothing if the layout is exactly the
    requested one. Raises AdminError if brokers do not respond.
    """
    deadline = admin.deadline()
    while True:
        state = read_state(admin, [each.topic for each in new], reassignments=False)
        differences = {each.topic: text for each in new if (text := _difference(each, state))}
        if not differences or not deadline.remaining:
            return differences
        time.sleep(_POLL_SECONDS)


def _difference(new: NewPartitions, state: ClusterState) -> str | None:
    """Return how the cluster differs from the requested layout, None if it does not."""
    layout = new.layout
    existing = {tp for tp in state.view.replicas if tp.topic == new.topic}
    if not existing:
        return "the brokers do not return it yet"
    if missing := sorted(layout.keys() - existing):
        return f"partition {missing[0].partition} is missing"
    count = new.first_partition + len(new.replicas)
    if len(existing) != count:
        return f"it has {len(existing)} partitions, not {count}"
    for tp, row in layout.items():
        actual = state.view.replicas[tp]
        # A controller may have begun to fill placeholders already.
        filled = new.without_placeholders is not None and actual[: len(row)] == row
        if actual != row and not filled:
            return f"partition {tp.partition} has replicas {list(actual)}, not {list(row)}"
    if leaderless := sorted(layout.keys() - state.view.known_leaders.keys()):
        return f"partition {leaderless[0].partition} has no leader"
    return None


def _creatable_topic(
    name: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str]
) -> Any:
    """Return one topic of a CreateTopicsRequest; no ``replicas`` means the cluster's defaults."""
    topic = CreateTopicsRequest.CreatableTopic
    return topic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            topic.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(row))
            for partition, row in enumerate(replicas)
        ],
        configs=[
            topic.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
        ],
    )


# ---- Reassignments and elections.

_PREFERRED = 0


def reassign(
    admin: AdminConnection, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, AdminError]:
    """Start reassigning to these replica lists (None: cancel); return the refused partitions.

    The others are in progress when this returns. Requesting the present target again changes
    nothing. Raises AdminError if the controller does not respond or refuses the whole request.
    """
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    operation = "reassigning partitions"
    refused: dict[TopicPartition, AdminError] = {}
    for batch in batches(sorted(targets)):
        with admin.change(operation) as deadline:
            request = AlterPartitionReassignmentsRequest(
                timeout_ms=deadline.remaining_ms,
                topics=[
                    topic(
                        name=name,
                        partitions=[
                            topic.ReassignablePartition(
                                partition_index=number,
                                replicas=targets[TopicPartition(name, number)],
                            )
                            for number in numbers
                        ],
                    )
                    for name, numbers in by_topic(batch).items()
                ],
            )
            response = admin.send_to_controller(operation, request)
        if response.error_code:
            raise from_code(operation, request.name, response.error_code, response.error_message)
        for result in response.responses:
            for each in result.partitions:
                if each.error_code:
                    tp = TopicPartition(result.name, each.partition_index)
                    verb = "cancelling" if targets[tp] is None else "reassigning"
                    refused[tp] = from_code(
                        f"{verb} {tp.topic}-{tp.partition}",
                        request.name,
                        each.error_code,
                        each.error_message,
                    )
    return refused


def elect_preferred_leaders(
    admin: AdminConnection, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, AdminError]:
    """Elect the first replica of each partition; return the refused ones, such as those whose
    first replica is not in sync. Raises AdminError if the controller does not respond or refuses
    the whole request."""
    operation = "electing preferred leaders"
    refused: dict[TopicPartition, AdminError] = {}
    for batch in batches(sorted(partitions)):
        with admin.change(operation) as deadline:
            request = ElectLeadersRequest(
                election_type=_PREFERRED,
                topic_partitions=list(by_topic(batch).items()),
                timeout_ms=deadline.remaining_ms,
            )
            response = admin.send_to_controller(operation, request)
        if response.error_code:
            raise from_code(operation, request.name, response.error_code)
        for topic in response.replica_election_results:
            for each in topic.partition_result:
                if each.error_code not in (0, ELECTION_NOT_NEEDED):
                    refused[TopicPartition(topic.topic, each.partition_id)] = from_code(
                        f"electing the preferred leader of {topic.topic}-{each.partition_id}",
                        request.name,
                        each.error_code,
                        each.error_message,
                    )
    return refused
