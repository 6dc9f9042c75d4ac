"""A producer in the background: a steady rate, round robin over the partitions."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

RECORD_BYTES = 4096


class _Producer(KafkaProducer):  # type: ignore[misc]
    def __del__(self) -> None:
        """Nothing: the base class would flush again, and complain, after a close that failed."""


class BackgroundProducer:
    """Writes ``rate`` bytes per second to all ``partitions`` of ``topic`` until stopped.

    Small batches: a batch near the size of a consumer's fetch is cut and fetched again,
    and would count twice. The values are random, so nothing can compress them.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: float) -> None:
        self.records = 0
        self.failure: BaseException | None = None
        self._topic = topic
        self._partitions = partitions
        self._interval = RECORD_BYTES / rate
        self._stop = threading.Event()
        self._producer: Any = _Producer(
            bootstrap_servers=bootstrap,
            # What only a leader had when it died would be missing from every group's reading.
            acks="all",
            linger_ms=250,
            batch_size=32 * 1024,
            metadata_max_age_ms=5000,
            reconnect_backoff_max_ms=1000,
            metrics_enabled=False,
        )
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

    @property
    def bytes(self) -> int:
        """Bytes of values written so far."""
        return self.records * RECORD_BYTES

    def written(self) -> list[int]:
        """Records written so far, index = partition."""
        whole, rest = divmod(self.records, self._partitions)
        return [whole + (partition < rest) for partition in range(self._partitions)]

    def stop(self) -> None:
        """Stop, and return when all that was written is acknowledged, or after 20 s."""
        self._stop.set()
        self._thread.join(5)
        with suppress(KafkaTimeoutError):
            self._producer.flush(timeout=20)

    def close(self) -> None:
        """Stop at once; what is not acknowledged within two seconds is given up."""
        self._stop.set()
        self._thread.join(5)
        with suppress(KafkaError):
            self._producer.close(timeout=2)

    def _run(self) -> None:
        value = random.Random(0).randbytes(RECORD_BYTES)
        start = time.monotonic()
        try:
            while not self._stop.is_set():
                due = int((time.monotonic() - start) / self._interval)
                while self.records < due and not self._stop.is_set():
                    self._producer.send(
                        self._topic, value=value, partition=self.records % self._partitions
                    )
                    self.records += 1
                self._stop.wait(0.02)
        except BaseException as error:  # noqa: BLE001 - read by the demo's director
            self.failure = error
