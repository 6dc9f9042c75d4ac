"""Partitions as confluent has them, and as they are kept here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    Message,
    TopicPartition,
)

from assignors.confluent.offsets import Place, Position

FROM_COMMITTED = (OFFSET_INVALID, OFFSET_STORED)
"""The offsets that mean: from where the group has committed, or else as auto.offset.reset says."""

_RESETS = {
    **dict.fromkeys(("smallest", "earliest", "beginning"), OFFSET_BEGINNING),
    **dict.fromkeys(("largest", "latest", "end"), OFFSET_END),
}


class FailedPartition(TopicPartition):
    """A partition of which confluent would tell an error, which only C can set on its own."""

    def __init__(self, place: Place, position: Position, code: int) -> None:
        super().__init__(*place, position.offset, **_more(position))
        self._failure = KafkaError(code)

    @property
    def error(self) -> KafkaError:  # type: ignore[override]
        """The error."""
        return self._failure


def are_partitions(partitions: object) -> bool:
    """Whether confluent would take it for a list of partitions."""
    return isinstance(partitions, list) and all(
        isinstance(partition, TopicPartition) for partition in partitions
    )


def place_of(partition: TopicPartition) -> Place:
    """Its topic and number."""
    return (partition.topic, partition.partition)


def places_of(partitions: Iterable[TopicPartition]) -> list[Place]:
    """Topic and number of each."""
    return [place_of(partition) for partition in partitions]


def position_of(partition: TopicPartition) -> Position:
    """Its offset, with what belongs to that."""
    epoch = partition.leader_epoch
    return Position(partition.offset, -1 if epoch is None else epoch, partition.metadata)


def partitions_at(positions: Mapping[Place, Position | None]) -> list[TopicPartition]:
    """Partitions with their offsets, sorted; OFFSET_INVALID where there is none."""
    return [
        TopicPartition(*place, OFFSET_INVALID)
        if position is None
        else TopicPartition(*place, position.offset, **_more(position))
        for place, position in sorted(positions.items())
    ]


def started(
    partitions: list[TopicPartition], committed: Mapping[Place, Position] | None, reset: str
) -> list[TopicPartition]:
    """The partitions with the offsets to start at, as far as these are known here.

    ``reset`` is auto.offset.reset; with "error", librdkafka finds out that there is no offset.
    """
    if committed is None:
        return partitions
    otherwise = _RESETS.get(reset.lower(), OFFSET_INVALID)
    found = []
    for each in partitions:
        at = committed.get(place_of(each), Position(otherwise))
        known = each.offset in FROM_COMMITTED and at.offset != OFFSET_INVALID
        found += partitions_at({place_of(each): at}) if known else [each]
    return found


def with_errors(
    partitions: Iterable[TopicPartition], codes: Mapping[Place, int]
) -> list[TopicPartition]:
    """The partitions, with the errors of those that have a code."""
    told = [(each, codes.get(place_of(each), 0)) for each in partitions]
    return [
        FailedPartition(place_of(each), position_of(each), code) if code else each
        for each, code in told
    ]


def after(message: Message) -> TopicPartition:
    """The offset to commit once ``message`` is done with."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    epoch = message.leader_epoch()
    return TopicPartition(topic, partition, offset + 1, leader_epoch=-1 if epoch is None else epoch)


def _more(position: Position) -> dict[str, Any]:
    # The constructor does not take None for either.
    more: dict[str, Any] = {"leader_epoch": position.leader_epoch}
    return more if position.metadata is None else {**more, "metadata": position.metadata}
