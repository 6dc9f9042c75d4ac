"""confluent's Producer and SerializingProducer, with partitions chosen by the racks of leaders.

librdkafka sends records without a key to one random partition for
``sticky.partitioning.linger.ms``, then to another. These producers do the same with the partitions
whose leaders are near. So batches are as large as librdkafka's.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from assignors.library_internals import check_internals
from assignors.rack_discovery import RackSource
from partitioners.choice import producer_rack, valid_max_share
from partitioners.confluent.leaders import MAX_INTERVAL, Leaders
from placement_core.racks import DEFAULT_MAX_SHARE

SUPPORTED = "confluent-kafka>=2.12,<3"

RETRIED_DELIVERY = 0.05
"""Seconds after the linger time. librdkafka waits 80 to 120 ms before it retries."""

_FIXED_PARTITION = ("consistent", "murmur2", "fnv1a")
"""Values of ``partitioner`` that send all records without a key to one partition."""

_NOT_FOR_ADMIN = (
    "default.topic.config",
    "dr_cb",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "error_cb",
    "on_delivery",
    "statistics.interval.ms",
    "stats_cb",
    "throttle_cb",
    "transactional.id",
)

_produce = confluent_kafka.Producer.produce


class Producer(confluent_kafka.Producer):
    """confluent's Producer. Its properties and methods are documented there.

    Records with a key, or with a partition, are sent as confluent's producer sends them.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **kwargs: Any) -> None:
        """Raise KafkaException as confluent does, InvalidOptionError, UnsupportedClientError."""
        check_internals({confluent_kafka.Producer: ["produce", "produce_batch"]}, SUPPORTED)
        properties = {**(config or {}), **kwargs}
        given = properties.pop("client.rack", None)
        max_share = valid_max_share(properties.pop("rackward.max_share", DEFAULT_MAX_SHARE))
        self._rackward_leaders: Leaders | None = None
        self._rackward_on_delivery = properties.get("on_delivery", properties.get("dr_cb"))
        rack = producer_rack(
            given if isinstance(given, RackSource) else (str(given or "").strip() or None)
        )
        if rack is not None and properties.get("partitioner") not in _FIXED_PARTITION:
            linger_ms = _number(
                properties, "linger.ms", _number(properties, "queue.buffering.max.ms", 5)
            )
            refresh_ms = _number(properties, "topic.metadata.refresh.interval.ms", 300_000)
            leaders = self._rackward_leaders = Leaders(
                {name: v for name, v in properties.items() if name not in _NOT_FOR_ADMIN},
                rack,
                max_share,
                sticky_seconds=_number(properties, "sticky.partitioning.linger.ms", 10) / 1000,
                interval=min(refresh_ms / 1000, MAX_INTERVAL) if refresh_ms > 0 else MAX_INTERVAL,
                slow_delivery=linger_ms / 1000 + RETRIED_DELIVERY,
            )
            weakref.finalize(self, leaders.close)
            callback = properties.get("error_cb")
            if callback is None or callable(callback):
                properties["error_cb"] = _error_callback(leaders, callback)
        super().__init__(properties)

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Produce a record, as confluent's method does."""
        if callback is None:
            callback = on_delivery
        if key is not None or partition != -1 or (leaders := self._rackward_leaders) is None:
            _produce(self, topic, value, key, partition, callback, None, timestamp, headers)
            return
        sticky = leaders.sticky.get(topic)
        if sticky is not None and monotonic() < sticky[1]:
            partition = sticky[0]
        else:
            partition = leaders.choose(topic)
            callback = leaders.observe(callback or self._rackward_on_delivery)
        try:
            _produce(self, topic, value, None, partition, callback, None, timestamp, headers)
        except KafkaException as error:
            # The topic was created again with fewer partitions.
            if partition == -1 or error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            leaders.choose(topic)
            _produce(self, topic, value, None, -1, callback, None, timestamp, headers)

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
    ) -> int:
        """Produce records, as confluent's method does; those without a key to one partition."""
        if callback is None:
            callback = on_delivery
        leaders = self._rackward_leaders
        chosen = -1 if leaders is None or partition != -1 else leaders.choose(topic)
        if chosen == -1:
            return super().produce_batch(topic, messages, partition, callback)
        keyed = [message for message in messages if message.get("key") is not None]
        unkeyed = [message for message in messages if message.get("key") is None]
        count = super().produce_batch(topic, unkeyed, chosen, callback) if unkeyed else 0
        for message in unkeyed:
            error = message.get("_error")
            if error is not None and error.code() == KafkaError._UNKNOWN_PARTITION:
                del message["_error"]
                keyed.append(message)
        return count + (super().produce_batch(topic, keyed, -1, callback) if keyed else 0)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Set the credentials of new connections."""
        super().set_sasl_credentials(username, password)
        leaders = self._rackward_leaders
        if leaders is not None:
            leaders.set_sasl_credentials(username, password)

    if hasattr(confluent_kafka.Producer, "close"):

        def close(self) -> bool:
            """Flush and close the producer."""
            self.close_leaders()
            return super().close()

    if hasattr(confluent_kafka.Producer, "__exit__"):

        def __exit__(self, *exception: Any) -> bool | None:
            self.close_leaders()
            return super().__exit__(*exception)

    def close_leaders(self) -> None:
        """End the thread that reads leaders. Needed only where confluent has no ``close``."""
        if self._rackward_leaders is not None:
            self._rackward_leaders.close()
            self._rackward_leaders.join()


class SerializingProducer(confluent_kafka.SerializingProducer, Producer):  # type: ignore[misc]
    """confluent's SerializingProducer, around :class:`Producer`."""


def _error_callback(
    leaders: Leaders, callback: Callable[[Any], object] | None
) -> Callable[[Any], None]:
    def failed(error: Any) -> None:
        leaders.broker_failed()
        if callback is not None:
            callback(error)

    return failed


def _number(properties: Mapping[str, Any], name: str, default: float) -> float:
    """Return a property. Text that is not a number is left for librdkafka to refuse."""
    try:
        return float(properties.get(name, default))
    except (TypeError, ValueError):
        return default
