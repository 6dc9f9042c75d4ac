"""Writing intents, and taking them back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rackward.admin.connection import translated
from rackward.admin.producing import reliable_producer
from rackward.intents.model import Intent
from rackward.intents.topic import INTENTS_TOPIC


class IntentWriter:
    """A producer of intents; ``properties`` say how to connect, ``timeout`` is in seconds.

    Raises AdminError where the cluster cannot be reached.
    """

    def __init__(self, properties: Mapping[str, object], timeout: float) -> None:
        self._timeout = timeout
        self._producer = reliable_producer(
            properties, timeout, f"connecting the producer of {INTENTS_TOPIC}"
        )

    def write(self, intents: Iterable[Intent], forgotten: Collection[str] = ()) -> None:
        """Keep these intents as they are now, and forget those of the keys ``forgotten``.

        Returns when all of it is on the replicas in sync. Raises AdminError; some may be there.
        """
        from kafka.errors import KafkaError

        records = [(intent.key, intent.record()) for intent in intents]
        try:
            sent = [
                self._producer.send(INTENTS_TOPIC, key=key.encode(), value=value, partition=0)
                for key, value in [*records, *((key, None) for key in forgotten)]
            ]
            self._producer.flush(timeout=self._timeout)
            for each in sent:
                each.get(timeout=self._timeout)
        except KafkaError as error:
            raise translated(f"writing to {INTENTS_TOPIC}", error) from error

    def close(self) -> None:
        """Close the connections."""
        self._producer.close(timeout=5)
