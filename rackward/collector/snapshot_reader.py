"""One snapshot of one cluster: the requests, their order, and the rows made of the responses.

Log end offsets are read before committed offsets, so that a commit is at most a little beyond the
end of its log. End offsets and log sizes of one broker are read in direct succession, because
the pipeline divides one by the other.

If a broker does not respond, the snapshot lacks only what that broker has, and has a fault for it:
its logs' end offsets are null and its groups are absent. Without metadata there is no snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from placement_core import TopicPartition
from rack_traffic.snapshot_tables import SNAPSHOT_TABLES
from rackward.collector.config import Patterns, Selection
from rackward.groups.host_racks import HostRacks
from rackward.kafka import (
    AdminConnection,
    AdminError,
    ClusterState,
)
from rackward.kafka.groups import (
    CLASSIC,
    CONSUMER,
    Group,
    GroupMember,
    ListedGroup,
)
from rackward.kafka.metadata import (
    read_topics,
    unauthorized_topics,
)
from rackward.kafka.tolerant_reader import Logs, TolerantReader
from rackward.units import format_count, format_list

# ---- Snapshots as rows of the snapshot tables, and the sinks that store them.

Row = tuple[object, ...]
"""Values in the order of their table's columns; times are datetimes in UTC."""

Tables = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Rows of each table.

    ``taken_at`` is when the snapshot was started. ``faults`` has one line for each part that could
    not be read. ``groups`` is the number of groups.
    """

    cluster: str
    taken_at: datetime
    tables: Tables
    faults: tuple[str, ...] = ()
    groups: int = 0

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.tables) - set(SNAPSHOT_TABLES)):
            raise ValueError(f"unknown table {unknown[0]!r}")


PartitionValues = Mapping[TopicPartition, int]


def broker_rows(
    cluster: str, state: ClusterState, selectors: Mapping[int, str], at: datetime
) -> list[Row]:
    """Return the rows of the table brokers, for the live ones."""
    hosts = {broker: address.rpartition(":")[0] for broker, address in state.addresses.items()}
    return [
        (cluster, broker.id, broker.rack, hosts.get(broker.id), at, selectors.get(broker.id))
        for broker in state.view.brokers
    ]


def partition_rows(
    cluster: str,
    state: ClusterState,
    epochs: PartitionValues,
    starts: PartitionValues,
    ends: PartitionValues,
    sizes: PartitionValues,
    read_at: Mapping[int, datetime],
    at: datetime,
    collector: str,
) -> list[Row]:
    """Return the rows of the table partitions.

    ``read_at`` has the time at which each leader's offsets and sizes were read; other partitions
    have the time ``at``. A value that is missing in a mapping is null.
    """
    rows: list[Row] = []
    for tp, replicas in state.view.replicas.items():
        leader = state.view.leader(tp)
        rows.append(
            (
                cluster,
                tp.topic,
                state.topic_ids.get(tp.topic),
                tp.partition,
                leader,
                epochs.get(tp),
                list(replicas),
                list(state.in_sync.get(tp, ())),
                starts.get(tp),
                ends.get(tp),
                sizes.get(tp),
                at if leader is None else read_at.get(leader, at),
                collector,
            )
        )
    return rows


def member_rows(
    cluster: str, group: Group, racks: HostRacks, at: datetime, collector: str
) -> list[Row]:
    """Return the rows of the table members; an empty group has one row with null columns."""
    common = (cluster, group.id, group.type, group.state, group.protocol_type, group.protocol)
    if not group.members:
        return [(*common, group.generation, *(None,) * 6, [], [], at, collector)]
    return [
        (*common, group.generation, *_member(member, racks), at, collector)
        for member in sorted(group.members, key=lambda each: each.id)
    ]


def commit_rows(
    cluster: str,
    group: str,
    committed: PartitionValues,
    topics: Patterns,
    at: datetime,
    collector: str,
) -> Iterable[Row]:
    """Yield the rows of the table commits, of the matching topics."""
    for tp, offset in sorted(committed.items()):
        if topics.matches(tp.topic):
            yield cluster, group, tp.topic, tp.partition, offset, at, collector


def _member(member: GroupMember, racks: HostRacks) -> Row:
    rack, source = racks.locate(member.rack, member.host)
    return (
        member.id,
        member.instance_id,
        member.client_id,
        member.host.removeprefix("/"),
        rack,
        source,
        sorted(member.topics),
        [
            {"topic": topic, "partitions": sorted(partitions)}
            for topic, partitions in sorted(member.assignment.items())
        ],
    )


def faults_of(group: Group) -> Iterable[str]:
    """Yield a line for each part of a member's metadata that could not be decoded."""
    for member in group.members:
        for fault in member.errors:
            yield f"group {group.id}: member {member.id} at {member.host}: {fault}"


class Sink(Protocol):
    """Stores snapshots. Thread-safe."""

    def last(self, cluster: str) -> float | None:
        """Return when the last stored snapshot of the cluster was taken, in seconds since 1970.

        None if there is none, or if the sink cannot be read.
        """

    def write(self, snapshot: Snapshot) -> None:
        """Write a snapshot, now or with later ones. Raises SinkError."""

    def flush(self) -> None:
        """Make all snapshots durable. Raises SinkError."""

    def close(self) -> None:
        """Close the sink after the write in progress; what is not flushed is lost. Idempotent.

        A later write raises SinkError.
        """


STREAMS = "streams"

# Brokers leave out what a user may not describe, without an error.
NO_TOPIC = "no topics are visible; if there are any, grant this user Describe on them"
NO_GROUP = "no groups are visible; if there are any, grant this user Describe on them"


def take_snapshot(
    admin: AdminConnection,
    cluster: str,
    selection: Selection,
    racks: HostRacks,
    acquire: Callable[[], None],
    clock: Callable[[], datetime],
    collector: str,
) -> Snapshot:
    """Return a snapshot of the cluster; ``acquire`` is called before every request.

    ``collector`` identifies this process among those that collect from the cluster.

    Raises AdminError if the metadata cannot be read, and what ``acquire`` raises.
    """
    reader = TolerantReader(admin, acquire)
    return _SnapshotReader(reader, cluster, selection, racks, clock, collector).run()


@dataclass
class _SnapshotReader:
    reader: TolerantReader
    cluster: str
    selection: Selection
    racks: HostRacks
    clock: Callable[[], datetime]
    collector: str
    groups_visible: bool = False
    read_by_groups: set[str] = field(default_factory=set)

    def run(self) -> Snapshot:
        started = self.clock()
        self.reader.acquire()
        state = read_topics(self.reader.admin)
        visible = frozenset(state.topics)
        if not self.selection.internal:
            state = state.only(visible - state.internal)
        epochs = state.leader_epochs
        at = self.clock()
        if not state.topics:
            self.reader.add_faults(NO_TOPIC)
        if not self.selection.topics.match_all:
            state = state.only([t for t in state.topics if self.selection.topics.matches(t)])
        logs = Logs()
        read_at: dict[int, datetime] = {}
        partitions: dict[int, list[TopicPartition]] = {}
        for tp, leader in sorted(state.view.known_leaders.items()):
            partitions.setdefault(leader, []).append(tp)
        for leader, tps in partitions.items():
            self.reader.read_logs(leader, tps, logs)
            read_at[leader] = self.clock()
        selectors = self.reader.replica_selectors(broker.id for broker in state.view.brokers)
        members: list[Row] = []
        commits: list[Row] = []
        read: set[str] = set()
        for broker in state.view.brokers:
            self._read_groups(broker.id, read, members, commits)
        if not self.groups_visible and not self.reader.unreachable:
            self.reader.add_faults(NO_GROUP)
        self._check_visible(visible)
        tables = {
            "brokers": broker_rows(self.cluster, state, selectors, at),
            "partitions": partition_rows(
                self.cluster,
                state,
                epochs,
                logs.starts,
                logs.ends,
                logs.sizes,
                read_at,
                at,
                self.collector,
            ),
            "members": members,
            "commits": commits,
        }
        return Snapshot(self.cluster, started, tables, tuple(self.reader.faults), len(read))

    def _check_visible(self, visible: frozenset[str]) -> None:
        """Add a fault if groups read topics that this user may not describe."""
        topics = filter(self.selection.topics.matches, self.read_by_groups - visible)
        if names := sorted(topics):
            self.reader.acquire()
            try:
                hidden = unauthorized_topics(self.reader.admin, names)
            except AdminError as error:
                self.reader.add_faults(str(error))
                return
            if hidden:
                self.reader.add_faults(
                    f"{format_count(len(hidden), 'topic')} that groups read "
                    f"({format_list(hidden)}): grant this user Describe on them"
                )

    def _read_groups(
        self, broker: int, read: set[str], members: list[Row], commits: list[Row]
    ) -> None:
        listed = self.reader.listed_groups(broker)
        self.groups_visible = self.groups_visible or bool(listed)
        selected = sorted(
            (each for each in listed if self._is_selected(each) and each.id not in read),
            key=lambda group: group.id,
        )
        read.update(each.id for each in selected)
        for groups, refused in self.reader.described_groups(broker, selected):
            at = self.clock()
            self.reader.add_faults(*map(str, refused.values()))
            for group in groups:
                members += member_rows(self.cluster, group, self.racks, at, self.collector)
                for member in group.members:
                    self.read_by_groups.update(member.assignment)
                self.reader.add_faults(*faults_of(group))
        ids = [each.id for each in selected]
        for committed, refused in self.reader.committed_offsets(broker, ids):
            at = self.clock()
            self.reader.add_faults(*map(str, refused.values()))
            for name, offsets in sorted(committed.items()):
                self.read_by_groups.update(tp.topic for tp in offsets)
                commits += commit_rows(
                    self.cluster, name, offsets, self.selection.topics, at, self.collector
                )

    def _is_selected(self, group: ListedGroup) -> bool:
        """Return whether this is a selected group of consumers.

        Other groups, such as those of Connect and share groups, commit no offsets.
        """
        return (
            group.type in (CLASSIC, CONSUMER, STREAMS)
            and group.protocol_type in ("", CONSUMER, STREAMS)
            and self.selection.groups.matches(group.id)
        )
