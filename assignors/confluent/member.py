"""One member of the group, kept by kafka-python in threads of its own.

One thread is kafka-python's event loop: it sends the heartbeats. The other, here, drives the
joins, which take as long as the group and the application take. Neither ever runs code of the
application, and no call of the application's waits for a join.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError
from kafka import errors as kafka_errors
from kafka.consumer.subscription_state import SubscriptionState
from kafka.net.compat import KafkaNetClient

from assignors.confluent.config import Configuration
from assignors.confluent.coordinator import GroupCoordinator, Subscription, Superseded
from assignors.confluent.errors import CommitError, code_of, error_message
from assignors.confluent.events import Fatal, Inbox
from assignors.confluent.offsets import Place, Position
from assignors.group_leader import Assignment, log
from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from assignors.kafka_python.commit_queue import REBALANCE_IN_PROGRESS, Commit, Member, refuse
from assignors.kafka_python.commit_queue import Result as Answer
from assignors.kafka_python.log_filters import teach_discretion

# ---- The connections that kafka-python holds for a membership, and the coordinator on them.
#
# What `kafka.KafkaConsumer` would build is built from its parts, without the part that fetches,
# and without waiting: an application that names servers that are not there hears of it from
# librdkafka, as ever, while the membership goes on looking for them.

LONGEST_BACKOFF = 10.0
"""Seconds between attempts to find a broker that lets us in, at most."""


class Connector:
    """Finds a broker. ``stir`` and ``fenced`` are the coordinator's, ``assignor`` decides."""

    def __init__(
        self,
        configuration: Configuration,
        inbox: Inbox,
        stir: Callable[[], None],
        fenced: Callable[[], None],
    ) -> None:
        self._configuration = configuration
        self._settings = dict(configuration.membership)
        self._inbox = inbox
        self._stir, self._fenced = stir, fenced
        strategy = (
            LeaderRackAwareCooperativeStickyAssignor
            if configuration.cooperative
            else LeaderRackAwareRangeAssignor
        )
        self.assignor = strategy(rack=configuration.rack, refresh=configuration.refresh)
        self._client: Any = None
        self._reached: Any = None
        self._backoff = 0.1
        self._nudged = threading.Event()

    def connect(self, patience: float) -> GroupCoordinator | None:
        """A coordinator on a connected client; None if none is reached in ``patience`` seconds."""
        if not self._settings.get("bootstrap_servers"):
            self._nudged.wait(patience)
            return None
        if self._client is None:
            teach_discretion()
            self._client = KafkaNetClient(metrics=None, **self._settings)
            self._client._net.start()
            self._nudged.clear()
            self._reached = self._client._manager.bootstrap_async(None)
            self._reached.add_both(lambda _: self._nudged.set())
        if not self._nudged.wait(patience):
            return None
        if not self._reached.succeeded():
            self._start_over(patience)
            return None
        manager = self._client._manager
        # kafka-python asks brokers to make topics that are not there; librdkafka's consumer asks
        # only if it is told to, and does so itself.
        manager.cluster.config["allow_auto_create_topics"] = False
        return GroupCoordinator(
            self._client,
            SubscriptionState(),
            inbox=self._inbox,
            stir=self._stir,
            fenced=self._fenced,
            assignors=[self.assignor],
            api_version=manager.broker_version,
            metrics=None,
            **self._settings,
        )

    def _start_over(self, patience: float) -> None:
        log.debug("group %s: %r", self._configuration.group_id, self._reached.exception)
        self._nudged.clear()
        self._shut()
        self._nudged.wait(min(self._backoff, patience))
        self._backoff = min(2 * self._backoff, LONGEST_BACKOFF)

    def new_credentials(self, username: str, password: str) -> None:
        """Authenticate with these from now on."""
        changed = {"sasl_plain_username": username, "sasl_plain_password": password}
        self._settings.update(changed)
        if self._client is not None:
            self._client._manager.config.update(changed)
            self.forgive()

    def forgive(self) -> None:
        """Try brokers again that refused us: kafka-python would not."""
        if self._client is not None:
            self._client._manager._auth_failures.clear()

    def close(self) -> None:
        """Close all connections and end kafka-python's thread."""
        self._nudged.set()
        self._shut()

    def _shut(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        try:
            client._net.run(client._manager.close)
        except (kafka_errors.KafkaError, RuntimeError) as error:
            log.debug("group %s: %r", self._configuration.group_id, error)
        client.close()


JOIN_MS = 200
"""Milliseconds after which a thread that waits for a join looks around."""

METADATA_MS = 2000
"""Milliseconds to wait for what a pattern may match before it is asked for again."""

IDLE = 1.0
"""Seconds after which a member at rest looks whether it is one."""

BACKOFF = 1.0
"""Seconds before a join that was refused is tried again."""

LEAVE_MS = 5000
"""Milliseconds for telling the group that this member leaves."""

Result = Mapping[Place, int] | CommitError
"""The error code of each partition of a commit, or what became of the commit as a whole."""


class Membership:
    """Joins when there is a subscription, leaves when there is none; `close` ends it."""

    def __init__(self, configuration: Configuration, inbox: Inbox) -> None:
        self._configuration = configuration
        self._inbox = inbox
        self._connector = Connector(configuration, inbox, self._stir, self._fence)
        self._coordinator: GroupCoordinator | None = None
        self._wanted: Subscription | None = None
        self._applied: Subscription | None = None
        self._must_leave = False
        self._late: float | None = None
        self._away = False
        self._fenced = False
        self._closing = False
        self._stirred = threading.Event()
        self._released = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"rackward-membership-{configuration.group_id}", daemon=True
        )

    # ---- what the application sees

    @property
    def engaged(self) -> bool:
        """Whether the application's partitions are the group's, or may be."""
        return self._wanted is not None or self._applied is not None

    @property
    def fenced(self) -> bool:
        """Whether another client has taken the instance id, so that this one may do nothing."""
        return self._fenced

    @property
    def stable(self) -> bool:
        """Whether there is a generation, and no rebalance."""
        coordinator = self._coordinator
        return coordinator is not None and coordinator.stable() and not coordinator.need_rejoin()

    @property
    def lost(self) -> bool:
        """Whether the application's partitions may be others' by now."""
        return self._coordinator is not None and self._coordinator.is_lost

    @property
    def joined_once(self) -> bool:
        """Whether there was ever a generation, and so a rebalance protocol."""
        return self._coordinator is not None and self._coordinator.joined_once

    @property
    def member(self) -> tuple[int, str]:
        """Generation and member id, (-1, "") before there are any."""
        return (-1, "") if self._coordinator is None else self._coordinator.member

    @property
    def member_id(self) -> str:
        """What the group calls this member at this moment, or nothing."""
        return "" if self._coordinator is None else self._coordinator.member_id

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """The last assignment that this member made as the group's leader, if it has been."""
        return self._connector.assignor.assignments()

    # ---- what the application wants

    def subscribe(self, wanted: Subscription) -> None:
        """Join, or rejoin, for these topics."""
        self._wanted = wanted
        if self._thread.ident is None:
            self._thread.start()
        self._stir()

    def unsubscribe(self) -> None:
        """Give up all partitions, then leave."""
        self._wanted = None
        self._must_leave = self._applied is not None
        self._stir()

    def commit(
        self,
        offsets: Mapping[Place, Position],
        patience: float,
        then: Callable[[Result], None],
        *,
        last: bool,
    ) -> None:
        """Commit, in the order of the calls, and call ``then`` with the outcome in some thread.

        It is tried for ``patience`` seconds, always as the member that there is now. ``last``: of
        partitions that are given up; a rebalance is then waited out, for they are this member's
        until it has ended, and the next owner begins where this commit ends.
        """
        coordinator = self._coordinator
        if self._fenced:
            return then(CommitError(KafkaError._FATAL))
        if coordinator is None:
            return then(CommitError(KafkaError._WAIT_COORD))

        def answer(result: Answer) -> None:
            if isinstance(result, Exception):
                return then(CommitError(code_of(result)))
            codes = set(result.values())
            coordinator.commit_answered(commit.member, codes)
            if KafkaError.FENCED_INSTANCE_ID in codes:
                self._fence()
            return then(result)

        commit = Commit(
            offsets,
            coordinator.member,
            time.monotonic() + patience,
            answer,
            retry=_after_the_rebalance if last else refuse,
        )
        return coordinator.commits.put(commit)

    def flush_commits(self, seconds: float) -> list[Commit]:
        """Wait until all commits are answered, so many seconds; those that are not are given up."""
        if self._coordinator is None:
            return []
        left = self._coordinator.commits.flush(seconds)
        if left:
            self._coordinator.commits.close()
        return left

    def application_is_late(self, late: float) -> None:
        """The application has not polled for too long, by ``late`` seconds: leave until it does."""
        if not self._away and self._wanted is not None:
            self._away = True
            self._late = late
            self._inbox.refuse_steps()
            self._stir()

    def new_credentials(self, username: str, password: str) -> None:
        """Authenticate with these from now on."""
        self._connector.new_credentials(username, password)

    def stop_joining(self) -> None:
        """Begin no more joins; commits still work."""
        self._closing = True
        self._inbox.close()
        self._stir()

    def close(self, patience: float = 0.0) -> None:
        """Leave, and end the threads, waiting ``patience`` seconds for that."""
        self.stop_joining()
        self._released.set()
        if patience and self._thread.is_alive():
            self._thread.join(patience)

    # ---- the thread

    def _stir(self) -> None:
        self._stirred.set()

    def _run(self) -> None:
        try:
            while not self._closing:
                pause = self._look_after()
                if pause and not self._closing:
                    self._stirred.wait(pause)
                self._stirred.clear()
            self._released.wait()
        except Exception as error:  # noqa: BLE001  (the application must hear of anything)
            log.exception("group %s: the membership ended", self._configuration.group_id)
            told = f"The membership of the group ended: {error!r}"
            self._inbox.put(error_message(KafkaError._FAIL, told))
        finally:
            if self._coordinator is not None:
                self._coordinator.commits.close()
                self._leave_quietly(self._coordinator)
            self._connector.close()

    def _look_after(self) -> float:
        """Bring what is nearer to what is wanted; the seconds to rest then."""
        if self._fenced or not self.engaged:
            return IDLE
        try:
            self._coordinator = self._coordinator or self._connector.connect(IDLE)
            if self._coordinator is None:
                return 0.0
            return self._advance(self._coordinator)
        except Superseded:
            return 0.0
        except kafka_errors.KafkaError as error:
            self._tell_of(error)
            return BACKOFF

    def _advance(self, coordinator: GroupCoordinator) -> float:
        wanted = self._wanted
        if self._must_leave:
            coordinator.give_back(LEAVE_MS)
            self._must_leave, self._applied = False, None
            return 0.0
        if wanted is None:
            return IDLE
        if wanted is not self._applied:
            coordinator.subscribe(wanted, METADATA_MS)
            self._applied = wanted
        if self._late is not None:
            self._go_away(coordinator, self._late)
        if coordinator.session_expired:
            log.warning("group %s: no heartbeat was answered", self._configuration.group_id)
            coordinator.reset_generation()
            coordinator.lose()
        if self._away:
            self._inbox.accept_steps()
            coordinator.lose()
            self._away = False
        if not coordinator.has_topics and not coordinator.joined_once:
            return IDLE
        coordinator.poll(timeout_ms=JOIN_MS)
        return 0.0 if coordinator.need_rejoin() else IDLE

    def _go_away(self, coordinator: GroupCoordinator, late: float) -> None:
        """Leave without the application, which hears of it when it polls again."""
        longest = self._configuration.max_poll_interval_ms
        told = f"Application maximum poll interval ({longest}ms) exceeded by {late * 1000:.0f}ms"
        log.warning("group %s: %s: leaving", self._configuration.group_id, told)
        self._inbox.put(error_message(KafkaError._MAX_POLL_EXCEEDED, told))
        self._late = None
        coordinator.leave(LEAVE_MS, static=False)

    def _tell_of(self, error: kafka_errors.KafkaError) -> None:
        """Tell the application of what keeps this member from the group."""
        self._connector.forgive()
        code = code_of(error)
        if isinstance(error, kafka_errors.FencedInstanceIdError):
            self._fence()
        elif code > 0 and not isinstance(error, kafka_errors.RetriableError):
            told = f"JoinGroup failed: {KafkaError(code).str()}"
            self._inbox.put(error_message(code, told))
        else:
            log.debug("group %s: %r", self._configuration.group_id, error)

    def _fence(self) -> None:
        if not self._fenced:
            self._fenced = True
            told = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
            told = f"Fatal error: {told}: Fatal consumer error: {told}"
            self._inbox.put(error_message(KafkaError._FATAL, told))
            self._inbox.put(Fatal())
            self._stir()

    def _leave_quietly(self, coordinator: GroupCoordinator) -> None:
        try:
            coordinator.end(LEAVE_MS)
        except (kafka_errors.KafkaError, RuntimeError) as error:
            log.debug("group %s: not left: %r", self._configuration.group_id, error)


def _after_the_rebalance(commit: Commit, code: int) -> Member | None:
    return commit.member if code == REBALANCE_IN_PROGRESS else None
