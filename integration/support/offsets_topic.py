"""What brokers stored of groups in ``__consumer_offsets``: commits and assignments, in order."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from integration.support.clients import PartitionId
from integration.support.topics import records_of
from rackward.testing import Cluster

TOPIC = "__consumer_offsets"

_GROUP_KEY = 2
"""Version of the key of a group's metadata; lower ones are of committed offsets."""

_GROUP_VALUES = (2, 3)
"""Versions of the metadata that this module reads; brokers of 3.9 to 4.3 write version 3."""


@dataclass(frozen=True)
class Commit:
    """A committed offset, None if it was removed; ``at`` is in seconds since the epoch."""

    at: float
    offset: int | None


@dataclass(frozen=True)
class Generation:
    """What each member was assigned in a generation, by client id and by member id."""

    number: int
    assigned: Mapping[tuple[str, str], frozenset[PartitionId]]


@dataclass(frozen=True)
class StoredGroup:
    """Commits by partition, and generations, in the order in which brokers stored them."""

    commits: Mapping[PartitionId, Sequence[Commit]]
    generations: Sequence[Generation]


def stored_groups(cluster: Cluster, *groups: str) -> dict[str, StoredGroup]:
    """Return what brokers stored of each group. Raise AssertionError if that takes too long."""
    commits: dict[str, dict[PartitionId, list[Commit]]] = {group: {} for group in groups}
    generations: dict[str, list[Generation]] = {group: [] for group in groups}
    for record in records_of(cluster, TOPIC):
        key, value = record.key, record.value
        (version,) = struct.unpack_from(">h", key)
        group, at = _string(key, 2)
        if version > _GROUP_KEY or group not in commits:
            continue
        if version == _GROUP_KEY:
            if value is not None:
                generations[group].append(_generation(value))
            continue
        topic, at = _string(key, at)
        (partition,) = struct.unpack_from(">i", key, at)
        offset = None if value is None else struct.unpack_from(">q", value, 2)[0]
        history = commits[group].setdefault((topic, partition), [])
        history.append(Commit(record.timestamp / 1000, offset))
    return {group: StoredGroup(commits[group], generations[group]) for group in groups}


def commit_history(cluster: Cluster, group: str) -> dict[PartitionId, list[int]]:
    """Return all offsets that ``group`` has committed, per partition, in order."""
    return {
        tp: [each.offset for each in commits if each.offset is not None]
        for tp, commits in stored_groups(cluster, group)[group].commits.items()
    }


def count_decreases(history: Mapping[PartitionId, Sequence[int]]) -> int:
    """Return the number of commits with a lower offset than the commit before."""
    return sum(b < a for offsets in history.values() for a, b in pairwise(offsets))


def _generation(value: bytes) -> Generation:
    """Return the generation in the value of a GroupMetadata record."""
    (version,) = struct.unpack_from(">h", value)
    assert version in _GROUP_VALUES, f"GroupMetadataValue has version {version}"
    _, at = _string(value, 2)
    (number,) = struct.unpack_from(">i", value, at)
    _, at = _string(value, at + 4)  # The protocol.
    _, at = _string(value, at)  # The leader.
    # Before the members is the time of the group's state.
    (members,) = struct.unpack_from(">i", value, at + 8)
    at += 12
    assigned = {}
    for _ in range(members):
        member_id, at = _string(value, at)
        if version >= 3:  # The instance id.
            _, at = _string(value, at)
        client_id, at = _string(value, at)
        _, at = _string(value, at)
        # Between are the timeouts of rebalance and session.
        _, at = _bytes(value, at + 8)
        assignment, at = _bytes(value, at)
        assigned[client_id, member_id] = _assignment(assignment)
    return Generation(number, assigned)


def _assignment(data: bytes) -> frozenset[PartitionId]:
    """Return the partitions of a ConsumerProtocolAssignment; no bytes are no partitions."""
    if not data:
        return frozenset()
    assigned = ConsumerProtocolAssignment.decode(data).assigned_partitions
    return frozenset((each.topic, number) for each in assigned for number in each.partitions)


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    end = at + 2 + max(length, 0)
    return data[at + 2 : end].decode(), end


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">i", data, at)
    end = at + 4 + max(length, 0)
    return data[at + 4 : end], end
