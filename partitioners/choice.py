"""Chooses the partitions of a producer's records without a key: nearest leaders first.

Partitions are grouped by the levels that their leader's rack shares with the producer's, nearest
first; for racks without levels that is "the same rack" and "another rack". The nearest group gets
all records, unless it is so small that one of its partitions would get more than ``max_share``
times an even share of the topic, if as much is written in each rack that leads: then the next
group gets the rest, and so on. With 36 partitions in three racks, of which the producer's rack
leads 2, and a ``max_share`` of 3::

    group          partitions   share of the rack's records  of the topic's, each
    same rack      2            min(1, 3 * 3 * 2/36) = 1/2   1/12  (3 times the even 1/36)
    other racks    34           the rest = 1/2

Within a group, partitions take turns in a shuffled order, so that producers do not write in step.
An adapter asks for the next partition once per batch, not per record: records stay together in
large batches (KIP-480). Apache's producer has the same preference since 4.4 (KIP-1123), without
levels and without a bound.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from assignors.rack_discovery import RackSource, resolve_rack
from placement_core import InvalidOptionError, parse_rack
from placement_core.racks import nearest_groups

log = logging.getLogger("rackward.partitioners")

LEADERS_MAX_AGE = 0.1
"""Seconds for which the leaders that were read from a client's metadata are used."""


def producer_rack(rack: str | RackSource | None) -> str | None:
    """Return the rack of a producer: given, or found as a consumer's is. Warn if there is none."""
    found = resolve_rack(rack, os.environ)
    if parse_rack(found) is None:
        log.warning(
            "This producer has no rack and writes to all racks: give one (rack, client.rack), or"
            " set RACKWARD_RACK"
        )
        return None
    return found


def valid_max_share(value: object) -> float:
    """Return ``value`` as a number of at least 1. Raise InvalidOptionError for anything else."""
    try:
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        share = 0.0
    if not 1 <= share < float("inf"):
        raise InvalidOptionError(
            f"max_share is {value!r}: give a number of at least 1, the maximum of a partition's"
            " share divided by an even share"
        )
    return share


class PartitionChooser:
    """Chooses partitions of one topic for one producer. Not safe for use by several threads."""

    def __init__(
        self, topic: str, rack: str, max_share: float, shuffle: random.Random | None = None
    ) -> None:
        path = parse_rack(rack)
        assert path is not None
        self._topic, self._rack, self._path = topic, rack, path
        self._max_share = max_share
        self._shuffle = shuffle or random.Random()
        self._leader_racks: Mapping[int, str | None] = {}
        self._groups: list[tuple[list[int], float]] = []
        self._turns: list[int] = []
        self._due: list[float] = []
        self._is_local = True

    def update(self, leader_racks: Mapping[int, str | None]) -> bool:
        """Set the writable partitions and their leaders' racks; return whether these are new."""
        if leader_racks == self._leader_racks:
            return False
        self._leader_racks = dict(leader_racks)
        self._groups = nearest_groups(self._path, leader_racks, self._max_share)
        for partitions, _ in self._groups:
            self._shuffle.shuffle(partitions)
        self._turns = [0] * len(self._groups)
        self._due = [0.0] * len(self._groups)
        is_local = any(parse_rack(rack) == self._path for rack in leader_racks.values())
        if leader_racks and is_local != self._is_local:
            self._is_local = is_local
            if is_local:
                log.info("topic=%r: rack %r has leaders again", self._topic, self._rack)
            else:
                log.warning(
                    "topic=%r: rack %r leads no partition; records go to other racks",
                    self._topic,
                    self._rack,
                )
        return True

    def candidates(self) -> Sequence[int]:
        """Return the partitions for the next batch, the one whose turn it is first.

        Empty if no partition is writable.
        """
        if not self._groups:
            return ()
        for group, (_, share) in enumerate(self._groups):
            self._due[group] += share
        group = max(range(len(self._due)), key=self._due.__getitem__)
        self._due[group] -= 1
        partitions = self._groups[group][0]
        turn = self._turns[group]
        self._turns[group] = (turn + 1) % len(partitions)
        return partitions[turn:] + partitions[:turn]


class MetadataChooser(PartitionChooser):
    """Chooses by the metadata of kafka-python or of aiokafka, whose classes have the same methods.

    ``topic_partition`` is the client's TopicPartition.
    """

    def __init__(
        self, topic: str, rack: str, max_share: float, topic_partition: Callable[[str, int], Any]
    ) -> None:
        super().__init__(topic, rack, max_share)
        self._topic_partition = topic_partition
        self._read_at = float("-inf")

    def writable(self, cluster: Any, *, leaders_changed: bool) -> Iterator[tuple[Any, int]]:
        """Yield each candidate as a TopicPartition, with its leader's broker.

        ``cluster`` is the client's ClusterMetadata. Without ``leaders_changed``, leaders that were
        read less than LEADERS_MAX_AGE ago serve again.
        """
        now = time.monotonic()
        if leaders_changed or now - self._read_at > LEADERS_MAX_AGE:
            self.update(self._read_leader_racks(cluster))
            self._read_at = now
        for candidate in self.candidates():
            partition = self._topic_partition(self._topic, candidate)
            leader = cluster.leader_for_partition(partition)
            if leader is not None and leader >= 0:
                yield partition, leader

    def _read_leader_racks(self, cluster: Any) -> dict[int, str | None]:
        """Return the racks of leaders; a partition whose leader is no broker is not writable."""
        racks: dict[int, str | None] = {}
        for partition in cluster.available_partitions_for_topic(self._topic) or ():
            leader = cluster.leader_for_partition(self._topic_partition(self._topic, partition))
            broker = cluster.broker_metadata(leader)
            if broker is not None:
                racks[partition] = broker.rack
        return racks
