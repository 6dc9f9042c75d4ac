"""confluent_kafka.Consumer, in a group that assigns by the racks of leaders.

librdkafka takes no assignors but its own. So the group is joined by kafka-python, with ours, and
confluent's consumer, which this is one of, is told what to read. To an application the two are
one: methods, callbacks, errors and the threads in which they come are confluent's.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from assignors.confluent.assignment import Rebalanced
from assignors.confluent.commits import CommittingConsumer
from assignors.confluent.config import (
    check_honoured,
    configuration,
    for_librdkafka,
    group_metadata,
    merged,
)
from assignors.confluent.coordinator import PatternError, subscription
from assignors.confluent.errors import failure
from assignors.confluent.events import Change, Committed, Event, Fatal, Inbox, Step
from assignors.confluent.member import Membership
from assignors.confluent.polling import KNOCK, Liveness, Pulse
from assignors.group_leader import Assignment, log
from assignors.group_leader.logs import some

LEAVE_PATIENCE = 6.0
"""Seconds for which ``close`` waits for the threads of the membership."""

_NOT_GIVEN: Any = object()


class Consumer(CommittingConsumer):
    """confluent's Consumer with ``partition.assignment.strategy`` one of ours.

    ``leader-rack-aware-cooperative-sticky`` or ``leader-rack-aware-range``; ``client.rack``, or
    what :mod:`assignors.rack_discovery` finds, says where this consumer runs. Everything else is as
    confluent documents it. Properties of connections may have Java's names as well.

    Raises what confluent's constructor raises; for what is confluent's and cannot be had here
    (another strategy beside ours, ``group.protocol=consumer``), KafkaException with
    ``_INVALID_ARG``.
    """

    _made = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        properties = merged(args, kwargs)
        if self._made or properties is None or "group.id" not in properties:
            super().__init__(*args, **kwargs)  # Which raises.
            return
        if properties["group.id"] in (None, ""):
            # confluent's own ends the process.
            raise ValueError("Failed to create consumer: group.id must be set")
        check_honoured(properties)
        super().__init__(for_librdkafka(properties, _dispatch(weakref.ref(self))))
        try:
            settings = configuration(properties, os.environ)
        except KafkaException:
            super().close()
            raise
        inbox = Inbox()
        membership = Membership(settings, inbox)
        self._pulse = Pulse(self, settings.group_id)
        self._begin_polling(inbox, Liveness(settings.max_poll_interval_ms / 1000))
        self._begin_assigning(settings.cooperative, settings.offset_reset)
        self._begin_committing(settings, membership)
        inbox.arrived = _arrival(weakref.ref(self))
        weakref.finalize(self, _abandon, membership, self._pulse).atexit = False
        if settings.auto_commit:
            self._pulse.start()
        self._made = True

    # ---- what the application calls

    def subscribe(
        self,
        topics: list[str],
        on_assign: Rebalanced | None = _NOT_GIVEN,
        on_revoke: Rebalanced | None = _NOT_GIVEN,
        on_lost: Rebalanced | None = _NOT_GIVEN,
    ) -> None:
        """As confluent's."""
        given: dict[str, Any] = {
            name: callback
            for name, callback in (
                ("on_assign", on_assign),
                ("on_revoke", on_revoke),
                ("on_lost", on_lost),
            )
            if callback is not _NOT_GIVEN
        }
        names = [str(topic) for topic in topics] if isinstance(topics, list) else []
        if (
            self._closed
            or not self._configuration.group_id
            or not all(names)
            or not 0 < len(names) == len(set(names))
            or not all(callable(callback) for callback in given.values())
        ):
            return super().subscribe(topics, **given)  # Which raises.
        if self._membership.fenced:
            raise failure(KafkaError._FATAL, "Failed to set subscription")
        try:
            wanted = subscription(names, self._configuration.ignored_topics)
        except PatternError as error:
            raise failure(KafkaError._INVALID_ARG, "Failed to set subscription") from error
        self._on = {
            change: given[name]
            for change, name in (
                (Change.ASSIGN, "on_assign"),
                (Change.REVOKE, "on_revoke"),
                (Change.LOSE, "on_lost"),
            )
            if name in given
        }
        self._liveness.answered(time.monotonic())
        self._membership.subscribe(wanted)
        self._unsettle()
        self._pulse.start()
        return None

    def unsubscribe(self) -> None:
        """As confluent's."""
        super().unsubscribe()
        if not self._closed:
            self._membership.unsubscribe()

    def memberid(self) -> str | None:  # type: ignore[override]
        """As confluent's."""
        if self._closed:
            return super().memberid()  # Which raises.
        return self._membership.member_id or None

    def consumer_group_metadata(self) -> bytes:
        """As confluent's, with the generation and the member of the group that was joined."""
        if self._closed:
            super().consumer_group_metadata()  # Which raises.
        settings = self._configuration
        generation, member = self._membership.member if self._membership.engaged else (-1, "")
        return group_metadata(settings.group_id, generation, member, settings.instance_id)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """As confluent's."""
        super().set_sasl_credentials(username, password)
        self._membership.new_credentials(username, password)

    def last_assignment(self) -> Assignment | None:
        """The last assignment that this consumer made as the leader of its group.

        Beyond confluent's surface; None where it has not led. Also after ``close``.
        """
        return next(iter(self.assignments()), None)

    def assignments(self) -> tuple[Assignment, ...]:
        """The same for :mod:`assignors.metrics`."""
        return self._membership.assignments if self._made else ()

    def close(self) -> None:
        """As confluent's: waits for the commits that are on their way, a session's time at most.

        What is not answered by then is given up, with a warning and, for ``on_commit``, an error.
        """
        if not self._made or self._closed:
            return super().close()
        self._unsettle()
        self._pulse.stop(patience=1.0)
        results: list[Committed] = []
        self._report = results.append
        self._membership.stop_joining()
        try:
            self._serve()
            self._give_up_all()
        finally:
            self._flush_commits()
            try:
                for committed in results:
                    self._tell_of_commit(committed)
            finally:
                with self._door:
                    self._closed = True
                self._membership.close(LEAVE_PATIENCE)
                super().close()
        return None

    def __enter__(self) -> Self:
        """The consumer."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        exc_traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    # ---- what the other parts call

    def _handle(self, event: Event) -> None:
        if isinstance(event, Step):
            self._take_step(event)
        elif isinstance(event, Committed):
            self._tell_of_commit(event)
        elif isinstance(event, Fatal):
            self._held = None
            confluent_kafka.Consumer.unassign(self)

    def _at_rest(self) -> bool:
        return not self._membership.engaged or (bool(self._held) and self._membership.stable)

    def _protocol(self) -> bool | None:
        return self._cooperative if self._membership.joined_once else None

    def _beat(self, now: float) -> None:
        engaged = self._membership.engaged
        if engaged and not self._serving.locked():
            late = self._liveness.overdue(now)
            if late is not None:
                self._membership.application_is_late(late)
        if engaged and self._liveness.should_knock(now):
            # The next call of poll looks in, and so tells which thread polls now.
            self._unsettle()
            self._knock()
        elif self._inbox and not self._liveness.waiting:
            self._knock()
        self._auto_commit(now)

    def _give_up_all(self) -> None:
        """Tell the application, commit for it, and read no more."""
        ended = threading.Event()
        change = Change.LOSE if self._membership.lost else Change.REVOKE
        if self._membership.engaged:
            self._take_step(Step(change, None, lambda _: ended.set()))
            ended.wait(self._configuration.session_timeout)
        else:
            self._let_go(self._places_assigned(), lost=False)

    def _flush_commits(self) -> None:
        patience = self._configuration.session_timeout
        left = self._membership.flush_commits(patience)
        if left:
            log.warning(
                "group %s: closed with %d commits that no broker answered in %.0f s: %s",
                self._configuration.group_id,
                len(left),
                patience,
                some(
                    [
                        f"{topic}-{partition} at {position.offset}"
                        for commit in left
                        for (topic, partition), position in commit.offsets.items()
                    ]
                ),
            )


def _dispatch(
    reference: weakref.ref[Consumer],
) -> Callable[[KafkaError | None, list[TopicPartition]], None]:
    """The on_commit that librdkafka calls: for knocks, and for its own commits."""

    def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        consumer = reference()
        if consumer is None:
            return
        if partitions and partitions[0].topic == KNOCK:
            consumer._answer()
        else:
            consumer._hear_of_commit(error, partitions)

    return on_commit


def _arrival(reference: weakref.ref[Consumer]) -> Callable[[], None]:
    def arrived() -> None:
        consumer = reference()
        if consumer is not None:
            consumer._unsettle()
            consumer._pulse.beat()

    return arrived


def _abandon(membership: Membership, pulse: Pulse) -> None:
    pulse.stop()
    membership.close()
