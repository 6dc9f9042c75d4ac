"""Traffic reports of clients: counted bytes, and their messages for the traffic pipeline.

A message's value is JSON in the layout in which the pipeline reads all its tables:

{"table": "client_reports", "rows": [{"cluster": ..., "group": ..., "member_id": ...,
 "topic": ..., "partition": 3, "from_rack": "a", "to_rack": "b", "bytes": 1048576,
 "from_at": "2026-11-21T13:00:00.000Z", "to_at": "2026-11-21T13:01:00.000Z"}, ...]}
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

TopicPartition = tuple[str, int]
"""Topic and partition number."""

ROWS_PER_MESSAGE = 1000


@dataclass(frozen=True, slots=True)
class TrafficReport:
    """Bytes fetched per (topic, partition, rack of the broker) between two times.

    The rack is None if the broker has none. A partition that was assigned, and of which nothing was
    fetched, is listed with 0 bytes, to distinguish it from one without a report.
    """

    from_at: datetime
    to_at: datetime
    fetched: Mapping[tuple[str, int, str | None], int]


class TrafficCounter:
    """Counts fetched bytes from ``now`` on; for several threads at once."""

    def __init__(self, now: datetime) -> None:
        self._since = now
        self._fetched: dict[tuple[str, int, str | None], int] = {}
        self._lock = threading.Lock()

    def add(self, partition: TopicPartition, from_rack: str | None, count: int) -> None:
        """Add ``count`` bytes of ``partition`` from a broker in ``from_rack``."""
        key = (*partition, from_rack)
        with self._lock:
            self._fetched[key] = self._fetched.get(key, 0) + count

    def take_report(
        self, now: datetime, assigned: Iterable[tuple[TopicPartition, str | None]]
    ) -> TrafficReport | None:
        """Return what was added since the last report, and start again from ``now``.

        ``assigned`` are the consumer's current partitions with their leaders' racks. Returns None
        if there is nothing to report, or if the clock was set back.
        """
        with self._lock:
            fetched, self._fetched = self._fetched, {}
            since, self._since = self._since, now
        active = {(topic, partition) for topic, partition, _ in fetched}
        idle = {(*partition, rack): 0 for partition, rack in assigned if partition not in active}
        if not (fetched or idle) or now <= since:
            return None
        return TrafficReport(since, now, fetched | idle)


def report_messages(
    report: TrafficReport, *, cluster: str | None, group: str, member_id: str, to_rack: str | None
) -> Iterator[bytes]:
    """Return the values of the messages that carry ``report``; every row is complete by itself.

    ``to_rack`` is the consumer's rack. A ``cluster`` of None is filled in by the collector.
    """
    rows = [
        {
            "cluster": cluster,
            "group": group,
            "member_id": member_id,
            "topic": topic,
            "partition": partition,
            "from_rack": from_rack,
            "to_rack": to_rack,
            "bytes": count,
            "from_at": _timestamp(report.from_at),
            "to_at": _timestamp(report.to_at),
        }
        for (topic, partition, from_rack), count in sorted(
            report.fetched.items(), key=lambda each: (each[0][:2], each[0][2] or "")
        )
    ]
    for start in range(0, len(rows), ROWS_PER_MESSAGE):
        message = {"table": "client_reports", "rows": rows[start : start + ROWS_PER_MESSAGE]}
        yield json.dumps(message, separators=(",", ":")).encode()


def _timestamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
