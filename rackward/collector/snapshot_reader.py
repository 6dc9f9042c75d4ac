"""One snapshot of one cluster: the requests, their order, and the rows made of the responses.

Log end offsets are read before committed offsets, so that a commit is at most a little beyond the
end of its log. End offsets and log sizes of one broker are read in direct succession, because
the pipeline divides one by the other.

If a broker does not respond, the snapshot lacks only what that broker has, and has a fault for it:
its logs' end offsets are null and its groups are absent. Without metadata there is no snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Protocol, TypeVar

from placement_core import TopicPartition
from rack_traffic.snapshot_tables import SNAPSHOT_TABLES
from rackward.admin import (
    AdminConnection,
    AdminError,
    AdminTimeoutError,
    ClusterState,
    TooLargeError,
    UnreachableError,
    read_replica_sizes,
)
from rackward.admin.groups import (
    CLASSIC,
    CONSUMER,
    Group,
    GroupMember,
    ListedGroup,
    describe_classic_groups,
    describe_consumer_groups,
    list_groups,
    read_committed_offsets,
)
from rackward.admin.metadata import (
    EARLIEST,
    LATEST,
    read_log_offsets,
    read_topics,
    unauthorized_topics,
)
from rackward.collector.config import Patterns, Selection
from rackward.host_racks import HostRacks
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


def broker_rows(cluster: str, state: ClusterState, at: datetime) -> list[Row]:
    """Return the rows of the table brokers, for the live ones."""
    hosts = {broker: address.rpartition(":")[0] for broker, address in state.addresses.items()}
    return [
        (cluster, broker.id, broker.rack, hosts.get(broker.id), at) for broker in state.view.brokers
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

    def write(self, snapshot: Snapshot) -> bool:
        """Write a snapshot; return whether it and all earlier ones of the cluster are durable.

        Raises SinkError.
        """

    def flush(self) -> None:
        """Make all snapshots durable. Raises SinkError."""

    def close(self) -> None:
        """Close the sink after the write in progress; what is not flushed is lost. Idempotent.

        A later write raises SinkError.
        """


GROUPS_PER_REQUEST = 50
PARTITIONS_PER_REQUEST = 5000
MAX_FAULTS = 1000
"""Faults in one snapshot; a cluster may have any number of invalid members."""

STREAMS = "streams"

# Brokers leave out what a user may not describe, without an error.
NO_TOPIC = "no topics are visible; if there are any, grant this user Describe on them"
NO_GROUP = "no groups are visible; if there are any, grant this user Describe on them"

Name = TypeVar("Name")
Response = TypeVar("Response")


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
    return _Reader(admin, cluster, selection, racks, acquire, clock, collector).run()


@dataclass
class _Logs:
    """Offsets and sizes of logs, and when each leader was read."""

    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    read_at: dict[int, datetime] = field(default_factory=dict)


@dataclass
class _Reader:
    admin: AdminConnection
    cluster: str
    selection: Selection
    racks: HostRacks
    acquire: Callable[[], None]
    clock: Callable[[], datetime]
    collector: str
    faults: dict[str, None] = field(default_factory=dict)
    unreachable: set[int] = field(default_factory=set)
    groups_visible: bool = False
    read_by_groups: set[str] = field(default_factory=set)

    def run(self) -> Snapshot:
        started = self.clock()
        self.acquire()
        state = read_topics(self.admin)
        visible = frozenset(state.topics)
        if not self.selection.internal:
            state = state.only(visible - state.internal)
        epochs = state.leader_epochs
        at = self.clock()
        if not state.topics:
            self._add_faults(NO_TOPIC)
        if not self.selection.topics.match_all:
            state = state.only([t for t in state.topics if self.selection.topics.matches(t)])
        logs = _Logs()
        partitions: dict[int, list[TopicPartition]] = {}
        for tp, leader in sorted(state.view.known_leaders.items()):
            partitions.setdefault(leader, []).append(tp)
        for leader, tps in partitions.items():
            self._read_logs(leader, tps, logs)
        members: list[Row] = []
        commits: list[Row] = []
        read: set[str] = set()
        for broker in state.view.brokers:
            self._read_groups(broker.id, read, members, commits)
        if not self.groups_visible and not self.unreachable:
            self._add_faults(NO_GROUP)
        self._check_visible(visible)
        tables = {
            "brokers": broker_rows(self.cluster, state, at),
            "partitions": partition_rows(
                self.cluster,
                state,
                epochs,
                logs.starts,
                logs.ends,
                logs.sizes,
                logs.read_at,
                at,
                self.collector,
            ),
            "members": members,
            "commits": commits,
        }
        return Snapshot(self.cluster, started, tables, tuple(self.faults), len(read))

    def _check_visible(self, visible: frozenset[str]) -> None:
        """Add a fault if groups read topics that this user may not describe."""
        topics = filter(self.selection.topics.matches, self.read_by_groups - visible)
        if names := sorted(topics):
            self.acquire()
            try:
                hidden = unauthorized_topics(self.admin, names)
            except AdminError as error:
                self._add_faults(str(error))
                return
            if hidden:
                self._add_faults(
                    f"{format_count(len(hidden), 'topic')} that groups read "
                    f"({format_list(hidden)}): grant this user Describe on them"
                )

    def _read_logs(self, leader: int, tps: Sequence[TopicPartition], logs: _Logs) -> None:
        offsets = partial(read_log_offsets, self.admin, leader)
        for starts in self._request_batches(leader, tps, partial(offsets, timestamp=EARLIEST)):
            logs.starts |= starts
        for start in range(0, len(tps), PARTITIONS_PER_REQUEST):
            batch = tps[start : start + PARTITIONS_PER_REQUEST]
            for sizes in self._request_batches(
                leader, batch, partial(read_replica_sizes, self.admin, [leader])
            ):
                logs.sizes |= {tp: size.bytes for (tp, _), size in sizes.items()}
            for ends in self._request_batches(leader, batch, partial(offsets, timestamp=LATEST)):
                logs.ends |= ends
        logs.read_at[leader] = self.clock()

    def _read_groups(
        self, broker: int, read: set[str], members: list[Row], commits: list[Row]
    ) -> None:
        listed = self._request(broker, partial(list_groups, self.admin, broker)) or []
        self.groups_visible = self.groups_visible or bool(listed)
        selected = sorted(
            (each for each in listed if self._is_selected(each) and each.id not in read),
            key=lambda group: group.id,
        )
        read.update(each.id for each in selected)
        for kind, describe in (
            (CLASSIC, describe_classic_groups),
            (CONSUMER, describe_consumer_groups),
        ):
            ids = [each.id for each in selected if each.type == kind]
            request = partial(describe, self.admin, broker)
            for groups, refused in self._request_batches(broker, ids, request, GROUPS_PER_REQUEST):
                at = self.clock()
                self._add_faults(*map(str, refused.values()))
                for group in groups:
                    members += member_rows(self.cluster, group, self.racks, at, self.collector)
                    for member in group.members:
                        self.read_by_groups.update(member.assignment)
                    self._add_faults(*faults_of(group))
        ids = [each.id for each in selected]
        read_offsets = partial(read_committed_offsets, self.admin, broker)
        for committed, refused in self._request_batches(
            broker, ids, read_offsets, GROUPS_PER_REQUEST
        ):
            at = self.clock()
            self._add_faults(*map(str, refused.values()))
            for name, offsets in sorted(committed.items()):
                self.read_by_groups.update(tp.topic for tp in offsets)
                commits += commit_rows(
                    self.cluster, name, offsets, self.selection.topics, at, self.collector
                )

    def _request(self, broker: int, request: Callable[[], Response]) -> Response | None:
        """Return the response; None, with a fault, if there is none.

        A broker that was unreachable once is skipped from then on. Raises TooLargeError.
        """
        if broker in self.unreachable:
            return None
        self.acquire()
        try:
            return request()
        except TooLargeError:
            raise
        except AdminError as error:
            self._add_faults(str(error))
            if isinstance(error, UnreachableError | AdminTimeoutError):
                self.unreachable.add(broker)
            return None

    def _request_batches(
        self,
        broker: int,
        names: Sequence[Name],
        request: Callable[[Sequence[Name]], Response],
        size: int = PARTITIONS_PER_REQUEST,
    ) -> Iterator[Response]:
        """Yield the responses for batches of ``names``; batches with too large ones are halved."""
        for start in range(0, len(names), size):
            batch = names[start : start + size]
            try:
                response = self._request(broker, partial(request, batch))
            except TooLargeError as error:
                if len(batch) == 1:
                    self._add_faults(f"{batch[0]}: {error}")
                else:
                    yield from self._request_batches(broker, batch, request, (len(batch) + 1) // 2)
            else:
                if response is not None:
                    yield response

    def _add_faults(self, *faults: str) -> None:
        for fault in faults:
            if len(self.faults) < MAX_FAULTS:
                self.faults[fault] = None

    def _is_selected(self, group: ListedGroup) -> bool:
        """Return whether this is a selected group of consumers.

        Other groups, such as those of Connect and share groups, commit no offsets.
        """
        return (
            group.type in (CLASSIC, CONSUMER, STREAMS)
            and group.protocol_type in ("", CONSUMER, STREAMS)
            and self.selection.groups.matches(group.id)
        )
