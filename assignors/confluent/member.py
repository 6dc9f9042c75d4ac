"""One member of the group: kafka-python's client and coordinator, driven by a thread.

The client is what `kafka.KafkaConsumer` would build from its parts, without the part that fetches.
One thread is kafka-python's event loop, which sends the heartbeats. The other one, here, connects
and drives the joins, which take as long as the group and the application take. Neither ever runs
code of the application, and no call of the application waits for a join or a connection: if no
server can be reached, the application gets librdkafka's errors, and the member goes on trying.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError
from kafka import errors as kafka_errors
from kafka.consumer.subscription_state import SubscriptionState
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager

from assignors.client_assignor import CooperativeStickyClientAssignor, RangeClientAssignor
from assignors.confluent.config import Configuration
from assignors.confluent.coordinator import GroupCoordinator, RebalanceSuperseded, Subscription
from assignors.confluent.events import (
    EventQueue,
    FatalEvent,
    PartitionKey,
    Position,
    error_code,
    error_message,
)
from assignors.confluent.logs import MEMBER_LOG_FILTER, MemberEventLoop
from assignors.connection.properties import Secret
from assignors.group_leader import format_error, format_traceback, log, sanitize
from assignors.kafka_python.commits import (
    REBALANCE_IN_PROGRESS,
    Commit,
    CommitResponse,
    MemberIdentity,
)
from assignors.kafka_python.fixes import install_log_filters

if TYPE_CHECKING:
    from assignors.group_leader.history import Assignment

JOIN_MS = 200
"""Milliseconds after which a thread that waits for a join checks for other work."""

IDLE_SECONDS = 1.0
"""Seconds between the checks of a stable member."""

JOIN_BACKOFF = 1.0
"""Seconds before a join is tried again after an error."""

MAX_LOG_MESSAGE = 2000
"""Characters of a line of kafka-python that are logged; peers may have sent a part of it."""

CommitCallback = Callable[[int, Mapping[PartitionKey, int]], None]
"""Gets the error code of a commit as a whole, and the code of each partition."""


class GroupMember:
    """Joins while there is a subscription, leaves when there is none; `close` ends it."""

    def __init__(self, configuration: Configuration, events: EventQueue) -> None:
        self._configuration = configuration
        self._events = events
        self.coordinator: GroupCoordinator | None = None
        """None before the first connection."""
        strategy = (
            CooperativeStickyClientAssignor if configuration.cooperative else RangeClientAssignor
        )
        # The rack has been looked up: "" prevents that it is looked up again.
        self._assignor = strategy(rack=configuration.rack or "", **configuration.options)
        self._settings = dict(configuration.kafka_python)
        self._net: Any = None
        self._manager: Any = None
        self._client: Any = None
        self._bootstrap: Any = None
        self._connect_backoff = 0.1
        self._subscription: Subscription | None = None
        self._applied_subscription: Subscription | None = None
        self._must_leave = False
        self._poll_overdue: float | None = None
        self._left_for_poll_timeout = False
        self.is_fenced = False
        """Whether another client has taken the instance id, which ends this member for good."""
        self.closing = False
        """Whether the consumer closes: no more joins are started."""
        self._work = threading.Event()
        self._released = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"rackward-member-{configuration.group_id}", daemon=True
        )

    # ---- the state of the membership

    @property
    def is_subscribed(self) -> bool:
        """Whether the group assigns the application's partitions, or still may."""
        return self._subscription is not None or self._applied_subscription is not None

    @property
    def is_stable(self) -> bool:
        """Whether this is a member of a generation, and no rebalance is in progress."""
        coordinator = self.coordinator
        return coordinator is not None and coordinator.stable() and not coordinator.need_rejoin()

    @property
    def is_lost(self) -> bool:
        """Whether other members may have the application's partitions by now."""
        return self.coordinator is not None and self.coordinator.is_lost

    @property
    def has_joined(self) -> bool:
        """Whether there was ever a generation, and so a rebalance protocol."""
        return self.coordinator is not None and self.coordinator.has_joined

    @property
    def identity(self) -> MemberIdentity:
        """Generation and member id, (-1, "") before there are any."""
        return (-1, "") if self.coordinator is None else self.coordinator.member

    @property
    def member_id(self) -> str:
        """The current member id, "" if there is none."""
        return "" if self.coordinator is None else self.coordinator.member_id

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """The last assignment that this member made as the group leader, if it has led."""
        return self._assignor.assignments()

    # ---- the application's calls

    def subscribe(self, subscription: Subscription) -> None:
        """Join, or rejoin, with these topics."""
        self._subscription = subscription
        if self._thread.ident is None:
            self._thread.start()
        self._wake()

    def unsubscribe(self) -> None:
        """Revoke all partitions, then leave."""
        self._subscription = None
        self._must_leave = self._applied_subscription is not None
        self._wake()

    def commit(
        self,
        offsets: Mapping[PartitionKey, Position],
        timeout: float,
        on_response: CommitCallback,
        *,
        final: bool,
    ) -> None:
        """Commit in the order of the calls, retrying for ``timeout`` seconds.

        ``on_response`` is called in any thread. ``final``: the partitions are being given up. Such
        a commit waits for the end of a rebalance: the partitions belong to this member until then,
        and the next owner starts at the offsets of this commit.
        """
        coordinator = self.coordinator
        if self.is_fenced:
            return on_response(KafkaError._FATAL, {})
        if not offsets:
            return on_response(KafkaError._NO_OFFSET, {})
        if coordinator is None:
            return on_response(KafkaError._WAIT_COORD, {})

        def respond(response: CommitResponse) -> None:
            if isinstance(response, Exception):
                return on_response(error_code(response), {})
            codes = set(response.values())
            coordinator.on_commit_response(commit.member, codes)
            if KafkaError.FENCED_INSTANCE_ID in codes:
                self._fence()
            return on_response(0, response)

        def retry_after_rebalance(commit: Commit, code: int) -> MemberIdentity | None:
            return commit.member if code == REBALANCE_IN_PROGRESS else None

        commit = Commit(
            offsets,
            coordinator.member,
            time.monotonic() + timeout,
            respond,
            retry_as=retry_after_rebalance if final else None,
        )
        return coordinator.commits.put(commit)

    def flush_commits(self, timeout: float) -> list[Commit]:
        """Wait for the responses to all commits; cancel and return those without one."""
        if self.coordinator is None:
            return []
        unanswered = self.coordinator.commits.flush(timeout)
        if unanswered:
            self.coordinator.commits.close()
        return unanswered

    def on_poll_timeout(self, overdue: float) -> None:
        """Leave until the application polls, which is late by ``overdue`` seconds."""
        if not self._left_for_poll_timeout and self._subscription is not None:
            self._left_for_poll_timeout = True
            self._poll_overdue = overdue
            self._events.refuse_rebalances()
            self._wake()

    def set_credentials(self, username: str, password: str) -> None:
        """Authenticate with these from now on."""
        credentials = {"sasl_plain_username": username, "sasl_plain_password": Secret(password)}
        self._settings.update(credentials)
        if self._client is not None:
            self._manager.config.update(credentials)
            self._clear_auth_failures()

    def stop_joining(self) -> None:
        """Start no more joins; commits still work."""
        self.closing = True
        self._events.close()
        self._wake()

    def close(self, timeout: float = 0.0) -> None:
        """Leave and end the threads, waiting up to ``timeout`` seconds."""
        self.stop_joining()
        self._released.set()
        if timeout and self._thread.is_alive():
            self._thread.join(timeout)

    # ---- the thread

    def _wake(self) -> None:
        self._work.set()

    def _run(self) -> None:
        MEMBER_LOG_FILTER.add_current_thread(self._forward_log)
        try:
            while not self.closing:
                pause = self._step()
                if pause and not self.closing:
                    self._work.wait(pause)
                self._work.clear()
            self._released.wait()
        except Exception as error:  # noqa: BLE001 - the application must get any error
            log.error(
                "group=%s membership thread failed: %s\n%s",
                self._configuration.group_id,
                format_error(error),
                format_traceback(error),
            )
            reason = f"The group membership failed: {error!r}"
            self._events.put(error_message(KafkaError._FAIL, reason))
        finally:
            if self.coordinator is not None:
                self.coordinator.commits.close()
                try:
                    self.coordinator.shut_down()
                except (kafka_errors.KafkaError, RuntimeError) as error:
                    self._log_debug("LeaveGroup failed", error)
            self._close_client()

    def _step(self) -> float:
        """Take the next step towards the subscription. Return the seconds to pause then."""
        if self.is_fenced or not self.is_subscribed:
            return IDLE_SECONDS
        try:
            if self.coordinator is None:
                return self._connect()
            return self._advance(self.coordinator)
        except RebalanceSuperseded:
            return 0.0
        except kafka_errors.KafkaError as error:
            self._report_join_error(error)
            return JOIN_BACKOFF

    def _forward_log(self, record: logging.LogRecord) -> bool:
        """Queue kafka-python's log record for the application's ``logger``, if it has one."""
        logger, events = self._configuration.logger, self._events
        if logger is None or events.closed:
            return False
        client_id = sanitize(str(self._settings["client_id"]))
        message = sanitize(record.getMessage(), MAX_LOG_MESSAGE)

        def log_line() -> None:
            # At close, an error of the logger must not prevent the last commits.
            with suppress(Exception) if events.closed else nullcontext():
                logger.log(record.levelno, "%s [%s] %s", sanitize(record.name), client_id, message)

        events.put(log_line)
        return True

    def _connect(self) -> float:
        """Connect, then construct the coordinator. Return the seconds to pause then."""
        if not self._settings.get("bootstrap_servers"):
            return IDLE_SECONDS
        if self._client is None:
            install_log_filters()
            self._net = MemberEventLoop(self._forward_log, metrics=None, **self._settings)
            self._manager = KafkaConnectionManager(self._net, metrics=None, **self._settings)
            self._client = KafkaNetClient(net=self._net, manager=self._manager)
            MEMBER_LOG_FILTER.install()
            self._net.start()
            self._bootstrap = self._manager.bootstrap_async(None)
            self._bootstrap.add_both(lambda _: self._wake())
        if not self._bootstrap.is_done:
            return IDLE_SECONDS
        if not self._bootstrap.succeeded():
            self._log_debug("bootstrap failed", self._bootstrap.exception)
            self._close_client()
            pause = self._connect_backoff
            self._connect_backoff = min(2 * pause, IDLE_SECONDS)
            return pause
        # kafka-python has brokers create missing topics. librdkafka does so only if configured,
        # and then by itself.
        self._manager.cluster.config["allow_auto_create_topics"] = False
        self.coordinator = GroupCoordinator(
            self._client,
            SubscriptionState(),
            events=self._events,
            wake=self._wake,
            on_fenced=self._fence,
            assignors=[self._assignor],
            api_version=self._manager.broker_version,
            metrics=None,
            **self._settings,
        )
        return 0.0

    def _log_debug(self, problem: str, error: BaseException) -> None:
        log.debug("group=%s %s: %s", self._configuration.group_id, problem, format_error(error))

    def _clear_auth_failures(self) -> None:
        """Have kafka-python try brokers again at which authentication failed."""
        if self._client is not None:
            self._manager._auth_failures.clear()

    def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        try:
            self._net.run(self._manager.close)
        except (kafka_errors.KafkaError, RuntimeError) as error:
            self._log_debug("close failed", error)
        client.close()

    def _advance(self, coordinator: GroupCoordinator) -> float:
        subscription = self._subscription
        if self._must_leave:
            coordinator.revoke_and_leave()
            self._must_leave, self._applied_subscription = False, None
            return 0.0
        if subscription is None:
            return IDLE_SECONDS
        if subscription is not self._applied_subscription:
            coordinator.subscribe(subscription)
            self._applied_subscription = subscription
        if self._poll_overdue is not None:
            self._leave_for_poll_timeout(coordinator, self._poll_overdue)
        if coordinator.session_expired:
            log.warning(
                "group=%s session timed out: no heartbeat was answered",
                self._configuration.group_id,
            )
            coordinator.rebalance_reason = "session timed out"
            coordinator.reset_generation()
            coordinator.lose_partitions()
        if self._left_for_poll_timeout:
            self._events.accept_rebalances()
            coordinator.lose_partitions()
            self._left_for_poll_timeout = False
        has_topics = bool(coordinator.subscription.subscription)
        if not has_topics and not coordinator.has_joined:
            return IDLE_SECONDS
        if pause := coordinator.seconds_to_rejoin:
            return pause
        coordinator.poll(timeout_ms=JOIN_MS)
        return 0.0 if coordinator.need_rejoin() else IDLE_SECONDS

    def _leave_for_poll_timeout(self, coordinator: GroupCoordinator, overdue: float) -> None:
        """Leave without a callback. The application gets the error when it polls again."""
        interval = self._configuration.max_poll_interval_ms
        reason = (
            f"Application maximum poll interval ({interval}ms) exceeded by {overdue * 1000:.0f}ms"
        )
        log.warning("group=%s leaving: %s", self._configuration.group_id, reason)
        self._events.put(error_message(KafkaError._MAX_POLL_EXCEEDED, reason))
        self._poll_overdue = None
        coordinator.rebalance_reason = "max.poll.interval.ms exceeded"
        coordinator.leave(permanently=False)

    def _report_join_error(self, error: kafka_errors.KafkaError) -> None:
        self._clear_auth_failures()
        code = error_code(error)
        if isinstance(error, kafka_errors.FencedInstanceIdError):
            self._fence()
        elif code > 0 and not isinstance(error, kafka_errors.RetriableError):
            reason = f"JoinGroup failed: {KafkaError(code).str()}"
            self._events.put(error_message(code, reason))
        else:
            self._log_debug("join failed", error)

    def _fence(self) -> None:
        if not self.is_fenced:
            self.is_fenced = True
            reason = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
            reason = f"Fatal error: {reason}: Fatal consumer error: {reason}"
            self._events.put(error_message(KafkaError._FATAL, reason))
            self._events.put(FatalEvent())
            self._wake()
