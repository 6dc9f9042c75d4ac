"""confluent's AIOProducer, around the producer that chooses partitions by the racks of leaders."""

from __future__ import annotations

from typing import Any

from assignors.library_internals import check_internals, unsupported_import
from partitioners.confluent.producer import SUPPORTED, Producer

try:
    import confluent_kafka.aio
    from confluent_kafka.aio.producer._kafka_batch_executor import ProducerBatchExecutor
except ImportError as error:
    raise unsupported_import(error, "confluent-kafka>=2.13,<3") from error

INTERNALS = {
    confluent_kafka.aio.AIOProducer: ["self._producer", "self._kafka_executor"],
    ProducerBatchExecutor: ["self._producer"],
}
"""What is assigned; see `assignors.library_internals`."""

_CALLBACKS = ("error_cb", "throttle_cb", "stats_cb", "logger")


class AIOProducer(confluent_kafka.aio.AIOProducer):
    """confluent's AIOProducer around :class:`Producer`. Its arguments are documented there."""

    def __init__(self, producer_conf: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        check_internals(INTERNALS, SUPPORTED)
        # confluent wraps the callbacks in the dictionary that it is given, and constructs its own
        # producer with it: here one that connects to nothing, and is replaced.
        callbacks = {name: producer_conf[name] for name in _CALLBACKS if name in producer_conf}
        placeholder = {"log_level": 0, **callbacks}
        super().__init__(placeholder, *args, **kwargs)
        wrapped = {name: placeholder[name] for name in callbacks}
        self._producer = self._rackward_producer = Producer({**producer_conf, **wrapped})
        self._kafka_executor._producer = self._producer

    async def close(self) -> None:
        """Flush and close the producer."""
        await super().close()
        self._rackward_producer.close_leaders()
