"""The assignors for confluent-kafka, in a replacement for its Consumer.

>>> from assignors.confluent import Consumer
>>> consumer = Consumer({
...     "bootstrap.servers": "kafka:9092",
...     "group.id": "orders",
...     "client.rack": "use1-az1",
...     "partition.assignment.strategy": "leader-rack-aware-cooperative-sticky",
... })
"""

from assignors.confluent.aio import AIOConsumer
from assignors.confluent.consumer import Consumer
from assignors.confluent.deserializing import DeserializingConsumer
from assignors.library_internals import UnsupportedClientError

__all__ = ["AIOConsumer", "Consumer", "DeserializingConsumer", "UnsupportedClientError"]
