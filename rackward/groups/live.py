"""Passes over a cluster for a view of its groups that is refreshed, as `rackward top` shows it.

A pass reads what an audit reads; rates are measured over the last WINDOW_SECONDS. Consumers commit
every five seconds by default, so one second would show nothing, or five times too much.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rack_traffic.prices import PriceTable
from rackward.groups.audit import Auditor, check_patterns
from rackward.groups.audit_report import AuditReport, GroupAudit
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import is_stable, topics_read
from rackward.groups.reading import (
    ClusterReading,
    Sample,
    measured_rates,
    read_cluster,
    read_sample,
)
from rackward.kafka import AdminConnection
from rackward.kafka.groups import Group
from rackward.kafka.tolerant_reader import TolerantReader

WINDOW_SECONDS = 30.0
MIN_WINDOW_SECONDS = 6.0
"""Rates are unknown before."""

REQUEST_SECONDS = 3.0
"""Timeout of a request, unless passes are rarer. Metadata names a dead broker for some seconds."""

MAX_HISTORY = 120


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """A group in a pass.

    lag
        Records that it has not committed past, of partitions with a committed offset.
    rebalanced
        When a pass last found that it had rebalanced, in UTC.
    history
        Bytes per second that crossed racks, of each pass, the last one at the end; None: unknown.
    stale
        Whether it was not read, so that the figures are those of an earlier pass.
    """

    audit: GroupAudit
    lag: int | None = None
    rebalanced: datetime | None = None
    history: tuple[float | None, ...] = ()
    stale: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LivePass:
    """What a pass that took ``seconds`` has read, and what is known from earlier ones.

    measured
        Whether the passes cover MIN_WINDOW_SECONDS; if not, rates and costs are meaningless.
    flows
        The result of `rackward.groups.audit.Auditor.flows`.
    """

    at: datetime
    seconds: float
    reading: ClusterReading
    report: AuditReport
    groups: tuple[LiveGroup, ...]
    measured: bool
    flows: Mapping[tuple[str | None, str | None], float]
    host_racks: HostRacks


@dataclass
class LiveReader:
    """Makes passes over the groups that ``patterns`` match, every ``interval`` seconds."""

    admin: AdminConnection
    patterns: Collection[str]
    prices: PriceTable
    currency: str
    host_racks: HostRacks
    interval: float
    samples: tuple[Sample, ...] = ()
    latest: LivePass | None = None

    def read(self) -> LivePass:
        """Make a pass. Raises AdminError if the metadata cannot be read, and InvalidOptionError if
        a pattern matches no group in the first pass."""
        began = time.monotonic()
        self.admin.timeout = min(self.admin.timeout, max(REQUEST_SECONDS, self.interval))
        reader = TolerantReader(self.admin)
        reading = read_cluster(self.admin, self.patterns, lambda _: None, reader)
        if self.latest is None:
            check_patterns(self.patterns, reading)
        if self.samples:
            reading = reading.with_topics_of_offsets(self.samples[-1].committed)
        sample = read_sample(reader, reading, lambda _: None)
        reading = replace(reading, faults=tuple(reader.faults))
        oldest = sample.logs_at - WINDOW_SECONDS
        recent = tuple(each for each in self.samples if each.logs_at >= oldest)
        self.samples = (*(recent or self.samples[-1:]), sample)
        measured = sample.logs_at - self.samples[0].logs_at >= MIN_WINDOW_SECONDS
        rates = measured_rates(self.samples[0], sample)
        auditor = Auditor(reading, rates, self.prices, self.host_racks)
        report = auditor.report(self.currency, best=False)
        at = datetime.now(UTC)
        self.latest = LivePass(
            at,
            time.monotonic() - began,
            reading,
            report,
            live_groups(self.latest, reading, report, sample, at, measured=measured),
            measured,
            auditor.flows(),
            self.host_racks,
        )
        return self.latest


def live_groups(
    previous: LivePass | None,
    reading: ClusterReading,
    report: AuditReport,
    sample: Sample,
    at: datetime,
    *,
    measured: bool,
) -> tuple[LiveGroup, ...]:
    """Return the groups of a pass, after those of the ``previous`` one.

    A group that is gone while something could not be read is kept, as stale: its coordinator may
    be down.
    """
    before = {} if previous is None else {each.audit.group: each for each in previous.groups}
    earlier = {} if previous is None else _described(previous.reading)
    described = _described(reading)
    groups = {}
    for row in report.groups:
        known, group = before.get(row.group, LiveGroup(row)), described.get(row.group)
        changed = group is not None and _changed(earlier.get(row.group, group), group)
        crossing = row.now.crossing if row.now is not None and measured else None
        groups[row.group] = LiveGroup(
            row,
            None if group is None else _lag(group, sample),
            at if changed else known.rebalanced,
            (*known.history, crossing)[-MAX_HISTORY:],
        )
    gone = before.keys() - groups.keys() if reading.faults else ()
    stale = (
        replace(each, stale=True, history=(*each.history, None)[-MAX_HISTORY:])
        for name, each in before.items()
        if name in gone
    )
    return (*groups.values(), *stale)


def _described(reading: ClusterReading) -> dict[str, Group]:
    return {each.listed.id: each.group for each in reading.groups if each.group is not None}


def _changed(before: Group, after: Group) -> bool:
    """Return whether a group rebalances or has done so."""
    owned = [{each.id: each.assignment for each in group.members} for group in (before, after)]
    rebalances = bool(after.members) and not is_stable(after)
    return rebalances or owned[0] != owned[1] or before.generation != after.generation


def _lag(group: Group, sample: Sample) -> int | None:
    topics, ends = topics_read(group), sample.logs.ends
    lags = [
        max(0, ends[tp] - offset)
        for tp, offset in sample.committed.get(group.id, {}).items()
        if tp.topic in topics and tp in ends
    ]
    return sum(lags) if lags else None
