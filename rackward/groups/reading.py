"""Reading what an audit needs: groups, the offsets and sizes of their logs, and so their rates.

Requests are batched by the broker that has to answer them, see `TolerantReader`. A group or a
broker that cannot be read costs only its own figures.

How many bytes each group reads of each partition per second has two sources, and the report says
which one counts:

- *Watched*: two samples of the cluster, some seconds apart. A group that committed offsets in
  between reads what it committed past. Any other group is assumed to read what was written.
- *Logs*: without measuring, every group is assumed to read once what was written in the last 24
  hours; of logs that begin later (new topics, short retention), what was written in the last hour.

Records become bytes by the growth of a log in size and in offsets between the samples, else by its
size over its number of offsets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from placement_core import TopicPartition
from rackward.groups.readers import topics_read
from rackward.kafka import AdminConnection, AdminError, ClusterState, read_state
from rackward.kafka.configs import read_min_isr
from rackward.kafka.groups import DESCRIBED_TYPES, CommittedOffsets, Group, GroupKind, ListedGroup
from rackward.kafka.metadata import read_reassignments
from rackward.kafka.tolerant_reader import Logs, TolerantReader
from rackward.units import format_count, format_duration, matches_name

# ---- The cluster and its groups.

Progress = Callable[[str], None]
"""Is called with what is being done, whenever that changes."""


@dataclass(frozen=True, slots=True)
class GroupReading:
    """A group as far as it could be read: with its members, or with the ``error``."""

    listed: ListedGroup
    coordinator: int
    group: Group | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """A cluster and its groups, sorted by name.

    ``faults`` are lines about what could not be read. ``min_isr`` is min.insync.replicas by topic;
    None if it could not be read. ``selectors`` is replica.selector.class by broker, empty if it is
    not set; brokers that could not be read are missing. ``topics_of_offsets`` are the topics that
    groups without members may read.
    """

    state: ClusterState
    groups: tuple[GroupReading, ...]
    faults: tuple[str, ...] = ()
    min_isr: Mapping[str, int] | None = None
    selectors: Mapping[int, str] = field(default_factory=dict)
    topics_of_offsets: frozenset[str] = frozenset()

    @property
    def topics_read(self) -> frozenset[str]:
        """The topics that members of groups read."""
        described = (each.group for each in self.groups if each.group is not None)
        return frozenset[str]().union(*map(topics_read, described))

    @property
    def led_partitions(self) -> dict[int, list[TopicPartition]]:
        """The partitions that groups read, or may read, by the broker that leads them."""
        return self.state.only(self.topics_read | self.topics_of_offsets).by_leader

    def with_topics_of_offsets(self, committed: CommittedOffsets) -> ClusterReading:
        """Return the reading with the topics of the offsets of groups without members."""
        empty = {each.listed.id for each in self.groups if each.group and not each.group.members}
        topics = {tp.topic for group in empty & committed.keys() for tp in committed[group]}
        return replace(self, topics_of_offsets=frozenset(topics))


def read_cluster(
    admin: AdminConnection,
    patterns: Collection[str],
    progress: Progress,
    reader: TolerantReader | None = None,
) -> ClusterReading:
    """Read the metadata and the groups whose name matches a pattern.

    Raises AdminError if the metadata cannot be read.
    """
    progress("Reading the metadata")
    state = read_state(admin, reassignments=False)
    reader = reader or TolerantReader(admin)
    try:
        state = state.with_reassignments(read_reassignments(admin))
    except AdminError as error:
        reader.add_faults(str(error))
    groups: dict[str, GroupReading] = {}
    for broker in sorted(state.view.racks()):
        listed = [
            each
            for each in reader.listed_groups(broker)
            if any(matches_name(each.id, pattern) for pattern in patterns)
        ]
        groups.update((each.id, GroupReading(each, broker)) for each in listed)
        for described, refused in reader.described_groups(broker, listed):
            for group in described:
                groups[group.id] = replace(groups[group.id], group=group)
            for name, refusal in refused.items():
                groups[name] = replace(groups[name], error=str(refusal))
            progress(f"Reading groups: {format_count(len(groups), 'group')}")
    readings = tuple(_with_reason(groups[name], reader) for name in sorted(groups))
    progress("Reading the configuration of brokers")
    selectors = reader.replica_selectors(sorted(state.view.racks()))
    return ClusterReading(state, readings, tuple(reader.faults), selectors=selectors)


def _with_reason(reading: GroupReading, reader: TolerantReader) -> GroupReading:
    """Return the reading with an error if the group was not described."""
    if reading.group is not None or reading.error is not None:
        return reading
    if reading.listed.type not in DESCRIBED_TYPES:
        return replace(reading, error=f"it is a {reading.listed.type} group")
    detail = next(reversed(reader.faults), "no response")
    return replace(reading, error=f"broker {reading.coordinator} did not describe it: {detail}")


def with_min_isr(admin: AdminConnection, reading: ClusterReading) -> ClusterReading:
    """Return the reading with min.insync.replicas; with a fault if it cannot be read."""
    try:
        return replace(reading, min_isr=read_min_isr(admin, reading.state.topics))
    except AdminError as error:
        return replace(reading, faults=(*reading.faults, f"min.insync.replicas: {error}"))


# ---- Rates, as pure functions of samples.

DAY_SECONDS, HOUR_SECONDS = 86_400, 3600

ASSUMED_RECORD_BYTES = 1000.0
"""Size of a record of a log whose size could not be read."""

Rates = Mapping[TopicPartition, float]
"""Bytes per second. A missing partition has none."""


class RateSource(Enum):
    """Where the rates of a group come from."""

    COMMITTED = "committed"
    """The offsets that it committed while it was measured."""

    WRITTEN = "written"
    """What was written while it was measured: it committed nothing."""

    LOGS = "logs"
    """What was written in the last day or hour: it was not measured."""


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
        Group to what it read, for groups that committed while they were measured.
    measured_seconds
        How long they were measured; None if the rates are those of the logs.
    unsized
        The number of partitions whose records are assumed to have ASSUMED_RECORD_BYTES.
    """

    written: Rates = field(default_factory=dict)
    committed: Mapping[str, Rates] = field(default_factory=dict)
    measured_seconds: float | None = None
    unsized: int = 0

    def of(self, group: str) -> tuple[Rates, RateSource]:
        """Return the rates of a group and their source."""
        if self.measured_seconds is None:
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


def measured_rates(before: Sample, after: Sample) -> ReadRates:
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


# ---- Reading the samples.


def read_rates(
    admin: AdminConnection,
    reading: ClusterReading,
    progress: Progress,
) -> tuple[ReadRates, tuple[str, ...]]:
    """Return the rates of what was written in the last day or hour, and faults."""
    reader = TolerantReader(admin)
    by_leader = reading.led_partitions
    logs = _read_logs(reader, by_leader, progress)
    milliseconds = int(time.time() * 1000)
    day: dict[TopicPartition, int] = {}
    hour: dict[TopicPartition, int] = {}
    for leader, tps in by_leader.items():
        progress(f"Reading the offsets of a day ago: broker {leader}")
        reader.read_offsets(leader, tps, milliseconds - DAY_SECONDS * 1000, day)
    recent = set(begins_within_day(logs, day))
    for leader, tps in by_leader.items():
        young = [tp for tp in tps if tp in recent]
        reader.read_offsets(leader, young, milliseconds - HOUR_SECONDS * 1000, hour)
    return rates_of_logs(logs, day, hour), tuple(reader.faults)


def measure_rates(
    admin: AdminConnection,
    reading: ClusterReading,
    seconds: float,
    wait: Callable[[float], bool],
    progress: Progress,
) -> tuple[ReadRates, tuple[str, ...]]:
    """Measure what the cluster reads and writes for ``seconds``; return the rates, and faults.

    ``wait`` waits so many seconds and returns whether to end early; it is called about once a
    second.
    """
    reader = TolerantReader(admin)
    progress("Reading the offsets of groups without members")
    empty = [each for each in reading.groups if each.group and not each.group.members]
    reading = reading.with_topics_of_offsets(_committed(reader, empty))
    before = read_sample(reader, reading, progress)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        progress(f"Measuring: {format_duration(left)} left (Ctrl-C ends it early)")
        if wait(min(1.0, left)):
            break
    after = read_sample(reader, reading, progress)
    rates = measured_rates(before, after)
    read = {tp.topic for of_group in rates.committed.values() for tp in of_group}
    kept = reading.topics_read | read
    written = {tp: rate for tp, rate in rates.written.items() if tp.topic in kept}
    return replace(rates, written=written), tuple(reader.faults)


def read_sample(reader: TolerantReader, reading: ClusterReading, progress: Progress) -> Sample:
    """Read the logs and the committed offsets of groups."""
    # Ends before commits, so that a commit is at most a little beyond the end of its log.
    logs_at = time.monotonic()
    logs = _read_logs(reader, reading.led_partitions, progress)
    committed_at = time.monotonic()
    progress("Reading committed offsets")
    committed = _committed(reader, reading.groups)
    return Sample(logs, committed, logs_at, committed_at)


def _committed(reader: TolerantReader, groups: Iterable[GroupReading]) -> CommittedOffsets:
    """Return the committed offsets of groups; share groups commit none."""
    committed: CommittedOffsets = {}
    by_coordinator: dict[int, list[str]] = {}
    for each in groups:
        if each.group is not None and each.group.kind is not GroupKind.SHARE:
            by_coordinator.setdefault(each.coordinator, []).append(each.listed.id)
    for broker, ids in by_coordinator.items():
        for offsets, refused in reader.committed_offsets(broker, ids):
            committed.update(offsets)
            reader.add_faults(*map(str, refused.values()))
    return committed


def _read_logs(
    reader: TolerantReader, by_leader: Mapping[int, Sequence[TopicPartition]], progress: Progress
) -> Logs:
    logs = Logs()
    for leader, tps in by_leader.items():
        progress(f"Reading log sizes: broker {leader}")
        reader.read_logs(leader, tps, logs)
    return logs
