"""confluent-kafka's producers, which send records without a key to leaders in their own rack.

>>> from partitioners.confluent import Producer
>>> producer = Producer({"bootstrap.servers": "kafka:9092", "client.rack": "use1-az1"})

The methods are confluent's. ``client.rack`` is the rack of the producer, found as
:mod:`assignors.rack_discovery` says if it is blank. ``rackward.max_share`` (default 3) limits what
one partition gets; see :mod:`partitioners.choice`.
"""

from typing import TYPE_CHECKING

from assignors.library_internals import UnsupportedClientError
from partitioners.confluent.producer import Producer, SerializingProducer
from placement_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from partitioners.confluent.aio import AIOProducer
else:
    __getattr__ = lazy_exports(__name__, {"partitioners.confluent.aio": ["AIOProducer"]})

__all__ = ["AIOProducer", "Producer", "SerializingProducer", "UnsupportedClientError"]
