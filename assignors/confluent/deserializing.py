"""confluent's DeserializingConsumer, in a group whose partitions are assigned by leaders' racks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka

from assignors.confluent.consumer import Consumer

if TYPE_CHECKING:
    from confluent_kafka import DeserializingConsumer as _Base
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import Generic, TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    _Base = confluent_kafka.DeserializingConsumer
    if not issubclass(_Base, Generic):  # Before confluent-kafka 2.16.

        class _Base(_Base, Generic[K, V]):
            pass


class DeserializingConsumer(_Base[K, V], Consumer):  # type: ignore[misc]
    """confluent's DeserializingConsumer with :class:`assignors.confluent.Consumer` as its base.

    ``key.deserializer``, ``value.deserializer``, their builders and the errors are confluent's. As
    there, ``consume`` raises NotImplementedError. :class:`Consumer` describes all other properties.
    """
