"""How many bytes each group reads of each partition, per second. Pure functions.

Two sources, and the report says which one counts:

- *Watched*: two samples of the cluster, some seconds apart. A group that committed offsets in
  between reads what it committed past. Any other group is assumed to read what was written.
- *Logs*: without watching, every group is assumed to read once what was written in the last 24
  hours; of logs that begin later (new topics, short retention), what was written in the last hour.

Records become bytes by the growth of a log in size and in offsets between the samples, else by its
size over its number of offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from placement_core import TopicPartition
from rackward.kafka.groups import CommittedOffsets
from rackward.kafka.tolerant_reader import Logs

DAY_SECONDS, HOUR_SECONDS = 86_400, 3600

ASSUMED_RECORD_BYTES = 1000.0
"""Size of a record of a log whose size could not be read."""

Rates = Mapping[TopicPartition, float]
"""Bytes per second. A missing partition has none."""


class RateSource(Enum):
    """Where the rates of a group come from."""

    COMMITTED = "committed"
    """The offsets that it committed while it was watched."""

    WRITTEN = "written"
    """What was written while it was watched: it committed nothing."""

    LOGS = "logs"
    """What was written in the last day or hour: it was not watched."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Logs and committed offsets at one moment; times in seconds of a monotonic clock."""

    logs: Logs
    committed: CommittedOffsets
    logs_at: float
    committed_at: float


@dataclass(frozen=True, slots=True)
class ReadRates:
    """The rates of all groups.

    written
        What is written, of each partition that a group reads.
    committed
        Group to what it read, for groups that committed while they were watched.
    watched_seconds
        How long they were watched; None if the rates are those of the logs.
    unsized
        The number of partitions whose records are assumed to have ASSUMED_RECORD_BYTES.
    """

    written: Rates = field(default_factory=dict)
    committed: Mapping[str, Rates] = field(default_factory=dict)
    watched_seconds: float | None = None
    unsized: int = 0

    def of(self, group: str) -> tuple[Rates, RateSource]:
        """Return the rates of a group and their source."""
        if self.watched_seconds is None:
            return self.written, RateSource.LOGS
        if group in self.committed:
            return self.committed[group], RateSource.COMMITTED
        return self.written, RateSource.WRITTEN


def begins_within_day(logs: Logs, day: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """Return the partitions with records whose logs begin in the last 24 hours, sorted.

    ``day`` has the offset of the first record of the last 24 hours, of partitions that have one.
    """
    return sorted(
        tp for tp, first in day.items() if first <= logs.starts.get(tp, 0) < logs.ends.get(tp, 0)
    )


def rates_of_logs(
    logs: Logs, day: Mapping[TopicPartition, int], hour: Mapping[TopicPartition, int]
) -> ReadRates:
    """Return the rates of what was written.

    ``day`` and ``hour`` have the offset of the first record of the last 24 hours and of the last
    hour, of partitions that have one; ``hour`` only those of `begins_within_day`.
    """
    of_the_hour = set(begins_within_day(logs, day))
    rates = {}
    for tp, end in logs.ends.items():
        short = tp in of_the_hour
        first = (hour if short else day).get(tp, end)
        records = (end - first) / (HOUR_SECONDS if short else DAY_SECONDS)
        rates[tp] = max(0.0, records) * _record_bytes(logs, tp)
    return ReadRates(written=rates, unsized=_unsized(logs))


def watched_rates(before: Sample, after: Sample) -> ReadRates:
    """Return the rates between two samples, at least one millisecond apart."""
    seconds = max(after.logs_at - before.logs_at, 0.001)
    written, record_bytes = {}, {}
    for tp, end in after.logs.ends.items():
        records = end - before.logs.ends.get(tp, end)
        growth = after.logs.sizes.get(tp, 0) - before.logs.sizes.get(tp, 0)
        if records > 0 and growth > 0 and tp in before.logs.sizes:
            record_bytes[tp] = growth / records
        else:
            record_bytes[tp] = _record_bytes(after.logs, tp)
        written[tp] = max(records, 0) * record_bytes[tp] / seconds
    committed = {}
    seconds_of_commits = max(after.committed_at - before.committed_at, 0.001)
    for group, offsets in after.committed.items():
        earlier = before.committed.get(group, {})
        records_read = {tp: offset - earlier[tp] for tp, offset in offsets.items() if tp in earlier}
        if any(records_read.values()):
            committed[group] = {
                tp: max(records, 0) * record_bytes.get(tp, 0.0) / seconds_of_commits
                for tp, records in records_read.items()
            }
    return ReadRates(written, committed, seconds, _unsized(after.logs))


def _record_bytes(logs: Logs, tp: TopicPartition) -> float:
    """Return the mean size of a record of a log; 0 of an empty log."""
    records = logs.ends.get(tp, 0) - logs.starts.get(tp, 0)
    if tp not in logs.sizes:
        return ASSUMED_RECORD_BYTES
    return logs.sizes[tp] / records if records > 0 else 0.0


def _unsized(logs: Logs) -> int:
    return sum(tp not in logs.sizes for tp in logs.ends)
