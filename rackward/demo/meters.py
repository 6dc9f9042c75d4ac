"""Bytes per strategy, reader's rack and broker's rack: counted by brokers, or estimated.

On a cluster of our own every (strategy, rack) has a listener on every broker, so the
brokers' own counters tell the strategies apart while all of them read the same data at
the same time. Somebody else's cluster has no such listeners: there the growth of each
partition is set down to whoever reads it and to wherever its leader is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from rackward.clusters.protocol import Cluster
from rackward.demo.groups import DemoError
from rackward.demo.measures import Matrix, Standing
from rackward.demo.producer import RECORD_BYTES


def door(strategy: str, rack: str) -> str:
    """The name of the client rack that stands for ``strategy``'s members in ``rack``."""
    return f"{strategy}:{rack}"


class Meter(Protocol):
    """Bytes since the meter was made."""

    def read(self, standings: Mapping[str, Standing]) -> Mapping[str, Matrix]:
        """Strategy key to its matrix, as of now, given how its groups stand now."""

    def forget(self, broker_id: int) -> None:
        """A broker was killed: whatever it counts from now on, it counts from zero."""

    def close(self) -> None:
        """Let go of connections."""


class BrokerCounters:
    """What the brokers of our own cluster count per listener."""

    def __init__(self, cluster: Cluster, racks: Mapping[int, str]) -> None:
        self._cluster = cluster
        self._racks = racks
        self._total: dict[str, Counter[tuple[str, str]]] = {}
        self._last = cluster.bytes_out()

    def read(self, standings: Mapping[str, Standing]) -> Mapping[str, Matrix]:
        for place, size in self._cluster.bytes_out().items():
            label, broker = place
            strategy, reader = label.split(":", 1)
            cells = self._total.setdefault(strategy, Counter())
            cells[reader, self._racks[broker]] += size - self._last.get(place, 0)
            self._last[place] = size
        return {strategy: dict(self._total.get(strategy, {})) for strategy in standings}

    def forget(self, broker_id: int) -> None:
        for place in [place for place in self._last if place[1] == broker_id]:
            del self._last[place]

    def close(self) -> None:
        pass


class LogGrowth:
    """Growth of the topic's partitions, set down to their present readers and leaders.

    An estimate: what grew before a rebalance but since the last reading is set down to
    the new reader, and requests, headers and re-reads are not in it.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        from kafka import KafkaConsumer, TopicPartition

        self._consumer: Any = KafkaConsumer(bootstrap_servers=bootstrap, metrics_enabled=False)
        self._places = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._total: dict[str, Counter[tuple[str, str]]] = {}
        self._last = self._ends()

    def read(self, standings: Mapping[str, Standing]) -> Mapping[str, Matrix]:
        ends = self._ends()
        grown = [(end - last) * RECORD_BYTES for end, last in zip(ends, self._last, strict=True)]
        self._last = ends
        for strategy, standing in standings.items():
            self._total.setdefault(strategy, Counter()).update(attribute(grown, standing))
        return {strategy: dict(self._total[strategy]) for strategy in standings}

    def forget(self, broker_id: int) -> None:
        pass

    def close(self) -> None:
        self._consumer.close()

    def _ends(self) -> list[int]:
        from kafka.errors import KafkaError

        try:
            found = self._consumer.end_offsets(self._places)
        except KafkaError as error:
            raise DemoError(
                f"the cluster does not tell how its logs have grown: {error}"
            ) from error
        return [found[place] for place in self._places]


def attribute(grown: Sequence[int], standing: Standing) -> dict[tuple[str, str], int]:
    """``grown`` (bytes, index = partition) as a matrix of reader's and leader's racks.

    Partitions without a reader, or without a leader whose rack is known, are left out.
    """
    cells: Counter[tuple[str, str]] = Counter()
    for member, partitions in standing.assignment.items():
        for partition in partitions:
            leader = standing.leader_racks[partition]
            if leader is not None:
                cells[standing.member_racks[member], leader] += grown[partition]
    return dict(cells)


def doors(strategies: Iterable[str], racks: Iterable[str]) -> tuple[str, ...]:
    """Every client rack that a cluster of our own must have a listener for."""
    racks = tuple(racks)
    return tuple(door(strategy, rack) for strategy in strategies for rack in racks)
