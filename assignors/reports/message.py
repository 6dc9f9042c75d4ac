"""A report as messages: the layout in which the pipeline reads all its tables.

{"table": "client_reports", "rows": [{"cluster": ..., "group": ..., "member_id": ...,
 "topic": ..., "partition": 3, "from_rack": "a", "to_rack": "b", "bytes": 1048576,
 "from_at": "2026-11-21T13:00:00.000Z", "to_at": "2026-11-21T13:01:00.000Z"}, ...]}
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from assignors.reports.tally import Report

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
