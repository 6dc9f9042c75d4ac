"""kafka-python's connections for a group member, their log lines, and the member's assignor.

To an application the member is part of a confluent consumer, whose lines go to its ``logger`` if it
has one. So those of kafka-python go there too, in the thread that polls. Without a ``logger``, and
while the consumer closes, those below WARNING are dropped, and others are logged as kafka-python
logs them.

kafka-python's loggers belong to the process, and other clients in it must log as before. All lines
of a member come from two threads of its own, so a filter selects them by thread.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

from kafka import errors as kafka_errors
from kafka.consumer.subscription_state import SubscriptionState
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from assignors.client_assignor import CooperativeStickyClientAssignor, RangeClientAssignor
from assignors.confluent.config import Configuration
from assignors.confluent.coordinator import GroupCoordinator
from assignors.confluent.events import EventQueue, LogEvent
from assignors.connection.properties import Secret
from assignors.group_leader import format_error, log
from assignors.kafka_python.fixes import install_log_filters

MAX_CONNECT_BACKOFF = 10.0
"""Seconds between attempts to connect, at most."""


class CoordinatorConnection:
    """Builds a GroupCoordinator on kafka-python's client.

    It builds what `kafka.KafkaConsumer` would build from its parts, without the part that fetches
    and without waiting: if no server can be reached, the application gets librdkafka's errors, and
    the membership goes on trying. ``wake`` and ``on_fenced`` are the coordinator's.
    """

    def __init__(
        self,
        configuration: Configuration,
        events: EventQueue,
        wake: Callable[[], None],
        on_fenced: Callable[[], None],
    ) -> None:
        self._configuration = configuration
        self._settings = dict(configuration.kafka_python)
        self._events = events
        self._wake, self._on_fenced = wake, on_fenced
        strategy = (
            CooperativeStickyClientAssignor if configuration.cooperative else RangeClientAssignor
        )
        # The rack has been looked up: "" prevents that it is looked up again.
        self.assignor = strategy(rack=configuration.rack or "", **configuration.options)
        self._net: Any = None
        self._manager: Any = None
        self._client: Any = None
        self._bootstrap: Any = None
        self._backoff = 0.1
        self._changed = threading.Event()

    def connect(self, timeout: float) -> GroupCoordinator | None:
        """Return a coordinator on a connected client; None if there is none within ``timeout``."""
        if not self._settings.get("bootstrap_servers"):
            self._changed.wait(timeout)
            return None
        if self._client is None:
            install_log_filters()
            self._net = MemberEventLoop(self.forward_log, metrics=None, **self._settings)
            self._manager = KafkaConnectionManager(self._net, metrics=None, **self._settings)
            self._client = KafkaNetClient(net=self._net, manager=self._manager)
            MEMBER_LOG_FILTER.install()
            self._net.start()
            self._changed.clear()
            self._bootstrap = self._manager.bootstrap_async(None)
            self._bootstrap.add_both(lambda _: self._changed.set())
        if not self._changed.wait(timeout):
            return None
        if not self._bootstrap.succeeded():
            self._retry_later(timeout)
            return None
        # kafka-python has brokers create missing topics. librdkafka does so only if configured,
        # and then by itself.
        self._manager.cluster.config["allow_auto_create_topics"] = False
        return GroupCoordinator(
            self._client,
            SubscriptionState(),
            events=self._events,
            wake=self._wake,
            on_fenced=self._on_fenced,
            assignors=[self.assignor],
            api_version=self._manager.broker_version,
            metrics=None,
            **self._settings,
        )

    def forward_log(self, record: logging.LogRecord) -> bool:
        """Queue kafka-python's log record for the application's ``logger``, if it has one."""
        if self._configuration.logger is None or self._events.closed:
            return False
        self._events.put(LogEvent(record.levelno, record.name, record.getMessage()))
        return True

    def _retry_later(self, timeout: float) -> None:
        log.debug(
            "group=%s bootstrap failed: %s",
            self._configuration.group_id,
            format_error(self._bootstrap.exception),
        )
        self._changed.clear()
        self._close_client()
        self._changed.wait(min(self._backoff, timeout))
        self._backoff = min(2 * self._backoff, MAX_CONNECT_BACKOFF)

    def set_credentials(self, username: str, password: str) -> None:
        """Authenticate with these from now on."""
        credentials = {
            "sasl_plain_username": username,
            "sasl_plain_password": Secret(password),
        }
        self._settings.update(credentials)
        if self._client is not None:
            self._manager.config.update(credentials)
            self.clear_auth_failures()

    def clear_auth_failures(self) -> None:
        """Have kafka-python try brokers again at which authentication failed."""
        if self._client is not None:
            self._manager._auth_failures.clear()

    def close(self) -> None:
        """Close all connections, and end kafka-python's thread."""
        self._changed.set()
        self._close_client()

    def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        try:
            self._net.run(self._manager.close)
        except (kafka_errors.KafkaError, RuntimeError) as error:
            log.debug(
                "group=%s close failed: %s", self._configuration.group_id, format_error(error)
            )
        client.close()


class MemberEventLoop(NetworkSelector):  # type: ignore[misc]
    """kafka-python's event loop. The log lines of its thread go to ``forward``."""

    def __init__(self, forward: Forward, **configs: Any) -> None:
        super().__init__(**configs)
        self._forward = forward

    def run_forever(self) -> None:
        """Run in kafka-python's thread until the loop is closed."""
        MEMBER_LOG_FILTER.add_current_thread(self._forward)
        super().run_forever()


Forward = Callable[[logging.LogRecord], bool]
"""Returns whether it has taken the record."""


class MemberLogFilter(logging.Filter):
    """Passes all records, except those of the threads that were added with `add_current_thread`."""

    def __init__(self) -> None:
        super().__init__()
        self._forwards: weakref.WeakKeyDictionary[threading.Thread, Forward] = (
            weakref.WeakKeyDictionary()
        )

    def add_current_thread(self, forward: Forward) -> None:
        """Pass the records of the current thread to ``forward``, until the thread ends."""
        self._forwards[threading.current_thread()] = forward

    def install(self) -> None:
        """Add this filter to all loggers of kafka-python that exist; idempotent."""
        for name in ["kafka", *logging.root.manager.loggerDict]:
            if name == "kafka" or name.startswith("kafka."):
                logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether kafka-python's logger is to log the record."""
        forward = self._forwards.get(threading.current_thread())
        if forward is None:
            return True
        return not forward(record) and record.levelno >= logging.WARNING


MEMBER_LOG_FILTER = MemberLogFilter()
"""The filter of this process."""
