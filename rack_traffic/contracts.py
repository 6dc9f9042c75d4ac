"""What rows of snapshots have to keep to, table by table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contract:
    """What makes a row of ``table`` usable.

    ``required`` columns are never null. ``broken`` maps a reason to the SQL condition of the rows
    that are set aside for it; a condition that is null is not met. ``optional`` tables may be
    absent from an input.
    """

    table: str
    required: tuple[str, ...]
    broken: Mapping[str, str]
    optional: bool = False

    @property
    def reasons(self) -> dict[str, str]:
        """Reason to condition, the one that is told first in front."""
        missing = {f"{name} is missing": f"`{name}` is null" for name in self.required}
        return missing | dict(self.broken)


# 2020 is before any snapshot of ours, and a clock that is
# years ahead would stretch an interval over all of them.
_NAMED = {"cluster is empty": "cluster = ''"}
_TIMED = {"taken_at is out of range": "taken_at < '2020-01-01' or taken_at >= '2200-01-01'"}
_TOPIC = {"topic is empty": "topic = ''", "partition is negative": "partition < 0"}

CONTRACTS: dict[str, Contract] = {
    each.table: each
    for each in (
        Contract(
            "brokers",
            ("cluster", "broker", "taken_at"),
            _NAMED | _TIMED | {"broker is negative": "broker < 0"},
        ),
        Contract(
            "partitions",
            (
                "cluster",
                "topic",
                "partition",
                "replicas",
                "start_offset",
                "end_offset",
                "taken_at",
            ),
            _NAMED
            | _TIMED
            | _TOPIC
            | {
                "start_offset is negative": "start_offset < 0",
                "end_offset is below start_offset": "end_offset < start_offset",
                "size_bytes is negative": "size_bytes < 0",
                "there is no replica": "size(replicas) = 0",
            },
        ),
        Contract(
            "members",
            ("cluster", "group", "state", "taken_at"),
            _NAMED
            | _TIMED
            | {
                "a member has no id": "member_id = ''",
                "a partition is assigned by a negative number": (
                    "exists(assignment, each -> exists(each.partitions, number -> number < 0))"
                ),
            },
        ),
        Contract(
            "commits",
            ("cluster", "group", "topic", "partition", "committed_offset", "taken_at"),
            _NAMED | _TIMED | _TOPIC | {"committed_offset is negative": "committed_offset < 0"},
        ),
        Contract(
            "client_reports",
            ("cluster", "group", "member_id", "topic", "partition", "bytes", "from_at", "to_at"),
            _NAMED
            | _TOPIC
            | {
                "from_at is out of range": "from_at < '2020-01-01' or from_at >= '2200-01-01'",
                "to_at is not after from_at": "to_at <= from_at",
                "the report is longer than a day": "to_at > from_at + interval 1 day",
                "bytes is negative": "bytes < 0",
            },
            optional=True,
        ),
    )
}
"""The contract of every snapshot table."""
