"""Letting preferred replicas lead."""

from __future__ import annotations

from collections.abc import Collection

from placement_core import TopicPartition
from rackward.admin.connection import AdminConnection
from rackward.admin.errors import AdminError
from rackward.admin.reads import batches, milliseconds
from rackward.admin.refusals import ELECTION_NOT_NEEDED, refusal

AT_ONCE = 1000
_PREFERRED = 0


def elect_preferred(
    admin: AdminConnection, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, AdminError]:
    """Ask for the first replica of each to lead. Returns what was refused: one that is not in
    sync, say. Raises AdminError where the controller does not answer, or takes no such request.
    """
    from kafka.protocol.admin import ElectLeadersRequest as Request

    refused: dict[TopicPartition, AdminError] = {}
    for places in batches(sorted(partitions), AT_ONCE):
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
