"""Traffic: a producer with a constant rate, and the bytes that brokers send to each group."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from placement_core import TopicPartition
from rackward.bench import BenchError
from rackward.testing import Cluster

RECORD_BYTES = 4096

TrafficMatrix = Mapping[tuple[str, str], int]
"""(rack of the reading member, rack of the sending broker) to bytes."""

# ---- What is written.


def weighted_cycle(weights: Sequence[int]) -> list[int]:
    """Return each index as often as its weight, spread as evenly as possible.

    Raises ValueError unless all weights are positive.
    """
    if min(weights, default=0) < 1:
        raise ValueError(f"weights are {list(weights)}: each must be at least 1")
    turns = [
        ((turn + 0.5) / weight, index)
        for index, weight in enumerate(weights)
        for turn in range(weight)
    ]
    return [index for _, index in sorted(turns)]


class BackgroundProducer:
    """Writes ``rate`` bytes per second to all ``partitions`` until stopped.

    ``weights`` are the shares of the partitions; default: equal ones. Batches are small: a batch
    near the size of a consumer's fetch would be cut, fetched again and counted twice. Values are
    random, so that nothing compresses them.
    """

    def __init__(
        self,
        bootstrap: str,
        partitions: Sequence[TopicPartition],
        rate: float,
        weights: Sequence[int] | None = None,
    ) -> None:
        self.records = 0
        self.sent: list[list[float]] = [[] for _ in partitions]
        """By partition and offset, when the record was written, in seconds since the epoch."""
        self._failure: BaseException | None = None
        self._partitions = partitions
        self._cycle = weighted_cycle([1] * len(partitions) if weights is None else weights)
        self._interval = RECORD_BYTES / rate
        self._stop = threading.Event()
        self._producer: Any = _Producer(
            bootstrap_servers=bootstrap.split(","),
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
        return [len(times) for times in self.sent]

    def check(self) -> None:
        """Raise BenchError if it has failed."""
        if self._failure is not None:
            raise BenchError(f"the producer failed: {self._failure}")

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
                    number = self._cycle[self.records % len(self._cycle)]
                    topic, partition = self._partitions[number]
                    self._producer.send(topic, value=value, partition=partition)
                    self.sent[number].append(time.time())
                    self.records += 1
                self._stop.wait(0.02)
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            self._failure = error


class _Producer(KafkaProducer):  # type: ignore[misc]
    def __del__(self) -> None:
        """Do nothing: the base class would flush again, and log errors, after a failed close."""


# ---- What is read.


def client_rack(group: str, rack: str) -> str:
    """Return the client rack of a group's members in ``rack``: it has a listener of its own."""
    return f"{group}:{rack}"


def client_racks(groups: Iterable[str], racks: Sequence[str]) -> tuple[str, ...]:
    """Return all client racks, for a cluster that counts the bytes of each group."""
    return tuple(client_rack(group, rack) for group in groups for rack in racks)


class BrokerMeter:
    """Bytes since its construction, as counted by the brokers of a cluster with `client_racks`.

    Each group's members in each rack have a listener of their own on every broker, so the
    brokers' counters per listener distinguish them.
    """

    def __init__(self, cluster: Cluster, racks: Mapping[int, str]) -> None:
        self._cluster = cluster
        self._racks = racks
        self._total: dict[str, Counter[tuple[str, str]]] = {}
        self._last = cluster.bytes_out()

    def read(self, groups: Iterable[str], /) -> dict[str, TrafficMatrix]:
        """Return the bytes so far of these groups."""
        for counter, size in self._cluster.bytes_out().items():
            label, broker = counter
            group, reader_rack = label.split(":", 1)
            matrix = self._total.setdefault(group, Counter())
            matrix[reader_rack, self._racks[broker]] += size - self._last.get(counter, 0)
            self._last[counter] = size
        return {group: dict(self._total.get(group, {})) for group in groups}

    def reset_broker(self, broker_id: int) -> None:
        """Expect the counters of a broker that was killed to start at zero again."""
        for counter in [counter for counter in self._last if counter[1] == broker_id]:
            del self._last[counter]
