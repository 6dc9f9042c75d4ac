"""Partitions that come and go: the application's callbacks, and librdkafka's assignment.

What confluent does on a rebalance is done here on a step of the inbox: the callback is called,
and if it did not assign or unassign anything itself, that is done for it, as a whole where the
group is eager and incrementally where it is cooperative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from assignors.confluent.errors import failure
from assignors.confluent.events import Change, Step
from assignors.confluent.offsets import Place, Position
from assignors.confluent.polling import PollingConsumer

# ---- Partitions as confluent has them, and as they are kept here.

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


Rebalanced = Callable[[Any, list[TopicPartition]], object]

_EAGER = (
    "Changes to the current assignment must be made using assign() when rebalance protocol type"
    " is EAGER"
)


class AssigningConsumer(PollingConsumer):
    """A consumer whose partitions are the group's."""

    def _begin_assigning(self, cooperative: bool, reset: str) -> None:
        self._cooperative = cooperative
        self._reset = reset
        self._held: set[Place] | None = None
        self._on: dict[Change, Rebalanced] = {}
        self._step: Step | None = None
        self._assigned_by_user = False
        self._going: list[Future[Any]] = []

    # ---- what subclasses say

    def _let_go(self, places: list[Place], *, lost: bool) -> None:
        """Partitions are about to leave librdkafka's assignment."""
        raise NotImplementedError

    def _taken(self, partitions: list[TopicPartition]) -> None:
        """Partitions were added to librdkafka's assignment."""
        raise NotImplementedError

    def _protocol(self) -> bool | None:
        """Whether the group is cooperative; None before it is known."""
        raise NotImplementedError

    # ---- what the application calls

    def assignment(self) -> list[TopicPartition]:
        """As confluent's; without waiting for a poll in another thread to end."""
        found: list[TopicPartition] = self._enter(super().assignment)
        return found

    def assign(self, partitions: list[TopicPartition]) -> None:
        """As confluent's."""
        if not are_partitions(partitions):
            return super().assign(partitions)  # Which raises.
        # What is refused counts as well: confluent does not then assign what the group gave.
        self._assigned_by_user = True
        self._check_whole("Failed to set assignment")
        self._let_go(self._places_assigned(), lost=self._losing)
        super().assign(self._started(partitions))
        return self._taken(partitions)

    def unassign(self) -> None:
        """As confluent's."""
        self._assigned_by_user = True
        self._check_whole("Failed to remove assignment")
        self._let_go(self._places_assigned(), lost=self._losing)
        super().unassign()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """As confluent's."""
        if not are_partitions(partitions):
            return super().incremental_assign(partitions)  # Which raises.
        self._assigned_by_user = True
        self._check_incremental()
        super().incremental_assign(self._started(partitions))
        return self._taken(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """As confluent's."""
        if not are_partitions(partitions):
            return super().incremental_unassign(partitions)  # Which raises.
        self._assigned_by_user = True
        self._check_incremental()
        there = set(self._places_assigned())
        if there.issuperset(places := places_of(partitions)):
            self._let_go(places, lost=self._losing)
        return super().incremental_unassign(partitions)

    # ---- a step

    def _take_step(self, step: Step) -> None:
        """Call the application's callback, and do what it left to be done."""
        places = self._told(step)
        if places is None:
            step.finish(True)
            return
        partitions = [TopicPartition(topic, partition) for topic, partition in places]
        self._step, self._assigned_by_user = step, False
        try:
            callback = self._on.get(step.change)
            if callback is None and step.change is Change.LOSE:
                callback = self._on.get(Change.REVOKE)
            if callback is not None:
                callback(self, partitions)
        finally:
            try:
                if not self._assigned_by_user and not self._closed:
                    self._change(step.change, places)
            finally:
                self._step = None
                self._record(step.change, places)
                self._finish(step)

    def _told(self, step: Step) -> list[Place] | None:
        """The partitions of a step as the application knows them; None: nothing to tell."""
        if step.change is Change.ASSIGN:
            return sorted(set(step.places or ()) - (self._held or set()))
        if self._held is None:
            return None
        if step.places is not None:
            return sorted(self._held.intersection(step.places))
        # A cooperative member that has nothing is not told that it gives up nothing.
        return sorted(self._held) if self._held or not self._cooperative else None

    def _change(self, change: Change, places: list[Place]) -> None:
        partitions = [TopicPartition(topic, partition) for topic, partition in places]
        if change is Change.ASSIGN:
            if self._cooperative:
                super().incremental_assign(self._started(partitions))
            else:
                self._let_go(self._places_assigned(), lost=False)
                super().assign(self._started(partitions))
            self._taken(partitions)
        elif self._cooperative:
            there = set(self._places_assigned())
            going = [place for place in places if place in there]
            self._let_go(going, lost=change is Change.LOSE)
            super().incremental_unassign([TopicPartition(*place) for place in going])
        else:
            self._let_go(self._places_assigned(), lost=change is Change.LOSE)
            super().unassign()

    def _record(self, change: Change, places: list[Place]) -> None:
        if change is Change.ASSIGN:
            self._held = (self._held or set()).union(places)
        elif self._cooperative and change is Change.REVOKE:
            self._held = (self._held or set()).difference(places)
        else:
            self._held = None

    def _finish(self, step: Step) -> None:
        """End the step when what was let go is committed, for others to read on from there."""
        going, self._going = self._going, []
        left = [step, *going]

        def one(_: object) -> None:
            left.pop()
            if not left:
                step.finish(True)

        for commit in going:
            commit.add_done_callback(one)
        one(None)

    # ---- how

    def _started(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """With what the step that is being taken knows of where to start."""
        committed = None if self._step is None else self._step.committed
        return started(partitions, committed, self._reset)

    @property
    def _losing(self) -> bool:
        return self._step is not None and self._step.change is Change.LOSE

    def _places_assigned(self) -> list[Place]:
        return places_of(self.assignment())

    def _check_whole(self, doing: str) -> None:
        if self._protocol() is True:
            raise failure(KafkaError._STATE, doing)

    def _check_incremental(self) -> None:
        if self._protocol() is False:
            raise KafkaException(KafkaError(KafkaError._STATE, _EAGER))
