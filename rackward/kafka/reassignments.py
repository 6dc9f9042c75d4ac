"""Reassigning replicas, cancelling that, and electing preferred leaders.

A trap of Kafka 4.3: if a partition under reassignment gets a new target that lacks a broker which
was being added, that broker is listed as both adding and removing, and the reassignment never
completes. So a target is never replaced: the reassignment in progress is cancelled first.
Cancelling restores the former replicas, but in the order of the target; restoring their former
order takes another reassignment, which copies nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from placement_core import TopicPartition
from rackward.kafka.client import AdminConnection
from rackward.kafka.errors import ELECTION_NOT_NEEDED, AdminError, from_code
from rackward.kafka.metadata import batches, by_topic

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
