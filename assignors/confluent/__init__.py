"""The assignors for confluent-kafka, as a Consumer that takes the place of confluent's own.

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

__all__ = ["AIOConsumer", "Consumer"]
