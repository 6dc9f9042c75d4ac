"""What members with a given assignment read locally, and why they do not read the rest locally."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.leaders.model import CurrentAssignment, Obstacle, UnmetReads
from placement_core.racks import parse_rack


def local_reads(
    view: ClusterView,
    assignment: CurrentAssignment,
    leaders: Mapping[TopicPartition, int],
    levels: int | None = None,
) -> dict[TopicPartition, int]:
    """Return how many of its readers read a partition in the rack of its leader, if any do.

    ``leaders`` has the broker that leads each partition; racks are compared by ``levels``.
    """
    paths = _broker_paths(view, levels)
    local = {}
    for partition in sorted(view.replicas):
        leader_path = paths.get(leaders.get(partition, -1))
        if leader_path is not None and (
            count := sum(
                path is not None and path[:levels] == leader_path
                for path in map(parse_rack, assignment.readers(partition))
            )
        ):
            local[partition] = count
    return local


def unmet_reads(
    view: ClusterView,
    assignments: Sequence[CurrentAssignment],
    leaders: Mapping[TopicPartition, int],
    *,
    movable: Collection[TopicPartition],
    full: Collection[int],
    fits: Callable[[TopicPartition, int], bool],
    levels: int | None = None,
) -> tuple[UnmetReads, ...]:
    """Return the partitions that are not read locally with ``leaders``, by group, reason and rack.

    ``movable`` are the partitions whose leader may be chosen, ``full`` the brokers that may not
    lead more partitions. ``fits`` tells whether a broker may serve the bytes of one more.
    """
    paths = _broker_paths(view, levels)
    found = []
    for assignment in assignments:
        by_reason: dict[tuple[Obstacle, str | None], list[TopicPartition]] = {}
        for partition, replicas in sorted(view.replicas.items()):
            if partition.topic not in assignment.topics:
                continue
            leader_path = paths.get(leaders.get(partition, -1))
            racks = assignment.readers(partition)
            if not racks:
                by_reason.setdefault((Obstacle.UNREAD, None), []).append(partition)
            for rack in dict.fromkeys(racks):
                path = parse_rack(rack)
                if path is None:
                    by_reason.setdefault((Obstacle.RACKLESS_MEMBER, None), []).append(partition)
                    continue
                if path[:levels] == leader_path:
                    continue
                in_rack = [broker for broker in replicas if paths.get(broker) == path[:levels]]
                if path[:levels] not in paths.values():
                    obstacle = Obstacle.NO_BROKER_IN_RACK
                elif not in_rack:
                    obstacle = Obstacle.NO_REPLICA_IN_RACK
                elif partition not in movable:
                    obstacle = Obstacle.NOT_SELECTED
                elif all(broker in full for broker in in_rack):
                    obstacle = Obstacle.LEADER_LIMIT
                elif all(broker in full or not fits(partition, broker) for broker in in_rack):
                    obstacle = Obstacle.BYTE_LIMIT
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
