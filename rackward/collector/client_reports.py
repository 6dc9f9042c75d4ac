"""Reading what members report to a topic of their cluster.

The position is committed once the rows are kept, and the pipeline counts a report that comes twice
once; so nothing is lost or doubled when a collector is killed, or when two read the same topic.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from assignors.connection import kafka_python_settings
from rack_traffic.snapshot_tables import CLIENT_REPORTS, INT, LONG, TIME
from rackward.admin import AdminError
from rackward.admin.client import CLIENT_ID, translated
from rackward.collector.rows import Row

# ---- What members report of themselves, as rows; what makes no sense is set aside. Pure.
#
# A report is a message of the layout that :mod:`rackward.collector.topic_sink` writes, of the table
# ``client_reports``. Members send it, so nothing in it is believed before it is looked at.

TABLE = "client_reports"
MOST_BYTES = 1 << 20
"""A longer message is not read."""
_LARGEST = {INT: 2**31, LONG: 2**63}
_REQUIRED = ("group", "member_id", "topic", "partition", "bytes", "from_at", "to_at")


class ReportError(ValueError):
    """A message, or a row of one, that is no report."""


def report_rows(value: bytes | None, cluster: str) -> tuple[list[Row], list[str]]:
    """Rows of the table client_reports, and what is wrong with those that are left out.

    Rows that do not name their cluster get ``cluster``.
    """
    try:
        given = _message(value)
    except ReportError as error:
        return [], [str(error)]
    rows: list[Row] = []
    faults = []
    for each in given:
        try:
            rows.append(_row(each, cluster))
        except ReportError as error:
            faults.append(str(error))
    return rows, faults


def _message(value: bytes | None) -> list[object]:
    if value is None:
        raise ReportError("a message without a value")
    if len(value) > MOST_BYTES:
        raise ReportError(
            f"a message of {len(value)} bytes, of which at most {MOST_BYTES} are read"
        )
    try:
        message = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ReportError("a message that is no JSON") from error
    if not isinstance(message, dict) or message.get("table") != TABLE:
        raise ReportError(f"a message that is not of the table {TABLE}")
    rows = message.get("rows")
    if not isinstance(rows, list):
        raise ReportError("a message without rows")
    return rows


def _row(given: object, cluster: str) -> Row:
    if not isinstance(given, Mapping):
        raise ReportError("a row that is no object")
    found = {name: _value(name, kind, given.get(name)) for name, kind in CLIENT_REPORTS.items()}
    if missing := [name for name in _REQUIRED if found[name] is None]:
        raise ReportError(f"a row without {missing[0]}")
    begin, end = found["from_at"], found["to_at"]
    assert isinstance(begin, datetime)
    assert isinstance(end, datetime)
    if begin >= end:
        raise ReportError("a row whose time ends before it begins")
    found["cluster"] = found["cluster"] or cluster
    return tuple(found.values())


def _value(name: str, kind: str, given: object) -> object:
    if given is None:
        return None
    if kind in _LARGEST:
        if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < _LARGEST[kind]:
            return given
    elif isinstance(given, str):
        if kind != TIME:
            return given
        try:
            at = datetime.fromisoformat(given)
        except ValueError:
            at = None
        if at is not None and at.tzinfo is not None:
            return at
    raise ReportError(f"a row whose {name} is no {kind}")


GROUP = "rackward-traffic-collector"
MOST_MESSAGES = 20_000
"""How many are read at a time; the rest is for the next time."""
PATIENCE_SECONDS = 5.0


class ClientReports:
    """The reports in ``topic`` since those that were kept; a connection of its own."""

    def __init__(self, properties: Mapping[str, object], topic: str, cluster: str) -> None:
        self._properties, self._topic, self._cluster = properties, topic, cluster
        self._consumer: Any = None

    def read(self) -> tuple[list[Row], list[str]]:
        """New rows of the table client_reports, and what was set aside. Raises AdminError."""
        from kafka.errors import KafkaError

        try:
            return self._read()
        except KafkaError as error:
            self.close()
            raise translated(f"reading client reports in {self._topic}", error) from error

    def keep(self) -> None:
        """What was read is kept: do not read it again. Raises AdminError."""
        from kafka.errors import KafkaError

        try:
            if self._consumer is not None:
                self._consumer.commit()
        except KafkaError as error:
            self.close()
            raise translated(f"committing what was read of {self._topic}", error) from error

    def close(self) -> None:
        """Close the connection; again: nothing. What was not kept is read again."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(autocommit=False)

    def _read(self) -> tuple[list[Row], list[str]]:
        consumer = self._open()
        ends = consumer.end_offsets(list(consumer.assignment()))
        deadline = time.monotonic() + PATIENCE_SECONDS
        rows: list[Row] = []
        faults: list[str] = []
        read = 0
        while read < MOST_MESSAGES and time.monotonic() < deadline:
            if all(consumer.position(place) >= end for place, end in ends.items()):
                break
            found = consumer.poll(timeout_ms=500, max_records=MOST_MESSAGES - read)
            for messages in found.values():
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
                    "client_id": CLIENT_ID,
                    **kafka_python_settings(self._properties),
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
                    f"there is no topic {self._topic} of client reports: create it, or leave "
                    "reports_topic out"
                )
            consumer.assign([TopicPartition(self._topic, number) for number in sorted(numbers)])
        return self._consumer
