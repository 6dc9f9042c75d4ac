"""Asking the controller to move replicas, to put them in another order, or to stop moving them.

A trap (Kafka 4.3): a partition that is on its way and is given another target, from which a
broker that it was adding is absent, adds and removes that broker at the same time and never
arrives. So a target is never replaced: the reassignment under way is cancelled first. Cancelling
leaves the right brokers, but in the order of the target and not in the former one; whoever
wants that back asks for it afterwards, which copies nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from placement_core import TopicPartition
from rackward.admin.client import AdminConnection
from rackward.admin.errors import ELECTION_NOT_NEEDED, AdminError, refusal
from rackward.admin.metadata import batches, milliseconds

AT_ONCE = 1000
"""Partitions in one request: a controller takes some thousand changes at a time."""


def reassign(
    admin: AdminConnection, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, AdminError]:
    """Ask for these replica lists; None cancels what is under way. Returns what was refused.

    The rest has begun when this returns. Asking again for what was asked for already changes
    nothing. Raises AdminError where the controller does not answer, or takes no such request.
    """
    from kafka.protocol.admin import AlterPartitionReassignmentsRequest as Request

    topic, partition = Request.ReassignableTopic, Request.ReassignableTopic.ReassignablePartition
    refused: dict[TopicPartition, AdminError] = {}
    for places in batches(sorted(targets), AT_ONCE):
        asked: dict[str, list[object]] = {}
        for place in places:
            wanted = targets[place]
            asked.setdefault(place.topic, []).append(
                partition(
                    partition_index=place.partition,
                    replicas=None if wanted is None else list(wanted),
                )
            )
        deadline = admin.deadline()
        request = Request(
            timeout_ms=milliseconds(deadline),
            topics=[topic(name=name, partitions=each) for name, each in asked.items()],
        )
        doing = "reassigning partitions"
        answer = admin.ask_controller(doing, request, deadline)
        if answer.error_code:
            raise refusal(doing, request.name, answer.error_code, answer.error_message)
        for found in answer.responses:
            for each in found.partitions:
                if each.error_code:
                    place = TopicPartition(found.name, each.partition_index)
                    verb = "cancelling" if targets[place] is None else "reassigning"
                    refused[place] = refusal(
                        f"{verb} {place.topic}-{place.partition}",
                        request.name,
                        each.error_code,
                        each.error_message,
                    )
    return refused


# ---- Letting preferred replicas lead.

ELECTIONS_AT_ONCE = 1000
_PREFERRED = 0


def elect_preferred(
    admin: AdminConnection, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, AdminError]:
    """Ask for the first replica of each to lead. Returns what was refused: one that is not in
    sync, say. Raises AdminError where the controller does not answer, or takes no such request.
    """
    from kafka.protocol.admin import ElectLeadersRequest as Request

    refused: dict[TopicPartition, AdminError] = {}
    for places in batches(sorted(partitions), ELECTIONS_AT_ONCE):
        asked: dict[str, list[int]] = {}
        for place in places:
            asked.setdefault(place.topic, []).append(place.partition)
        deadline = admin.deadline()
        request = Request(
            election_type=_PREFERRED,
            topic_partitions=list(asked.items()),
            timeout_ms=milliseconds(deadline),
        )
        doing = "electing preferred leaders"
        answer = admin.ask_controller(doing, request, deadline)
        if answer.error_code:
            raise refusal(doing, request.name, answer.error_code)
        for topic in answer.replica_election_results:
            for each in topic.partition_result:
                if each.error_code not in (0, ELECTION_NOT_NEEDED):
                    refused[TopicPartition(topic.topic, each.partition_id)] = refusal(
                        f"electing the preferred leader of {topic.topic}-{each.partition_id}",
                        request.name,
                        each.error_code,
                        each.error_message,
                    )
    return refused
