"""Bytes per pair of racks as the brokers count them, for several groups at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rackward.clusters import Cluster
from rackward.measurement.assignments import TrafficMatrix


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

    def close(self) -> None:
        """Do nothing: there is no connection."""
