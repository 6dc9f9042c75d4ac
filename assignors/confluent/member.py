"""One member of the group: kafka-python's coordinator, driven by a thread.

One thread is kafka-python's event loop, which sends the heartbeats. The other one, here, drives the
joins, which take as long as the group and the application take. Neither ever runs code of the
application, and no call of the application waits for a join.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError
from kafka import errors as kafka_errors

from assignors.confluent.client_logs import MEMBER_LOG_FILTER
from assignors.confluent.config import Configuration
from assignors.confluent.connection import CoordinatorConnection
from assignors.confluent.coordinator import GroupCoordinator, RebalanceSuperseded, Subscription
from assignors.confluent.events import EventQueue, FatalEvent, error_code, error_message
from assignors.confluent.offsets import PartitionKey, Position
from assignors.group_leader import format_error, format_traceback, log
from assignors.kafka_python.commits import (
    REBALANCE_IN_PROGRESS,
    Commit,
    CommitResponse,
    MemberIdentity,
)

if TYPE_CHECKING:
    from assignors.group_leader import Assignment

JOIN_MS = 200
"""Milliseconds after which a thread that waits for a join checks for other work."""

METADATA_MS = 2000
"""Milliseconds to wait for the topics that a pattern may match, before they are requested again."""

IDLE_SECONDS = 1.0
"""Seconds between the checks of a stable member."""

JOIN_BACKOFF = 1.0
"""Seconds before a join is tried again after an error."""

LEAVE_MS = 5000
"""Milliseconds to send the LeaveGroup request."""

CommitCallback = Callable[[int, Mapping[PartitionKey, int]], None]
"""Gets the error code of a commit as a whole, and the code of each partition."""


class GroupMember:
    """Joins while there is a subscription, leaves when there is none; `close` ends it."""

    def __init__(self, configuration: Configuration, events: EventQueue) -> None:
        self._configuration = configuration
        self._events = events
        self._connection = CoordinatorConnection(configuration, events, self._wake, self._fence)
        self._coordinator: GroupCoordinator | None = None
        self._subscription: Subscription | None = None
        self._applied_subscription: Subscription | None = None
        self._must_leave = False
        self._poll_overdue: float | None = None
        self._left_for_poll_timeout = False
        self._fenced = False
        self._closing = False
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
    def is_fenced(self) -> bool:
        """Whether another client has taken the instance id, which ends this member for good."""
        return self._fenced

    @property
    def is_stable(self) -> bool:
        """Whether this is a member of a generation, and no rebalance is in progress."""
        coordinator = self._coordinator
        return coordinator is not None and coordinator.stable() and not coordinator.need_rejoin()

    @property
    def is_joining(self) -> bool:
        """Whether a join is in progress."""
        return self._coordinator is not None and self._coordinator.rebalance_in_progress()

    @property
    def state(self) -> str:
        """The state of the coordinator, by librdkafka's names: query-coord, up or term."""
        if self._closing:
            return "term"
        coordinator = self._coordinator
        known = coordinator is not None and coordinator.coordinator_id is not None
        return "up" if known else "query-coord"

    @property
    def rebalance_reason(self) -> str:
        """Why the group rebalanced last, as librdkafka puts it; "" if it is not known."""
        return "" if self._coordinator is None else self._coordinator.rebalance_reason

    @property
    def is_lost(self) -> bool:
        """Whether other members may have the application's partitions by now."""
        return self._coordinator is not None and self._coordinator.is_lost

    @property
    def has_joined(self) -> bool:
        """Whether there was ever a generation, and so a rebalance protocol."""
        return self._coordinator is not None and self._coordinator.has_joined

    @property
    def identity(self) -> MemberIdentity:
        """Generation and member id, (-1, "") before there are any."""
        return (-1, "") if self._coordinator is None else self._coordinator.member

    @property
    def member_id(self) -> str:
        """The current member id, "" if there is none."""
        return "" if self._coordinator is None else self._coordinator.member_id

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """The last assignment that this member made as the group leader, if it has led."""
        return self._connection.assignor.assignments()

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
        coordinator = self._coordinator
        if self._fenced:
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

        commit = Commit(
            offsets,
            coordinator.member,
            time.monotonic() + timeout,
            respond,
            retry_as=_retry_after_rebalance if final else None,
        )
        return coordinator.commits.put(commit)

    def flush_commits(self, timeout: float) -> list[Commit]:
        """Wait for the responses to all commits; cancel and return those without one."""
        if self._coordinator is None:
            return []
        unanswered = self._coordinator.commits.flush(timeout)
        if unanswered:
            self._coordinator.commits.close()
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
        self._connection.set_credentials(username, password)

    def stop_joining(self) -> None:
        """Start no more joins; commits still work."""
        self._closing = True
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
        MEMBER_LOG_FILTER.add_current_thread(self._connection.forward_log)
        try:
            while not self._closing:
                pause = self._step()
                if pause and not self._closing:
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
            if self._coordinator is not None:
                self._coordinator.commits.close()
                self._leave_before_exit(self._coordinator)
            self._connection.close()

    def _step(self) -> float:
        """Take the next step towards the subscription. Return the seconds to pause then."""
        if self._fenced or not self.is_subscribed:
            return IDLE_SECONDS
        try:
            self._coordinator = self._coordinator or self._connection.connect(IDLE_SECONDS)
            if self._coordinator is None:
                return 0.0
            return self._advance(self._coordinator)
        except RebalanceSuperseded:
            return 0.0
        except kafka_errors.KafkaError as error:
            self._report_join_error(error)
            return JOIN_BACKOFF

    def _advance(self, coordinator: GroupCoordinator) -> float:
        subscription = self._subscription
        if self._must_leave:
            coordinator.revoke_and_leave(LEAVE_MS)
            self._must_leave, self._applied_subscription = False, None
            return 0.0
        if subscription is None:
            return IDLE_SECONDS
        if subscription is not self._applied_subscription:
            coordinator.subscribe(subscription, METADATA_MS)
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
        if not coordinator.has_topics and not coordinator.has_joined:
            return IDLE_SECONDS
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
        coordinator.leave(LEAVE_MS, permanently=False)

    def _report_join_error(self, error: kafka_errors.KafkaError) -> None:
        self._connection.clear_auth_failures()
        code = error_code(error)
        if isinstance(error, kafka_errors.FencedInstanceIdError):
            self._fence()
        elif code > 0 and not isinstance(error, kafka_errors.RetriableError):
            reason = f"JoinGroup failed: {KafkaError(code).str()}"
            self._events.put(error_message(code, reason))
        else:
            log.debug("group=%s join failed: %s", self._configuration.group_id, format_error(error))

    def _fence(self) -> None:
        if not self._fenced:
            self._fenced = True
            reason = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
            reason = f"Fatal error: {reason}: Fatal consumer error: {reason}"
            self._events.put(error_message(KafkaError._FATAL, reason))
            self._events.put(FatalEvent())
            self._wake()

    def _leave_before_exit(self, coordinator: GroupCoordinator) -> None:
        try:
            coordinator.shut_down(LEAVE_MS)
        except (kafka_errors.KafkaError, RuntimeError) as error:
            log.debug(
                "group=%s LeaveGroup failed: %s", self._configuration.group_id, format_error(error)
            )


def _retry_after_rebalance(commit: Commit, code: int) -> MemberIdentity | None:
    return commit.member if code == REBALANCE_IN_PROGRESS else None
