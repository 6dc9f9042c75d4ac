"""A partitioner for kafka-python's KafkaProducer."""

from __future__ import annotations

import threading
from typing import Any

from kafka import TopicPartition
from kafka.partitioner import DefaultPartitioner

from assignors.rack_discovery import RackSource
from partitioners.choice import MetadataChooser, producer_rack, valid_max_share
from placement_core.racks import DEFAULT_MAX_SHARE

TURN_BYTES = 16 * 1024
"""Bytes of values that a partition gets at least, as much as kafka-python's batches (KIP-794).

The batches of a leader that responds are sent with few records. Those of one that is down grow: if
each partition got one batch, it would get most records.
"""


class _Sticky:
    """The partition that a topic's records without a key go to, and its leader's broker."""

    __slots__ = ("last", "leader", "partition", "size")

    def __init__(self, partition: TopicPartition, leader: int) -> None:
        self.partition = partition
        self.leader = leader
        self.last = self.size = 0
        """Bytes of the last value that it has got, and of all."""


class RackAwarePartitioner(DefaultPartitioner):  # type: ignore[misc]
    """Sends records without a key to partitions whose leader is in the producer's rack.

    ``KafkaProducer(partitioner=RackAwarePartitioner(rack="a"))``. One partition gets 16 KB of such
    records, in whole batches, then the next. If no leader is in the rack, all partitions with a
    leader are used, until one is. Records with a key go where kafka-python's default sends them.

    rack
        Where this producer runs; None: see :mod:`assignors.rack_discovery`. Without a rack the
        partitioner is kafka-python's default.
    max_share
        The maximum of a partition's share of this producer's records, as a multiple of an even
        share; see :mod:`partitioners.choice`.

    Each producer needs a partitioner of its own. Raises InvalidOptionError.
    """

    def __init__(
        self, rack: str | RackSource | None = None, *, max_share: float = DEFAULT_MAX_SHARE
    ) -> None:
        self._max_share = valid_max_share(max_share)
        self._rack = producer_rack(rack)
        self._lock = threading.Lock()
        self._sticky: dict[str, _Sticky] = {}
        self._choosers: dict[str, MetadataChooser] = {}

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int:
        """Return the partition of a record. Called by the producer for each record."""
        if serialized_key is None and self._rack is not None:
            sticky = self._sticky.get(topic)
            if (
                sticky is not None
                and cluster.leader_for_partition(sticky.partition) == sticky.leader
            ):
                sticky.last = len(serialized_value or b"")
                sticky.size += sticky.last
                return int(sticky.partition.partition)
            with self._lock:
                chosen = self._choose(topic, cluster, self._rack, leaders_changed=True)
            if chosen is not None:
                return chosen
        default: int = super().partition(
            topic, key, serialized_key, value, serialized_value, cluster
        )
        return default

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """Choose another partition, unless the last one has got too few bytes.

        Called when a record without a key would begin a batch.
        """
        with self._lock:
            sticky = self._sticky.get(topic)
            # Another thread may have chosen already.
            if sticky is not None and sticky.partition.partition == prev_partition:
                # The producer asks again for the partition of the last record.
                sticky.size -= sticky.last
                if sticky.size < TURN_BYTES:
                    return
                assert self._rack is not None
                self._choose(topic, cluster, self._rack)

    def _choose(
        self, topic: str, cluster: Any, rack: str, *, leaders_changed: bool = False
    ) -> int | None:
        """Return the next partition; None if the topic has no writable one."""
        chooser = self._choosers.get(topic)
        if chooser is None:
            chooser = MetadataChooser(topic, rack, self._max_share, TopicPartition)
            self._choosers[topic] = chooser
        for partition, leader in chooser.writable(cluster, leaders_changed=leaders_changed):
            self._sticky[topic] = _Sticky(partition, leader)
            return int(partition.partition)
        self._sticky.pop(topic, None)
        return None
