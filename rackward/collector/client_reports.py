"""Reads the reports that consumers send to a topic of their cluster.

A report is a message in the layout of :mod:`rackward.collector.topic_sink`, of the table
``client_reports``. Any client may send anything, so every field is checked; an invalid row becomes
a fault and the others are used.

The offsets are committed once the rows are stored, and the pipeline counts duplicates of a report
once, so that nothing is lost or counted twice if a collector is killed or two read the same topic.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rack_traffic.snapshot_tables import CLIENT_REPORTS, INT, LONG, TIME
from rackward.admin import AdminError
from rackward.admin.client import client_settings
from rackward.admin.errors import wrap
from rackward.collector.snapshot_reader import Row

TABLE = "client_reports"
MAX_BYTES = 1 << 20
"""Size of a message; a larger one is not parsed."""
GROUP = "rackward-traffic-collector"
MAX_MESSAGES = 20_000
"""Messages read at a time; the next snapshot reads more."""
READ_SECONDS = 5.0
_LIMITS = {INT: 2**31, LONG: 2**63}
_REQUIRED = ("group", "member_id", "topic", "partition", "bytes", "from_at", "to_at")


class ReportError(ValueError):
    """A message, or a row of one, is not a report."""


def report_rows(value: bytes | None, cluster: str) -> tuple[list[Row], list[str]]:
    """Return the rows of the table client_reports in a message, and the faults of other rows.

    ``cluster`` is for rows without a cluster.
    """
    try:
        reports = _parse(value)
    except ReportError as error:
        return [], [str(error)]
    rows: list[Row] = []
    faults = []
    for each in reports:
        try:
            rows.append(_parse_row(each, cluster))
        except ReportError as error:
            faults.append(str(error))
    return rows, faults


def _parse(value: bytes | None) -> list[object]:
    if value is None:
        raise ReportError("a message without a value")
    if len(value) > MAX_BYTES:
        raise ReportError(f"a message of {len(value)} bytes, of which at most {MAX_BYTES} are read")
    try:
        message = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ReportError("a message that is not JSON") from error
    if not isinstance(message, dict) or message.get("table") != TABLE:
        raise ReportError(f"a message that is not of the table {TABLE}")
    rows = message.get("rows")
    if not isinstance(rows, list):
        raise ReportError("a message without rows")
    return rows


def _parse_row(report: object, cluster: str) -> Row:
    if not isinstance(report, Mapping):
        raise ReportError("a row that is not an object")
    row = {name: _check(name, kind, report.get(name)) for name, kind in CLIENT_REPORTS.items()}
    if missing := [name for name in _REQUIRED if row[name] is None]:
        raise ReportError(f"a row without {missing[0]}")
    begin, end = row["from_at"], row["to_at"]
    assert isinstance(begin, datetime)
    assert isinstance(end, datetime)
    if begin >= end:
        raise ReportError("a row whose to_at is not after its from_at")
    row["cluster"] = row["cluster"] or cluster
    return tuple(row.values())


def _check(name: str, kind: str, value: object) -> object:
    if value is None:
        return None
    if kind in _LIMITS:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LIMITS[kind]:
            return value
    elif isinstance(value, str):
        if kind != TIME:
            return value
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            at = None
        if at is not None and at.tzinfo is not None:
            return at
    raise ReportError(f"a row whose {name} is not of type {kind}")


class ClientReports:
    """Reads the reports in ``topic`` after the committed offsets, over its own connection."""

    def __init__(self, properties: Mapping[str, object], topic: str, cluster: str) -> None:
        self._properties, self._topic, self._cluster = properties, topic, cluster
        self._consumer: Any = None

    def read(self) -> tuple[list[Row], list[str]]:
        """Return new rows of the table client_reports, and faults. Raises AdminError."""
        from kafka.errors import KafkaError

        try:
            return self._read()
        except KafkaError as error:
            self.close()
            raise self._wrapped(f"reading client reports in {self._topic}", error) from error

    def commit(self) -> None:
        """Commit the offsets of what was read. Raises AdminError."""
        from kafka.errors import KafkaError

        try:
            if self._consumer is not None:
                self._consumer.commit()
        except KafkaError as error:
            self.close()
            raise self._wrapped(f"committing offsets of {self._topic}", error) from error

    def _wrapped(self, operation: str, error: Exception) -> AdminError:
        topic, group = f"Read on {self._topic}", f"Read on group {GROUP}"
        return wrap(operation, error, topic_acl=topic, group_acl=group)

    def close(self) -> None:
        """Close the connection; what is not committed is read again. Idempotent."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(autocommit=False)

    def _read(self) -> tuple[list[Row], list[str]]:
        consumer = self._open()
        ends = consumer.end_offsets(list(consumer.assignment()))
        deadline = time.monotonic() + READ_SECONDS
        rows: list[Row] = []
        faults: list[str] = []
        read = 0
        while read < MAX_MESSAGES and time.monotonic() < deadline:
            if all(consumer.position(tp) >= end for tp, end in ends.items()):
                break
            batches = consumer.poll(timeout_ms=500, max_records=MAX_MESSAGES - read)
            for messages in batches.values():
                for message in messages:
                    read += 1
                    good, bad = report_rows(message.value, self._cluster)
                    rows += good
                    faults += (f"topic {self._topic}: {fault}" for fault in bad)
        return rows, faults

    def _open(self) -> Any:
        if self._consumer is None:
            from kafka import KafkaConsumer, TopicPartition

            consumer = KafkaConsumer(
                **{
                    **client_settings(self._properties),
                    "group_id": GROUP,
                    "enable_auto_commit": False,
                    "auto_offset_reset": "earliest",
                }
            )
            self._consumer = consumer
            numbers = consumer.partitions_for_topic(self._topic)
            if not numbers:
                self.close()
                raise AdminError(
                    f"topic {self._topic} of client reports does not exist: create it, or remove "
                    "reports_topic"
                )
            consumer.assign([TopicPartition(self._topic, number) for number in sorted(numbers)])
        return self._consumer
