"""Snapshots as rows of the snapshot tables, and the sinks that store them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from placement_core import TopicPartition
from rack_traffic.snapshot_tables import SNAPSHOT_TABLES
from rackward.admin import ClusterState
from rackward.admin.groups import Group, GroupMember
from rackward.collector.config import Patterns
from rackward.host_racks import HostRacks

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
            )
        )
    return rows


def member_rows(cluster: str, group: Group, racks: HostRacks, at: datetime) -> list[Row]:
    """Return the rows of the table members; an empty group has one row with null columns."""
    common = (cluster, group.id, group.type, group.state, group.protocol_type, group.protocol)
    if not group.members:
        return [(*common, group.generation, *(None,) * 6, [], [], at)]
    return [
        (*common, group.generation, *_member(member, racks), at)
        for member in sorted(group.members, key=lambda each: each.id)
    ]


def commit_rows(
    cluster: str,
    group: str,
    committed: PartitionValues,
    topics: Patterns,
    at: datetime,
) -> Iterable[Row]:
    """Yield the rows of the table commits, of the matching topics."""
    for tp, offset in sorted(committed.items()):
        if topics.matches(tp.topic):
            yield cluster, group, tp.topic, tp.partition, offset, at


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
