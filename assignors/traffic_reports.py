"""A report as messages: the layout in which the pipeline reads all its tables.

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

# ---- Adding up what was fetched, between two reports.

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Report:
    """Bytes per (topic, partition, broker's rack) that were fetched from one time to another.

    A rack is None where the broker does not say its own. A partition that was held, and of
    which nothing was fetched, is there with 0 bytes: that it was quiet is known as well.
    """

    from_at: datetime
    to_at: datetime
    fetched: Mapping[tuple[str, int, str | None], int]


class Tally:
    """Counts from ``now`` on; for several threads at once."""

    def __init__(self, now: datetime) -> None:
        self._since = now
        self._fetched: dict[tuple[str, int, str | None], int] = {}
        self._lock = threading.Lock()

    def add(self, place: Place, from_rack: str | None, count: int) -> None:
        """``count`` bytes of ``place`` came from a broker in ``from_rack``."""
        key = (*place, from_rack)
        with self._lock:
            self._fetched[key] = self._fetched.get(key, 0) + count

    def take(self, now: datetime, held: Iterable[tuple[Place, str | None]]) -> Report | None:
        """What was added since the last time, and start again from ``now``.

        ``held`` are the partitions that the consumer has now, with their leaders' racks. None
        where there is nothing to tell, or the clock was set back.
        """
        with self._lock:
            fetched, self._fetched = self._fetched, {}
            since, self._since = self._since, now
        told = {(topic, partition) for topic, partition, _ in fetched}
        quiet = {(*place, rack): 0 for place, rack in held if place not in told}
        if not (fetched or quiet) or now <= since:
            return None
        return Report(since, now, fetched | quiet)


ROWS_AT_ONCE = 1000


def report_messages(
    report: Report, *, cluster: str | None, group: str, member_id: str, to_rack: str | None
) -> Iterator[bytes]:
    """The values of the messages that say ``report``; every row stands by itself.

    ``to_rack`` is where the consumer stands. ``cluster`` None is filled in by whoever collects.
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
            "from_at": _time(report.from_at),
            "to_at": _time(report.to_at),
        }
        for (topic, partition, from_rack), count in sorted(
            report.fetched.items(), key=lambda each: (each[0][:2], each[0][2] or "")
        )
    ]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        message = {"table": "client_reports", "rows": some}
        yield json.dumps(message, separators=(",", ":")).encode()


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
