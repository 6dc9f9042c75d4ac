"""What was read of a cluster, as rows of the snapshot tables. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from placement_core import TopicPartition
from rack_traffic.snapshot_tables import SNAPSHOT_TABLES
from rackward.admin import ClusterState
from rackward.admin.groups import Group, GroupMember
from rackward.host_racks import RackMap

# ---- One pass over one cluster, as rows.

Row = tuple[object, ...]
"""Values in the order of their table's columns; times are datetimes in UTC."""

Tables = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Rows of each table; ``taken_at`` is when the pass began.

    ``faults`` are what could not be read, a line for each; the rest is there nevertheless.
    ``groups`` is how many there were.
    """

    cluster: str
    taken_at: datetime
    tables: Tables
    faults: tuple[str, ...] = ()
    groups: int = 0

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.tables) - set(SNAPSHOT_TABLES)):
            raise ValueError(f"there is no table {unknown[0]!r}")


Places = Mapping[TopicPartition, int]


def broker_rows(cluster: str, state: ClusterState, at: datetime) -> list[Row]:
    """Rows of the table brokers: those that are up."""
    hosts = {broker: address.rpartition(":")[0] for broker, address in state.addresses.items()}
    return [
        (cluster, broker.id, broker.rack, hosts.get(broker.id), at) for broker in state.view.brokers
    ]


def partition_rows(
    cluster: str,
    state: ClusterState,
    epochs: Places,
    starts: Places,
    ends: Places,
    sizes: Places,
    read_at: Mapping[int, datetime],
    at: datetime,
) -> list[Row]:
    """Rows of the table partitions.

    ``read_at`` has the time at which each leader told its logs' ends and sizes; ``at`` is for
    partitions of which nobody did. What is missing in a mapping is null.
    """
    rows: list[Row] = []
    for place, replicas in state.view.replicas.items():
        leader = state.view.leaders.get(place)
        rows.append(
            (
                cluster,
                place.topic,
                state.topic_ids.get(place.topic),
                place.partition,
                leader,
                epochs.get(place),
                list(replicas),
                list(state.in_sync.get(place, ())),
                starts.get(place),
                ends.get(place),
                sizes.get(place),
                at if leader is None else read_at.get(leader, at),
            )
        )
    return rows


def member_rows(cluster: str, group: Group, racks: RackMap, at: datetime) -> list[Row]:
    """Rows of the table members: one for each, or one that says that there is none."""
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
    committed: Places,
    take: Callable[[str], bool],
    at: datetime,
) -> Iterable[Row]:
    """Rows of the table commits, of the topics that ``take`` takes."""
    for place, offset in sorted(committed.items()):
        if take(place.topic):
            yield cluster, group, place.topic, place.partition, offset, at


def _member(member: GroupMember, racks: RackMap) -> Row:
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
    """What members of the group sent that made no sense, a line for each."""
    for member in group.members:
        for fault in member.faults:
            yield f"group {group.id}: member {member.id} at {member.host}: {fault}"


# ---- Where snapshots go.


class Sink(Protocol):
    """Keeps snapshots; may be given them by several threads at once."""

    def last(self, cluster: str) -> float | None:
        """When the latest snapshot of ``cluster`` that is kept was taken, in seconds since 1970.

        None where there is none, or the sink cannot tell.
        """

    def write(self, snapshot: Snapshot) -> bool:
        """Take ``snapshot``; whether it, and all of this cluster before it, are kept for good.

        Raises SinkError where it cannot be kept.
        """

    def flush(self) -> None:
        """Keep for good whatever was taken. Raises SinkError."""

    def close(self) -> None:
        """Let go of what is open, after the write that is under way; again: nothing.

        What is written afterwards raises SinkError. What was not flushed is lost.
        """
