"""What members report of themselves, as rows; what makes no sense is set aside. Pure.

A report is a message of the layout that :mod:`rackward.collector.messages` writes, of the table
``client_reports``. Members send it, so nothing in it is believed before it is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from rack_traffic.snapshot_tables import CLIENT_REPORTS, INT, LONG, TIME
from rackward.collector.snapshot import Row

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
