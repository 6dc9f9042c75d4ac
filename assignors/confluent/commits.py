"""Offsets: what the application stores and commits, and what is committed for it.

Commits of a member go through its membership, with its generation. Those of a consumer that
subscribes to nothing are librdkafka's own, as there is no generation that could be past.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Literal, overload

from confluent_kafka import KafkaError, Message, TopicPartition

from assignors.confluent.assignment import (
    FROM_COMMITTED,
    AssigningConsumer,
    after,
    are_partitions,
    partitions_at,
    place_of,
    places_of,
    position_of,
    with_errors,
)
from assignors.confluent.config import Configuration
from assignors.confluent.errors import CommitError, failure
from assignors.confluent.events import Committed
from assignors.confluent.member import Membership, Result
from assignors.confluent.offsets import OffsetBook, Place, Position

_ARGUMENTS = ("message", "offsets", "async", "asynchronous")
_DOING = "Commit failed"


class CommittingConsumer(AssigningConsumer):
    """A consumer that commits in the name of its membership."""

    def _begin_committing(self, configuration: Configuration, membership: Membership) -> None:
        self._configuration = configuration
        self._membership = membership
        self._book = OffsetBook(configuration.auto_offset_store)
        self._report: Callable[[Committed], object] = self._inbox.put
        self._offered: dict[Place, Position] = {}
        self._offers = 0
        self._next_auto_commit = time.monotonic() + configuration.auto_commit_interval

    # ---- what the application calls

    @overload  # type: ignore[override]
    def commit(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        *,
        asynchronous: Literal[False],
    ) -> list[TopicPartition]: ...

    @overload
    def commit(self, *args: Any, **kwargs: Any) -> list[TopicPartition] | None: ...

    def commit(self, *args: Any, **kwargs: Any) -> list[TopicPartition] | None:
        """As confluent's: ``commit(message=None, offsets=None, asynchronous=True)``."""
        told = _told(args, kwargs)
        if told is None or self._closed or not self._membership.engaged:
            committed: list[TopicPartition] | None = super().commit(*args, **kwargs)
            if committed is not None:
                self._note(committed)
            return committed
        partitions = self._to_commit(*told[:2])
        if told[2]:
            self._commit_and_tell(partitions)
            return None
        result = self._begin_commit(partitions).result()
        code = result.code if isinstance(result, CommitError) else _overall(result)
        if code:
            raise failure(code, _DOING)
        assert not isinstance(result, CommitError)
        return with_errors(partitions, result)

    def store_offsets(
        self, message: Message | None = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """As confluent's."""
        super().store_offsets(message, offsets)
        if message is not None:
            offsets = [after(message)]
        there = set(self._places_assigned())
        for partition in offsets or ():
            place = place_of(partition)
            if place in there:
                self._book.store(place, position_of(partition))

    def seek(self, partition: TopicPartition) -> None:
        """As confluent's."""
        if not isinstance(partition, TopicPartition):
            return super().seek(partition)
        place = place_of(partition)
        before = self._positions([place])[place]
        super().seek(partition)
        if before is not None and self._configuration.auto_offset_store:
            self._book.store(place, before)
        return None

    # ---- what others in this thread call

    def _let_go(self, places: list[Place], *, lost: bool) -> None:
        if not places:
            return
        if self._configuration.auto_commit and not lost and not self._membership.lost:
            stored = self._book.stored(self._positions(places))
            if stored:
                commit = self._commit_and_tell(partitions_at(stored), last=True)
                if self._step is not None:
                    self._going.append(commit)
        self._book.forget(places)
        self._book.lost_sight(places)

    def _taken(self, partitions: list[TopicPartition]) -> None:
        self._book.forget(places_of(partitions))
        # Where reading starts from what is committed, commits begin beyond it.
        committed = (self._step and self._step.committed) or {}
        begun = {place_of(each) for each in partitions if each.offset in FROM_COMMITTED}
        self._book.committed({place: committed[place] for place in begun & committed.keys()})

    def _tell_of_commit(self, committed: Committed) -> None:
        if self._configuration.on_commit is not None:
            self._configuration.on_commit(committed.error, committed.partitions)

    # ---- what the pulse calls

    def _auto_commit(self, now: float) -> None:
        """Commit what is stored, if it is time to and no rebalance is on its way."""
        settings = self._configuration
        if not settings.auto_commit or not settings.auto_commit_interval:
            return
        if now < self._next_auto_commit:
            return
        self._next_auto_commit = now + settings.auto_commit_interval
        if self._membership.engaged and not self._membership.stable:
            return
        due = self._book.due(self._positions(self._places_assigned()))
        if due and self._membership.engaged:
            self._commit_and_tell(partitions_at(due))
        elif due != self._offered:
            # librdkafka knows what is committed, and so whether there is anything to do.
            self._offered = due
            self._offers += 1
            commit = super().commit
            self._enter(lambda: commit(asynchronous=True))

    def _hear_of_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """librdkafka's own commits; one that found nothing to do is told if it was asked for."""
        if error is None:
            self._note(partitions)
        offered, self._offers = self._offers, max(0, self._offers - 1)
        if not (offered and error is not None and error.code() == KafkaError._NO_OFFSET):
            self._tell_of_commit(Committed(error, partitions))

    # ---- how

    def _positions(self, places: Collection[Place]) -> dict[Place, Position | None]:
        """Up to where the application has been given records; None: it has none yet."""
        if not places:
            return {}
        asked = [TopicPartition(*place) for place in places]
        position = super().position
        with self._unreturned.positions(places) as unreturned:
            found = self._enter(lambda: position(asked))
        return {
            place_of(each): unreturned.get(place_of(each))
            or (position_of(each) if each.offset >= 0 else None)
            for each in found
        }

    def _to_commit(
        self, message: Message | None, offsets: list[TopicPartition] | None
    ) -> list[TopicPartition]:
        if message is not None:
            return [after(message)]
        if offsets is not None:
            return list(offsets)
        places = sorted(self._places_assigned())
        if places and self._membership.lost:
            raise failure(KafkaError._ASSIGNMENT_LOST, _DOING)
        due = self._book.due(self._positions(places))
        return partitions_at({place: due.get(place) for place in places})

    def _begin_commit(
        self, partitions: list[TopicPartition], *, last: bool = False
    ) -> Future[Result]:
        """Have the membership commit what is an offset."""
        future: Future[Result] = Future()
        offsets = {place_of(each): position_of(each) for each in partitions if each.offset >= 0}

        def then(result: Result) -> None:
            if not isinstance(result, CommitError):
                self._book.committed({p: offsets[p] for p, code in result.items() if not code})
            future.set_result(result)

        if self._membership.fenced:
            future.set_result(CommitError(KafkaError._FATAL))
        elif not offsets:
            future.set_result(CommitError(KafkaError._NO_OFFSET))
        else:
            self._membership.commit(offsets, self._configuration.session_timeout, then, last=last)
        return future

    def _commit_and_tell(
        self, partitions: list[TopicPartition], *, last: bool = False
    ) -> Future[Any]:
        """Commit, and let ``on_commit`` hear of it."""
        if not self._membership.engaged:
            commit = super().commit
            self._enter(lambda: commit(offsets=partitions, asynchronous=True))
            nothing: Future[Any] = Future()
            nothing.set_result(None)
            return nothing
        future = self._begin_commit(partitions, last=last)

        def tell(_: Future[Result]) -> None:
            result = future.result()
            code = result.code if isinstance(result, CommitError) else _overall(result)
            codes = {} if isinstance(result, CommitError) else result
            error = KafkaError(code) if code else None
            self._report(Committed(error, with_errors(partitions, codes)))

        if self._configuration.on_commit is not None:
            future.add_done_callback(tell)
        return future

    def _note(self, partitions: Iterable[TopicPartition]) -> None:
        """Keep in mind what librdkafka committed."""
        self._book.committed(
            {
                place_of(each): position_of(each)
                for each in partitions
                if each.offset >= 0 and each.error is None
            }
        )


def _overall(codes: Mapping[Place, int]) -> int:
    """The error of a commit as a whole: the last partition's where all have failed, else none."""
    return list(codes.values())[-1] if codes and all(codes.values()) else 0


def _told(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Message | None, list[TopicPartition] | None, bool] | None:
    """The arguments of a commit; None where confluent would raise, which is left to it."""
    named = dict(zip(_ARGUMENTS, args, strict=False))
    if len(args) > len(_ARGUMENTS) or named.keys() & kwargs.keys():
        return None
    named.update(kwargs)
    if not named.keys() <= set(_ARGUMENTS):
        return None
    message, offsets = named.get("message"), named.get("offsets")
    if message is not None and (offsets is not None or type(message) is not Message):
        return None
    if message is not None and message.error() is not None:
        return None
    if offsets is not None and not are_partitions(offsets):
        return None
    return message, offsets, bool(named.get("asynchronous", named.get("async", True)))
