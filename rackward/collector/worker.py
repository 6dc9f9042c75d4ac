"""One cluster's turns: connect, take a snapshot, hand it on, say so; and what is said when not."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from placement_core import RackwardError
from rackward.admin import AdminConnection, AdminError
from rackward.collector.client_reports import ClientReports
from rackward.collector.errors import SinkError
from rackward.collector.pace import Pace
from rackward.collector.report_rows import TABLE
from rackward.collector.sink import Sink
from rackward.collector.snapshot import Snapshot
from rackward.collector.sources import ClusterSource
from rackward.collector.taking import take_snapshot

FAULTS_SHOWN = 3

log = logging.getLogger("rackward.collector")

Open = Callable[[ClusterSource], AdminConnection]
Take = Callable[..., Snapshot]
"""`take_snapshot`, or what stands in for it."""


@dataclass
class Outcome:
    """What became of one cluster: whole snapshots, attempts that failed, rows per table.

    ``faults`` is how many different ones there were; ``error`` the last failure, None where
    the last attempt was a success.
    """

    cluster: str
    snapshots: int = 0
    failures: int = 0
    requests: int = 0
    faults: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    error: str | None = None


class Worker:
    """Takes snapshots of one cluster, one at each `turn`, in one thread.

    ``clock`` is the time in seconds since 1970; ``wait`` waits so many seconds and may raise
    to break off; ``open_cluster`` connects.
    """

    def __init__(
        self,
        source: ClusterSource,
        sink: Sink,
        open_cluster: Open,
        clock: Callable[[], float],
        wait: Callable[[float], None],
        take: Take = take_snapshot,
    ) -> None:
        self.source, self._sink, self._open, self._clock = source, sink, open_cluster, clock
        self._take_snapshot = take
        self.outcome = Outcome(source.name)
        self.failures = 0
        """Since the last success."""
        self._pace = Pace(source.requests_per_second, time.monotonic, wait)
        self._admin: AdminConnection | None = None
        self._brokers: frozenset[object] = frozenset()
        self._reports = (
            ClientReports(source.properties, source.reports_topic, source.name)
            if source.reports_topic
            else None
        )
        self._down_since = 0.0
        self._said: type[RackwardError] | None = None
        self._known_faults: set[str] = set()

    def turn(self) -> bool:
        """One snapshot, taken and kept; False where that failed, which is said once.

        Raises what ``wait`` does, and nothing else but bugs.
        """
        began, asked = self._clock(), self._pace.taken
        try:
            snapshot = self._with_reports(self._take())
            kept = self._sink.write(snapshot)
            if kept and self._reports is not None:
                self._reports.keep()
        except (AdminError, SinkError) as error:
            self._failed(error, began)
            return False
        finally:
            self.outcome.requests = self._pace.taken
        self._succeeded(snapshot, began, self._pace.taken - asked)
        return True

    def close(self) -> None:
        """Close the connections."""
        self._disconnect()
        if self._reports is not None:
            self._reports.close()

    def _take(self) -> Snapshot:
        if self._admin is None:
            self._admin = self._open(self.source)
        return self._take_snapshot(
            self._admin,
            self.source.name,
            self.source.selection,
            self.source.racks,
            self._pace,
            lambda: datetime.fromtimestamp(self._clock(), UTC),
        )

    def _with_reports(self, snapshot: Snapshot) -> Snapshot:
        if self._reports is None:
            return snapshot
        try:
            rows, faults = self._reports.read()
        except AdminError as error:
            return replace(snapshot, faults=(*snapshot.faults, str(error)))
        return replace(
            snapshot,
            tables={**snapshot.tables, TABLE: rows},
            faults=(*snapshot.faults, *dict.fromkeys(faults)),
        )

    def _succeeded(self, snapshot: Snapshot, began: float, requests: int) -> None:
        name = self.source.name
        if self.failures:
            log.info(
                "%s: is back after %d failed attempts and %.0f s",
                name,
                self.failures,
                self._clock() - self._down_since,
            )
        self.failures, self._said, self.outcome.error = 0, None, None
        self.outcome.snapshots += 1
        for table, rows in snapshot.tables.items():
            self.outcome.rows[table] = self.outcome.rows.get(table, 0) + len(rows)
        log.info(
            "%s: %s; %d requests in %.1f s",
            name,
            _counted(snapshot),
            requests,
            self._clock() - began,
        )
        self._tell_faults(set(snapshot.faults))
        brokers = frozenset(row[1] for row in snapshot.tables["brokers"])
        if self._brokers and brokers - self._brokers:
            # The client hears of new brokers in its own good time; a new one knows them now.
            self._disconnect()
        else:
            self._brokers = self._brokers or brokers

    def _failed(self, error: RackwardError, began: float) -> None:
        if not self.failures:
            self._down_since = began
        self.failures += 1
        self.outcome.failures += 1
        self.outcome.error = str(error)
        if self._said is not type(error):
            self._said = type(error)
            log.warning("%s: no snapshot: %s", self.source.name, error)
        if isinstance(error, AdminError):
            self._disconnect()
        if self._reports is not None:
            # What was read is not kept: it is read again from the committed position.
            self._reports.close()

    def _tell_faults(self, faults: set[str]) -> None:
        new = sorted(faults - self._known_faults)
        self._known_faults = faults
        self.outcome.faults += len(new)
        for fault in new[:FAULTS_SHOWN]:
            log.warning("%s: left out: %s", self.source.name, fault)
        if len(new) > FAULTS_SHOWN:
            log.warning("%s: and %d more of these", self.source.name, len(new) - FAULTS_SHOWN)

    def _disconnect(self) -> None:
        admin, self._admin = self._admin, None
        self._brokers = frozenset()
        if admin is not None:
            admin.close()


def _counted(snapshot: Snapshot) -> str:
    rows: Mapping[str, int] = {table: len(each) for table, each in snapshot.tables.items()}
    told = (
        f"{rows['brokers']} brokers, {rows['partitions']} partitions, {snapshot.groups} groups, "
        f"{rows['members']} rows of members, {rows['commits']} committed offsets"
    )
    return told + (f", {rows[TABLE]} client reports" if TABLE in rows else "")
