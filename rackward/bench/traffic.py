"""Traffic: producers with a constant rate, and the bytes that brokers count of each client."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from placement_core import TopicPartition
from rackward.bench import BenchError
from rackward.bench.results import Matrix

RECORD_BYTES = 4096

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


Sent = list[dict[int, float]]
"""By partition and offset, when the record was written, in seconds since the epoch."""


class BackgroundProducer:
    """Writes ``rate`` bytes per second to ``targets``, a topic and a partition each, until stopped.

    Where the partition is None, ``partitioner`` chooses it. ``weights`` are the shares of the
    targets. Acknowledged records are added to ``sent``, whose index is that of ``partitions``.

    Batches are small: a batch near the size of a consumer's fetch would be cut, fetched again and
    counted twice. Values are random, so that nothing compresses them.
    """

    def __init__(
        self,
        bootstrap: str,
        targets: Sequence[tuple[str, int | None]],
        rate: float,
        weights: Sequence[int],
        partitions: Sequence[TopicPartition],
        sent: Sent,
        partitioner: Any = None,
    ) -> None:
        self._failure: BaseException | None = None
        self._targets = targets
        self._cycle = weighted_cycle(weights)
        self._interval = RECORD_BYTES / rate
        self._sent = dict(zip(partitions, sent, strict=True))
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
            **({} if partitioner is None else {"partitioner": partitioner}),
        )
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

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
        start, records = time.monotonic(), 0
        try:
            while not self._stop.is_set():
                due = int((time.monotonic() - start) / self._interval)
                while records < due and not self._stop.is_set():
                    topic, partition = self._targets[self._cycle[records % len(self._cycle)]]
                    future = self._producer.send(topic, value=value, partition=partition)
                    future.add_callback(self._acknowledged, time.time())
                    records += 1
                self._stop.wait(0.02)
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            self._failure = error

    def _acknowledged(self, at: float, record: Any) -> None:
        self._sent[TopicPartition(record.topic, record.partition)][record.offset] = at


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

    ``count`` is the cluster's ``bytes_out``, or ``bytes_in``. Each group's members in each rack
    have a listener of their own on every broker, so the brokers' counters per listener distinguish
    them; so have the producers.
    """

    def __init__(
        self, count: Callable[[], Mapping[tuple[str, int], int]], racks: Mapping[int, str]
    ) -> None:
        self._count = count
        self._racks = racks
        self._total: dict[str, Matrix] = {}
        self._last = dict(count())

    def read(self, groups: Iterable[str], /) -> dict[str, Matrix]:
        """Return the bytes so far of these groups."""
        for counter, size in self._count().items():
            label, broker = counter
            group, reader_rack = label.split(":", 1)
            row = self._total.setdefault(group, {}).setdefault(reader_rack, {})
            rack = self._racks[broker]
            row[rack] = row.get(rack, 0) + size - self._last.get(counter, 0)
            self._last[counter] = size
        return {group: deepcopy(self._total.get(group, {})) for group in groups}

    def reset_broker(self, broker_id: int) -> None:
        """Expect the counters of a broker that was killed to start at zero again."""
        for counter in [counter for counter in self._last if counter[1] == broker_id]:
            del self._last[counter]
