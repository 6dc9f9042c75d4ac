"""The connections that kafka-python holds for a membership, and the coordinator on them.

What `kafka.KafkaConsumer` would build is built from its parts, without the part that fetches,
and without waiting: an application that names servers that are not there hears of it from
librdkafka, as ever, while the membership goes on looking for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kafka import errors as kafka_errors
from kafka.consumer.subscription_state import SubscriptionState
from kafka.net.compat import KafkaNetClient

from assignors.confluent.configuration import Configuration
from assignors.confluent.coordinator import GroupCoordinator
from assignors.confluent.inbox import Inbox
from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from assignors.kafka_python.discretion import teach_discretion
from assignors.leading import log

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
