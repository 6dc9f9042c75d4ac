"""confluent_kafka.Consumer, in a group whose partitions are assigned by the racks of leaders.

librdkafka takes no assignors but its own. So kafka-python joins the group, with ours, and
confluent's consumer, of which this is a subclass, is assigned the partitions to read. To an
application the two are one: methods, callbacks, errors and threads are confluent's.

The parts, each with one job:

- :mod:`~assignors.confluent.member` is the group member, in threads of its own;
- :mod:`~assignors.confluent.events` are its events for the application;
- :mod:`~assignors.confluent.polling` handles them in the thread that polls;
- :mod:`~assignors.confluent.assignment` calls the callbacks and assigns the partitions;
- :mod:`~assignors.confluent.commits` commits offsets through the member;
- :mod:`~assignors.confluent.statistics` completes the statistics for ``stats_cb``.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from assignors.confluent.assignment import PartitionAssignment, RebalanceCallback
from assignors.confluent.client_logs import log_event
from assignors.confluent.commits import OffsetCommitter
from assignors.confluent.config import (
    collects_statistics,
    group_metadata,
    librdkafka_config,
    merge_arguments,
    read_configuration,
    validate,
)
from assignors.confluent.coordinator import PatternError, parse_subscription
from assignors.confluent.events import (
    CommitResult,
    Event,
    EventQueue,
    FatalEvent,
    LogEvent,
    RebalanceEvent,
    RebalanceKind,
    kafka_exception,
)
from assignors.confluent.internals import check_clients, check_group_metadata
from assignors.confluent.member import GroupMember
from assignors.confluent.oauth import share_oauth_callback
from assignors.confluent.polling import WAKE_UP_TOPIC, NativeConsumer, Poller, PollTimeout, Ticker
from assignors.confluent.statistics import Statistics, completed
from assignors.library_internals import UnsupportedClientError

if TYPE_CHECKING:
    from assignors.group_leader.history import Assignment

LEAVE_TIMEOUT = 6.0
"""Seconds that ``close`` waits for the threads of the membership."""

_NOT_GIVEN: Any = object()


class Consumer(confluent_kafka.Consumer):
    """confluent's Consumer with one of our assignors as ``partition.assignment.strategy``.

    The strategy is ``leader-rack-aware-cooperative-sticky`` or ``leader-rack-aware-range``. The
    rack of the consumer is ``client.rack``, or what :mod:`assignors.rack_discovery` finds.
    Everything else is as confluent documents it. Connection properties may have Java's names too.

    The constructor raises what confluent's raises. For properties that are valid for confluent and
    not supported here (another strategy, ``group.protocol=consumer``) it raises KafkaException with
    ``_INVALID_ARG``; if an installed client lacks an internal that this class relies on,
    UnsupportedClientError.
    """

    _initialized = False
    _closed = True
    """Also before ``__init__``: every method then raises confluent's own RuntimeError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        properties = merge_arguments(args, kwargs)
        if self._initialized or properties is None or "group.id" not in properties:
            # Raises; without arguments another error than with an empty dictionary of these.
            super().__init__(*args, **kwargs) if kwargs else super().__init__(*args)
            return
        if properties["group.id"] in (None, ""):
            # librdkafka would abort the process.
            raise ValueError("Failed to create consumer: group.id must be set")
        validate(properties)
        share_oauth_callback(properties)
        config = librdkafka_config(properties, _commit_callback(weakref.ref(self)))
        if collects_statistics(properties):
            config["stats_cb"] = completed(properties["stats_cb"], _statistics(weakref.ref(self)))
        super().__init__(config)
        try:
            check_clients()
            check_group_metadata(cast(bytes, super().consumer_group_metadata()))
            configuration = read_configuration(properties, os.environ)
        except (KafkaException, UnsupportedClientError):
            # A callback of the application may raise, which is not why this fails.
            with suppress(Exception):
                super().close()
            raise
        self._configuration = configuration
        self._events = EventQueue()
        self._events.on_put = _event_callback(weakref.ref(self))
        self._native = NativeConsumer(cast(confluent_kafka.Consumer, super()))
        self._member = GroupMember(configuration, self._events)
        overrides_poll = type(self).poll is not Consumer.poll
        self._poller = Poller(
            self._native,
            self._events,
            PollTimeout(configuration.max_poll_interval_ms / 1000),
            handle=self._handle,
            is_idle=self._is_idle,
            fast_poll_target=None if overrides_poll else self.__dict__,
        )
        self._committer = OffsetCommitter(
            self._native,
            self._poller.unreturned,
            configuration,
            self._member,
            report=self._events.put,
        )
        self._assignment = PartitionAssignment(
            self._native,
            self._committer,
            cooperative=configuration.cooperative,
            joined_cooperatively=self._joined_cooperatively,
            offset_reset=configuration.offset_reset,
        )
        self._statistics = Statistics(
            self._member,
            self._assignment,
            self._committer,
            read_committed=configuration.kafka_python["isolation_level"] == "read_committed",
        )
        self._ticker = Ticker(self, configuration.group_id)
        weakref.finalize(self, _abandon, self._member, self._ticker).atexit = False
        if configuration.auto_commit:
            self._ticker.start()
        self._initialized = True
        self._closed = False

    # ---- reading

    def poll(self, timeout: float = -1) -> Message | None:
        """See confluent_kafka.Consumer.poll."""
        if self._closed or self._poller.is_fast(timeout):
            return super().poll(timeout)
        return self._poller.poll(timeout)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """See confluent_kafka.Consumer.consume."""
        if self._closed:
            return super().consume(num_messages, timeout)
        return self._poller.consume(num_messages, timeout)

    def seek(self, partition: TopicPartition) -> None:
        """See confluent_kafka.Consumer.seek."""
        if self._closed:
            return super().seek(partition)
        return self._committer.seek(partition)

    # ---- the subscription

    def subscribe(
        self,
        topics: list[str],
        on_assign: RebalanceCallback | None = _NOT_GIVEN,
        on_revoke: RebalanceCallback | None = _NOT_GIVEN,
        on_lost: RebalanceCallback | None = _NOT_GIVEN,
    ) -> None:
        """See confluent_kafka.Consumer.subscribe."""
        callbacks: dict[str, Any] = {
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
            or not all(callable(callback) for callback in callbacks.values())
        ):
            return super().subscribe(topics, **callbacks)  # Raises.
        if self._member.is_fenced:
            raise kafka_exception(KafkaError._FATAL, "Failed to set subscription")
        try:
            subscription = parse_subscription(names, self._configuration.ignored_topics)
        except PatternError as error:
            code = KafkaError._INVALID_ARG
            raise kafka_exception(code, "Failed to set subscription") from error
        self._assignment.callbacks = {
            kind: callbacks[name]
            for kind, name in (
                (RebalanceKind.ASSIGN, "on_assign"),
                (RebalanceKind.REVOKE, "on_revoke"),
                (RebalanceKind.LOST, "on_lost"),
            )
            if name in callbacks
        }
        self._poller.timeout.polled(time.monotonic())
        self._member.subscribe(subscription)
        self._poller.disable_fast_poll()
        self._ticker.start()
        return None

    def unsubscribe(self) -> None:
        """See confluent_kafka.Consumer.unsubscribe."""
        super().unsubscribe()
        if not self._closed:
            self._member.unsubscribe()

    # ---- the assignment

    def assignment(self) -> list[TopicPartition]:
        """See confluent_kafka.Consumer.assignment. Does not wait for a poll in another thread."""
        return super().assignment() if self._closed else self._native.assignment()

    def assign(self, partitions: list[TopicPartition]) -> None:
        """See confluent_kafka.Consumer.assign."""
        if self._closed:
            super().assign(partitions)
        else:
            self._assignment.assign(partitions)

    def unassign(self) -> None:
        """See confluent_kafka.Consumer.unassign."""
        if self._closed:
            super().unassign()
        else:
            self._assignment.unassign()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """See confluent_kafka.Consumer.incremental_assign."""
        if self._closed:
            super().incremental_assign(partitions)
        else:
            self._assignment.incremental_assign(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """See confluent_kafka.Consumer.incremental_unassign."""
        if self._closed:
            super().incremental_unassign(partitions)
        else:
            self._assignment.incremental_unassign(partitions)

    # ---- offsets

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
        """See confluent_kafka.Consumer.commit."""
        if self._closed:
            committed: list[TopicPartition] | None = super().commit(*args, **kwargs)
            return committed
        return self._committer.commit(*args, **kwargs)

    def store_offsets(
        self, message: Message | None = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """See confluent_kafka.Consumer.store_offsets."""
        if self._closed:
            super().store_offsets(message, offsets)
        else:
            self._committer.store_offsets(message, offsets)

    # ---- the member

    def memberid(self) -> str | None:  # type: ignore[override]
        """See confluent_kafka.Consumer.memberid."""
        return super().memberid() if self._closed else self._member.member_id or None

    def consumer_group_metadata(self) -> bytes:
        """See confluent_kafka.Consumer.consumer_group_metadata."""
        if self._closed:
            return cast(bytes, super().consumer_group_metadata())  # Raises.
        configuration = self._configuration
        generation, member_id = self._member.identity if self._member.is_subscribed else (-1, "")
        return group_metadata(
            configuration.group_id, generation, member_id, configuration.instance_id
        )

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """See confluent_kafka.Consumer.set_sasl_credentials."""
        super().set_sasl_credentials(username, password)
        if not self._closed:
            self._member.set_credentials(username, password)

    def last_assignment(self) -> Assignment | None:
        """Return the last assignment that this consumer made as the group leader.

        Not a method of confluent's. None if this consumer has not led. Works after ``close`` too.
        """
        return next(iter(self.assignments()), None)

    def assignments(self) -> tuple[Assignment, ...]:
        """Return the last assignment as a tuple, for :mod:`assignors.metrics`."""
        return self._member.assignments if self._initialized else ()

    # ---- closing

    def close(self) -> None:
        """Close as confluent does, after waiting for unanswered commits, a session timeout at most.

        Commits that are unanswered then are cancelled, with a warning and an error for
        ``on_commit``.
        """
        if self._closed:
            return super().close()
        self._poller.disable_fast_poll()
        self._ticker.stop(timeout=1.0)
        results: list[CommitResult] = []
        self._committer.report = results.append
        self._member.stop_joining()
        try:
            self._poller.handle_events()
            self._revoke_all()
        finally:
            self._committer.flush()
            try:
                for result in results:
                    self._committer.call_on_commit(result)
            finally:
                self._native.close()
                self._closed = True
                self._member.close(LEAVE_TIMEOUT)
                super().close()
        return None

    def __enter__(self) -> Self:
        """Return this consumer. confluent's has none before 2.13."""
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, exc_traceback: Any) -> None:
        """Close. confluent's own would call its own ``close``."""
        self.close()

    def _revoke_all(self) -> None:
        """Revoke all partitions: with the callback and the automatic commit."""
        if not self._member.is_subscribed:
            assigned = self._native.assignment()
            self._committer.on_revoke([(p.topic, p.partition) for p in assigned], lost=False)
            return
        done = threading.Event()
        kind = RebalanceKind.LOST if self._member.is_lost else RebalanceKind.REVOKE
        self._assignment.rebalance(RebalanceEvent(kind, None, lambda _: done.set()), self)
        done.wait(self._configuration.session_timeout)

    # ---- events

    def _handle(self, event: Event) -> None:
        if isinstance(event, RebalanceEvent):
            self._assignment.rebalance(event, self)
        elif isinstance(event, CommitResult):
            self._committer.call_on_commit(event)
        elif isinstance(event, FatalEvent):
            self._assignment.owned = None
            super().unassign()
        elif isinstance(event, LogEvent):
            # At close, an error of the logger must not prevent the last commits.
            with suppress(Exception) if self._events.closed else nullcontext():
                log_event(event, self._configuration)

    def _is_idle(self) -> bool:
        if not self._member.is_subscribed:
            return True
        return bool(self._assignment.owned) and self._member.is_stable

    def _joined_cooperatively(self) -> bool | None:
        return self._configuration.cooperative if self._member.has_joined else None

    def _tick(self, now: float) -> None:
        timeout, subscribed = self._poller.timeout, self._member.is_subscribed
        if subscribed and not self._poller.is_handling:
            overdue = timeout.overdue(now)
            if overdue is not None:
                self._member.on_poll_timeout(overdue)
        if subscribed and timeout.wake_up_due(now):
            # The next poll runs Python, which shows which thread polls now.
            self._poller.disable_fast_poll()
            self._poller.send_wake_up()
        elif self._events and not timeout.wake_up_pending:
            self._poller.send_wake_up()
        self._committer.auto_commit(now)
        if self._configuration.collects_statistics:
            self._statistics.observe(now)


def _commit_callback(
    reference: weakref.ref[Consumer],
) -> Callable[[KafkaError | None, list[TopicPartition]], None]:
    """Return librdkafka's ``on_commit``: for wake-ups, and for its own commits."""

    def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        consumer = reference()
        if consumer is None:
            return
        if partitions and partitions[0].topic == WAKE_UP_TOPIC:
            consumer._poller.on_wake_up()
        else:
            consumer._committer.on_native_commit(error, partitions)

    return on_commit


def _statistics(reference: weakref.ref[Consumer]) -> Callable[[], Statistics | None]:
    def statistics() -> Statistics | None:
        consumer = reference()
        return consumer._statistics if consumer is not None and consumer._initialized else None

    return statistics


def _event_callback(reference: weakref.ref[Consumer]) -> Callable[[], None]:
    """Return a callback for new events: the next poll, or the one in progress, handles them."""

    def on_put() -> None:
        consumer = reference()
        if consumer is not None:
            consumer._poller.disable_fast_poll()
            consumer._ticker.tick_now()

    return on_put


def _abandon(member: GroupMember, ticker: Ticker) -> None:
    ticker.stop()
    member.close()
