"""What groups have committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placement_core import TopicPartition
from rackward.admin.connection import AdminConnection
from rackward.admin.deadline import Deadline
from rackward.admin.errors import AdminError, TooOldError
from rackward.admin.refusals import refusal

Committed = dict[str, dict[TopicPartition, int]]
"""Group to partition to the next offset that it would read."""

_SEVERAL = 8
"""The version from which one request may ask for several groups."""
_BY_NAME = 9
"""The last version that calls topics by name."""


def read_committed(
    admin: AdminConnection, broker: int, ids: Sequence[str], deadline: Deadline | None = None
) -> tuple[Committed, dict[str, AdminError]]:
    """The committed offsets of groups that ``broker`` coordinates, of all their topics.

    One request, or one for each group where brokers are older than Kafka 3.0. Offsets of
    transactions that are still open do not count. The second value has group to error for
    those that the broker refused. Raises AdminError.
    """
    from kafka.protocol.consumer.group import OffsetFetchRequest

    doing = f"reading committed offsets of broker {broker}'s groups"
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    several = OffsetFetchRequest(
        groups=[of_group(group_id=each, topics=None) for each in ids],
        require_stable=False,
        min_version=_SEVERAL,
        max_version=_BY_NAME,
    )
    found: Committed = {}
    refused: dict[str, AdminError] = {}
    try:
        answers = admin.ask(doing, several, node=broker, deadline=deadline).groups
    except TooOldError:
        for each in ids:
            one = OffsetFetchRequest(group_id=each, topics=None, max_version=_SEVERAL - 1)
            answer = admin.ask(doing, one, node=broker, deadline=deadline)
            _take(each, answer, found, refused)
    else:
        for answer in answers:
            _take(answer.group_id, answer, found, refused)
    return found, refused


def _take(group: str, answer: Any, found: Committed, refused: dict[str, AdminError]) -> None:
    if answer.error_code:
        refused[group] = refusal(
            f"reading committed offsets of group {group}",
            "OffsetFetch",
            answer.error_code,
            needs=f"Describe on group {group} and on its topics",
        )
        return
    found[group] = {
        TopicPartition(topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }
