"""The assignors for confluent-kafka, in a replacement for its Consumer.

>>> from assignors.confluent import Consumer
>>> consumer = Consumer({
...     "bootstrap.servers": "kafka:9092",
...     "group.id": "orders",
...     "client.rack": "use1-az1",
...     "partition.assignment.strategy": "leader-rack-aware-cooperative-sticky",
... })
"""

from typing import TYPE_CHECKING

from assignors.confluent.consumer import Consumer, DeserializingConsumer
from assignors.library_internals import UnsupportedClientError
from placement_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from assignors.confluent.aio import AIOConsumer
else:
    __getattr__ = lazy_exports(__name__, {"assignors.confluent.aio": ["AIOConsumer"]})

__all__ = ["AIOConsumer", "Consumer", "DeserializingConsumer", "UnsupportedClientError"]
