"""What members with a given assignment read locally, and why they do not read the rest locally."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.leaders.model import CurrentAssignment, Obstacle, UnmetReads
from placement_core.racks import parse_rack


def local_partitions(
    view: ClusterView,
    assignment: CurrentAssignment,
    leaders: Mapping[TopicPartition, int],
    levels: int | None = None,
) -> list[TopicPartition]:
    """Return the partitions that are read in the rack of their leader, sorted.

    ``leaders`` has the broker that leads each partition; racks are compared by ``levels``.
    """
    paths = _broker_paths(view, levels)
    local = []
    for partition in sorted(view.replicas):
        path = parse_rack(assignment.racks.get(partition))
        leader_path = paths.get(leaders.get(partition, -1))
        if path is not None and leader_path is not None and path[:levels] == leader_path:
            local.append(partition)
    return local


def unmet_reads(
    view: ClusterView,
    assignments: Sequence[CurrentAssignment],
    leaders: Mapping[TopicPartition, int],
    *,
    movable: Collection[TopicPartition],
    full: Collection[int],
    levels: int | None = None,
) -> tuple[UnmetReads, ...]:
    """Return the partitions that are not read locally with ``leaders``, by group, reason and rack.

    ``movable`` are the partitions whose leader may be chosen, ``full`` the brokers that may not
    lead more partitions.
    """
    paths = _broker_paths(view, levels)
    found = []
    for assignment in assignments:
        local = set(local_partitions(view, assignment, leaders, levels))
        by_reason: dict[tuple[Obstacle, str | None], list[TopicPartition]] = {}
        for partition, replicas in sorted(view.replicas.items()):
            if partition.topic not in assignment.topics or partition in local:
                continue
            rack = assignment.racks.get(partition)
            path = parse_rack(rack)
            in_rack = () if path is None else [b for b in replicas if paths.get(b) == path[:levels]]
            if partition not in assignment.racks:
                obstacle = Obstacle.UNREAD
            elif path is None:
                obstacle, rack = Obstacle.RACKLESS_MEMBER, None
            elif path[:levels] not in paths.values():
                obstacle = Obstacle.NO_BROKER_IN_RACK
            elif not in_rack:
                obstacle = Obstacle.NO_REPLICA_IN_RACK
            elif partition not in movable:
                obstacle = Obstacle.NOT_SELECTED
            elif all(broker in full for broker in in_rack):
                obstacle = Obstacle.LEADER_LIMIT
            else:
                obstacle = Obstacle.OTHER_READERS
            by_reason.setdefault((obstacle, rack), []).append(partition)
        found += [
            UnmetReads(assignment.name, obstacle, rack, tuple(partitions))
            for (obstacle, rack), partitions in sorted(
                by_reason.items(), key=lambda each: (-len(each[1]), each[1])
            )
        ]
    return tuple(found)


def _broker_paths(view: ClusterView, levels: int | None) -> dict[int, tuple[str, ...]]:
    """Return the rack of each live broker that has one."""
    return {
        broker: path[:levels]
        for broker, rack in view.racks().items()
        if (path := parse_rack(rack)) is not None
    }
