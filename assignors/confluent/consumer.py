"""confluent_kafka.Consumer, in a group whose partitions are assigned by the racks of leaders.

librdkafka takes no assignors but its own. So kafka-python joins the group, with one of rackward's,
and confluent's consumer, of which this is a subclass, is assigned the partitions to read. To an
application the two are one: methods, callbacks, errors and threads are confluent's.

- :mod:`~assignors.confluent.member` is the group member, in threads of its own;
- :mod:`~assignors.confluent.events` are its events for the application;
- :mod:`~assignors.confluent.polling` handles them in the thread that polls;
- :mod:`~assignors.confluent.rebalance` calls the callbacks and assigns the partitions;
- :mod:`~assignors.confluent.commits` commits offsets through the member;
- :mod:`~assignors.confluent.statistics` completes the statistics for ``stats_cb``.
"""

from __future__ import annotations

import os
import re
import time
import weakref
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from assignors.confluent.commits import OffsetCommitter, keys_of
from assignors.confluent.config import (
    collects_statistics,
    group_metadata,
    librdkafka_config,
    merge_arguments,
    read_configuration,
    validate,
)
from assignors.confluent.coordinator import parse_subscription
from assignors.confluent.events import (
    Event,
    EventQueue,
    FatalEvent,
    RebalanceEvent,
    RebalanceKind,
    kafka_exception,
)
from assignors.confluent.internals import check_clients, check_group_metadata
from assignors.confluent.member import GroupMember
from assignors.confluent.polling import WAKE_UP_TOPIC, NativeConsumer, Poller, PollTimeout, Ticker
from assignors.confluent.rebalance import PartitionAssignment, RebalanceCallback
from assignors.confluent.statistics import Statistics
from assignors.connection.oauth import CALLBACK, SharedOAuthCallback
from assignors.library_internals import UnsupportedClientError

if TYPE_CHECKING:
    from confluent_kafka import DeserializingConsumer as _ConfluentDeserializingConsumer
    from typing_extensions import TypeVar

    from assignors.group_leader.history import Assignment

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import Generic, TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    _ConfluentDeserializingConsumer = confluent_kafka.DeserializingConsumer
    if not issubclass(_ConfluentDeserializingConsumer, Generic):  # Before confluent-kafka 2.16.

        class _ConfluentDeserializingConsumer(_ConfluentDeserializingConsumer, Generic[K, V]):
            pass


LEAVE_TIMEOUT = 6.0
"""Seconds that ``close`` waits for the threads of the membership."""

_NOT_GIVEN: Any = object()


class Consumer(confluent_kafka.Consumer):
    """confluent's Consumer with an assignor of rackward as ``partition.assignment.strategy``.

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
    _statistics: Statistics | None = None

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
        if callable(callback := properties.get(CALLBACK)):
            properties[CALLBACK] = SharedOAuthCallback(callback)
        config = librdkafka_config(properties, _weak(self._on_native_commit))
        if collects_statistics(properties):
            self._stats_cb = properties["stats_cb"]
            config["stats_cb"] = _weak(self._on_statistics)
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
        self._events.on_put = _weak(self._on_event)
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
            self._native, self._committer, configuration, self._member
        )
        if collects_statistics(properties):
            self._statistics = Statistics(
                configuration, self._member, self._assignment, self._committer
            )
        self._ticker = Ticker(self._tick, configuration.group_id)
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
        return super().seek(partition) if self._closed else self._committer.seek(partition)

    # ---- the subscription

    def subscribe(
        self,
        topics: list[str],
        on_assign: RebalanceCallback | None = _NOT_GIVEN,
        on_revoke: RebalanceCallback | None = _NOT_GIVEN,
        on_lost: RebalanceCallback | None = _NOT_GIVEN,
    ) -> None:
        """See confluent_kafka.Consumer.subscribe."""
        given: dict[str, Any] = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        callbacks = {name: call for name, call in given.items() if call is not _NOT_GIVEN}
        names = [str(topic) for topic in topics] if isinstance(topics, list) else []
        if (
            self._closed
            or not self._configuration.group_id
            or not all(names)
            or not 0 < len(names) == len(set(names))
            or not all(map(callable, callbacks.values()))
        ):
            return super().subscribe(topics, **callbacks)  # Raises.
        if self._member.is_fenced:
            raise kafka_exception(KafkaError._FATAL, "Failed to set subscription")
        try:
            subscription = parse_subscription(names, self._configuration.ignored_topics)
        except re.error as error:
            code = KafkaError._INVALID_ARG
            raise kafka_exception(code, "Failed to set subscription") from error
        self._assignment.callbacks = {
            kind: call for kind in RebalanceKind if (call := callbacks.get(f"on_{kind.value}"))
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
        return super().assign(partitions) if self._closed else self._assignment.assign(partitions)

    def unassign(self) -> None:
        """See confluent_kafka.Consumer.unassign."""
        return super().unassign() if self._closed else self._assignment.unassign()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """See confluent_kafka.Consumer.incremental_assign."""
        if self._closed:
            return super().incremental_assign(partitions)
        return self._assignment.incremental_assign(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """See confluent_kafka.Consumer.incremental_unassign."""
        if self._closed:
            return super().incremental_unassign(partitions)
        return self._assignment.incremental_unassign(partitions)

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
            return cast(None, super().commit(*args, **kwargs))  # Raises.
        return self._committer.commit(*args, **kwargs)

    def store_offsets(
        self, message: Message | None = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """See confluent_kafka.Consumer.store_offsets."""
        if self._closed:
            return super().store_offsets(message, offsets)
        return self._committer.store_offsets(message, offsets)

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
        reports: list[Callable[[], object]] = []
        self._committer.report = reports.append
        self._member.stop_joining()
        try:
            self._poller.handle_events()
            self._revoke_all()
        finally:
            self._committer.flush()
            try:
                for report in reports:
                    report()
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
            self._committer.on_revoke(keys_of(self._native.assignment()), lost=False)
            return
        kind = RebalanceKind.LOST if self._member.is_lost else RebalanceKind.REVOKE
        event = RebalanceEvent(kind, None)
        self._assignment.rebalance(event, self)
        wait([event.handled], self._configuration.session_timeout)

    # ---- events

    def _on_event(self) -> None:
        """Have the next poll, or the one in progress, handle an event."""
        self._poller.disable_fast_poll()
        self._ticker.tick_now()

    def _on_native_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Handle librdkafka's ``on_commit``, which is a wake-up or is of a commit of its own."""
        if partitions and partitions[0].topic == WAKE_UP_TOPIC:
            self._poller.on_wake_up()
        else:
            self._committer.on_native_commit(error, partitions)

    def _on_statistics(self, text: str) -> object:
        statistics = self._statistics
        return self._stats_cb(text if statistics is None else statistics.complete(text))

    def _handle(self, event: Event) -> None:
        if isinstance(event, RebalanceEvent):
            self._assignment.rebalance(event, self)
        elif isinstance(event, FatalEvent):
            self._assignment.owned = None
            super().unassign()
        else:
            event()

    def _is_idle(self) -> bool:
        if not self._member.is_subscribed:
            return True
        return bool(self._assignment.owned) and self._member.is_stable

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
        if self._statistics is not None:
            self._statistics.observe(now)


def _weak(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ``method`` as long as its consumer is in use.

    librdkafka and the threads of the membership keep what they are given.
    """
    reference = weakref.WeakMethod(method)

    def call(*arguments: Any) -> Any:
        alive = reference()
        return None if alive is None else alive(*arguments)

    return call


def _abandon(member: GroupMember, ticker: Ticker) -> None:
    ticker.stop()
    member.close()


class DeserializingConsumer(_ConfluentDeserializingConsumer[K, V], Consumer):  # type: ignore[misc]
    """confluent's DeserializingConsumer with :class:`Consumer` as its base.

    ``key.deserializer``, ``value.deserializer``, their builders and the errors are confluent's. As
    there, ``consume`` raises NotImplementedError. :class:`Consumer` describes all other properties.
    """
