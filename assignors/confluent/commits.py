"""Commits of offsets in the name of a member, so that brokers refuse those of past generations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError
from kafka import errors as kafka_errors
from kafka.protocol.consumer import OffsetCommitRequest
from kafka.util import Timer

from assignors.confluent.coordinator import GroupCoordinator
from assignors.confluent.errors import code_of
from assignors.confluent.offsets import Place, Position

BACKOFF = 0.1
"""Seconds before a commit is tried again."""

_ASK_AGAIN = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
}
_TRY_AGAIN = {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, *_ASK_AGAIN}


class CommitError(Exception):
    """A commit that no broker answered; ``code`` is confluent's."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


async def commit_offsets(
    coordinator: GroupCoordinator,
    offsets: Mapping[Place, Position],
    patience: float,
    *,
    last: bool,
) -> dict[Place, int]:
    """Commit ``offsets``, and return the error code of each partition (0: none).

    What passes is tried again for ``patience`` seconds. A rebalance, too, if this is the ``last``
    commit of partitions that are given up: who holds them through a rebalance is their owner in
    the generation that comes of it, and the next owner begins where this commit ends. Otherwise
    it is told, as librdkafka tells of it. Raises CommitError.
    """
    timer = Timer(patience * 1000)
    problem = KafkaError._WAIT_COORD
    while True:
        if await coordinator.ensure_coordinator_ready_async(timeout_ms=timer.timeout_ms):
            node = coordinator.coordinator()
            member = coordinator.member
            request = _request(coordinator, member, offsets)
            try:
                sent = coordinator.manager.send(request, node_id=node)
                response = await coordinator.manager.wait_for(sent, timer.timeout_ms)
            except kafka_errors.KafkaError as error:
                problem = code_of(error)
                coordinator.send_failed(node, request, error)
            else:
                codes = _codes(response)
                passes = _TRY_AGAIN | (_moved_on(coordinator, member) if last else set())
                if not passes.intersection(codes.values()):
                    coordinator.commit_answered(member, set(codes.values()))
                    return codes
                problem = next(code for code in codes.values() if code in passes)
                if problem in _ASK_AGAIN:
                    coordinator.coordinator_dead(KafkaError(problem).str())
        if timer.expired:
            raise CommitError(problem)
        await coordinator.net.sleep(BACKOFF)


def overall(codes: Mapping[Place, int]) -> int:
    """The error of a commit as a whole: the last partition's where all have failed, else none."""
    return list(codes.values())[-1] if codes and all(codes.values()) else 0


def _moved_on(coordinator: GroupCoordinator, member: tuple[int, str]) -> set[int]:
    """The errors that say no more than that a rebalance took place meanwhile."""
    generation, member_id = coordinator.member
    joined_on = member_id == member[1] and generation > member[0] and not coordinator.is_lost
    return {KafkaError.REBALANCE_IN_PROGRESS, *([KafkaError.ILLEGAL_GENERATION] * joined_on)}


def _request(
    coordinator: GroupCoordinator, member: tuple[int, str], offsets: Mapping[Place, Position]
) -> Any:
    generation, member_id = member
    topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
    partition_type = topic_type.OffsetCommitRequestPartition
    topics: dict[str, list[Any]] = {}
    for (topic, partition), position in offsets.items():
        topics.setdefault(topic, []).append(
            partition_type(
                partition_index=partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata or "",
            )
        )
    return OffsetCommitRequest(
        max_version=8,
        group_id=coordinator.group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=coordinator.group_instance_id,
        topics=[topic_type(name=name, partitions=each) for name, each in topics.items()],
    )


def _codes(response: Any) -> dict[Place, int]:
    return {
        (topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }
