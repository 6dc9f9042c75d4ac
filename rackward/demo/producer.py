"""A background producer with a constant rate, round-robin over the partitions."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

RECORD_BYTES = 4096


class BackgroundProducer:
    """Writes ``rate`` bytes per second to all ``partitions`` of ``topic`` until stopped.

    ``failure`` holds the error that ended it, if any. Batches are small: a batch near the size of
    a consumer's fetch would be cut, fetched again and counted twice. Values are random, so that
    nothing compresses them.
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
            # With acks=1, records that only a dying leader had would be missing for every group.
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
        """Bytes of the values written so far."""
        return self.records * RECORD_BYTES

    def offsets(self) -> list[int]:
        """Return the number of records written so far, index = partition."""
        per_partition, rest = divmod(self.records, self._partitions)
        return [per_partition + (partition < rest) for partition in range(self._partitions)]

    def stop(self) -> None:
        """Stop; return when all records are acknowledged, after 20 s at most."""
        self._stop.set()
        self._thread.join(5)
        with suppress(KafkaTimeoutError):
            self._producer.flush(timeout=20)

    def close(self) -> None:
        """Stop at once; records that are not acknowledged within 2 s are dropped."""
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
        except BaseException as error:  # noqa: BLE001 - reported by the demo's main thread
            self.failure = error


class _Producer(KafkaProducer):  # type: ignore[misc]
    def __del__(self) -> None:
        """Do nothing: the base class would flush again, and log errors, after a failed close."""
