"""Creating topics and adding partitions, each replica where it was planned; and seeing it done.

Requests may be sent twice, where the first answer was lost on its way. So an answer that says
"exists already" is not believed at once: what the brokers then tell of the layout decides.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placement_core import ReplicaLists, TopicPartition
from rackward.admin.client import AdminConnection
from rackward.admin.errors import TOPIC_EXISTS, AdminError, Deadline, refusal
from rackward.admin.metadata import ClusterState, milliseconds, read_state

_INVALID_PARTITIONS = 37
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """Partitions to make: those of a new topic, or (``first`` above 0) more of an old one.

    ``rows`` are their replica lists in order of their numbers, the preferred leader first;
    ``configs`` are settings of a new topic. ``made`` are the lists that the cluster is asked for,
    where these are others: it takes no placeholders, and no shorter lists than a topic has.
    """

    topic: str
    rows: ReplicaLists
    first: int = 0
    configs: Mapping[str, str] = field(default_factory=dict)
    made: ReplicaLists | None = None

    @property
    def asked(self) -> ReplicaLists:
        """The lists that the cluster is asked for."""
        return self.rows if self.made is None else self.made

    @property
    def layout(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Partition to replicas, as the cluster is asked for them."""
        return {
            TopicPartition(self.topic, number): row
            for number, row in enumerate(self.asked, self.first)
        }


def make_partitions(
    admin: AdminConnection, wanted: Sequence[NewPartitions], *, validate_only: bool = False
) -> dict[str, AdminError]:
    """Ask the controller for all of them; topic to error, for those that it refused.

    With ``validate_only`` it checks them and makes nothing. Either all are new topics or all
    are more partitions of old ones. It may take a moment until brokers know what was made, and
    a topic that existed may have been made by this very call: see `await_layout`.

    Raises AdminError where the controller does not answer.
    """
    deadline = admin.deadline()
    names = ", ".join(each.topic for each in wanted[:3]) + (", ..." if len(wanted) > 3 else "")
    if wanted[0].first:
        request = _add(wanted, validate_only, deadline)
        answers = admin.ask_controller(f"adding partitions to {names}", request, deadline).results
        doing, lost = "adding partitions to {}", _INVALID_PARTITIONS
    else:
        request = _create(wanted, validate_only, deadline)
        answers = admin.ask_controller(f"creating {names}", request, deadline).topics
        doing, lost = "creating topic {}", TOPIC_EXISTS
    return {
        answer.name: refusal(
            doing.format(answer.name), request.name, answer.error_code, answer.error_message
        )
        for answer in answers
        if answer.error_code and (validate_only or answer.error_code != lost)
    }


def default_shape(
    admin: AdminConnection, topic: str, configs: Mapping[str, str]
) -> tuple[int, int] | None:
    """The partitions and the replication factor that the cluster itself would give ``topic``.

    None where it does not tell them to this user. Nothing is created. Raises AdminError, also
    where the topic could not be created.
    """
    from kafka.protocol.admin import CreateTopicsRequest as Request

    doing = f"creating topic {topic}"
    deadline = admin.deadline()
    asked = Request.CreatableTopic
    request = Request(
        topics=[
            asked(
                name=topic,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[],
                configs=[
                    asked.CreatableTopicConfig(name=key, value=value)
                    for key, value in configs.items()
                ],
            )
        ],
        timeout_ms=milliseconds(deadline),
        validate_only=True,
    )
    (answer,) = admin.ask_controller(doing, request, deadline).topics
    if answer.error_code:
        raise refusal(doing, request.name, answer.error_code, answer.error_message)
    partitions = getattr(answer, "num_partitions", -1)
    replicas = getattr(answer, "replication_factor", -1)
    return (partitions, replicas) if partitions > 0 and replicas > 0 else None


def await_layout(admin: AdminConnection, wanted: Sequence[NewPartitions]) -> dict[str, str]:
    """Wait until brokers tell of every partition with a leader; topic to what differs.

    Empty: the layout is exactly the one that was wanted. Raises AdminError where brokers do
    not answer.
    """
    deadline = admin.deadline()
    while True:
        state = read_state(
            admin, [each.topic for each in wanted], ongoing=False, deadline=admin.deadline()
        )
        faults = {each.topic: fault for each in wanted if (fault := _fault(each, state))}
        if not faults or not deadline.remaining:
            return faults
        time.sleep(_PAUSE_SECONDS)


def _fault(wanted: NewPartitions, state: ClusterState) -> str | None:
    layout = wanted.layout
    there = {place for place in state.view.replicas if place.topic == wanted.topic}
    if not there:
        return "no broker knows of it yet"
    if missing := sorted(layout.keys() - there):
        return f"partition {missing[0].partition} is missing"
    if len(there) != wanted.first + len(wanted.rows):
        return f"it has {len(there)} partitions, not {wanted.first + len(wanted.rows)}"
    for place, row in layout.items():
        found = state.view.replicas[place]
        # A controller may have begun to fill placeholders already.
        if found != row and not (wanted.made is not None and found[: len(row)] == row):
            return f"partition {place.partition} has replicas {list(found)}, not {list(row)}"
    if leaderless := sorted(layout.keys() - state.view.leaders.keys()):
        return f"partition {leaderless[0].partition} has no leader"
    return None


def _create(wanted: Sequence[NewPartitions], validate_only: bool, deadline: Deadline) -> Any:
    from kafka.protocol.admin import CreateTopicsRequest as Request

    topic = Request.CreatableTopic
    return Request(
        topics=[
            topic(
                name=each.topic,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    topic.CreatableReplicaAssignment(partition_index=number, broker_ids=list(row))
                    for number, row in enumerate(each.asked)
                ],
                configs=[
                    topic.CreatableTopicConfig(name=key, value=value)
                    for key, value in each.configs.items()
                ],
            )
            for each in wanted
        ],
        timeout_ms=milliseconds(deadline),
        validate_only=validate_only,
    )


def _add(wanted: Sequence[NewPartitions], validate_only: bool, deadline: Deadline) -> Any:
    from kafka.protocol.admin import CreatePartitionsRequest as Request

    topic = Request.CreatePartitionsTopic
    return Request(
        topics=[
            topic(
                name=each.topic,
                count=each.first + len(each.rows),
                assignments=[
                    topic.CreatePartitionsAssignment(broker_ids=list(row)) for row in each.asked
                ],
            )
            for each in wanted
        ],
        timeout_ms=milliseconds(deadline),
        validate_only=validate_only,
    )
