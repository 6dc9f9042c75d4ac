"""Asking the controller to move replicas, to put them in another order, or to stop moving them.

A trap (Kafka 4.3): a partition that is on its way and is given another target, from which a
broker that it was adding is absent, adds and removes that broker at the same time and never
arrives. So a target is never replaced: the reassignment under way is cancelled first. Cancelling
leaves the right brokers, but in the order of the target and not in the former one; whoever
wants that back asks for it afterwards, which copies nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placement_core import TopicPartition
from rackward.admin.connection import AdminConnection
from rackward.admin.errors import AdminError
from rackward.admin.reads import batches, milliseconds
from rackward.admin.refusals import refusal

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
