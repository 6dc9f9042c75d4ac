"""A producer for aiokafka whose records without a key go to leaders in its own rack.

aiokafka calls its partitioner without the topic, so the producer overrides ``_partition``.
"""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.producer.message_accumulator import MessageAccumulator, MessageBatch

from assignors.library_internals import Internals, check_internals
from assignors.rack_discovery import RackSource
from partitioners.choice import MetadataChooser, producer_rack, valid_max_share
from placement_core.racks import DEFAULT_MAX_SHARE

SUPPORTED = "aiokafka>=0.13,<0.15"

INTERNALS: Internals = {
    AIOKafkaProducer: [
        "_partition(self, topic, partition, key, value, serialized_key, serialized_value)",
        "self._metadata",
        "self._message_accumulator",
    ],
    MessageAccumulator: ["self._batches", "self._batch_size"],
    MessageBatch: ["self._builder"],
}
"""What the producer overrides or reads; see `assignors.library_internals`."""

RECORD_OVERHEAD = 24
"""Bytes of a record without key and headers, besides its value, at most (message format 2)."""


class _Topic:
    """The chooser of a topic, and the partition that its records without a key go to."""

    __slots__ = ("chooser", "leader", "partition", "room")

    def __init__(self, chooser: MetadataChooser) -> None:
        self.chooser = chooser
        self.partition: Any = None
        """A TopicPartition; None before the first choice."""
        self.leader = -1
        self.room = 0
        """Bytes until the next choice: the room in the batch when the partition was chosen."""


class RackAwareProducer(AIOKafkaProducer):  # type: ignore[misc]
    """AIOKafkaProducer that sends records without a key to leaders in the producer's rack.

    ``RackAwareProducer(rack="a", bootstrap_servers=...)``. One partition gets ``max_batch_size``
    bytes of such records, then the next (KIP-794), the one with the fewest queued batches. If no
    leader is in the rack, all partitions with a leader are used, until one is. Records with a key
    go where aiokafka sends them, and so does ``send_batch``.

    rack
        Where this producer runs; None: see :mod:`assignors.rack_discovery`. Without a rack this is
        an AIOKafkaProducer.
    max_share
        The maximum of a partition's share of this producer's records, as a multiple of an even
        share; see :mod:`partitioners.choice`.

    All other arguments are those of AIOKafkaProducer. Raises InvalidOptionError, and
    UnsupportedClientError for an aiokafka with other internals.
    """

    def __init__(
        self,
        *,
        rack: str | RackSource | None = None,
        max_share: float = DEFAULT_MAX_SHARE,
        **settings: Any,
    ) -> None:
        check_internals(INTERNALS, SUPPORTED)
        self._max_share = valid_max_share(max_share)
        self._rack = producer_rack(rack)
        self._topics: dict[str, _Topic] = {}
        super().__init__(**settings)

    def _partition(
        self,
        topic: str,
        partition: int | None,
        key: Any,
        value: Any,
        serialized_key: bytes | None,
        serialized_value: bytes | None,
    ) -> int:
        if partition is None and serialized_key is None and self._rack is not None:
            state = self._topics.get(topic)
            if state is None:
                chooser = MetadataChooser(topic, self._rack, self._max_share, TopicPartition)
                state = self._topics[topic] = _Topic(chooser)
            state.room -= len(serialized_value or b"") + RECORD_OVERHEAD
            chosen = state.partition
            moved = chosen is None or self._metadata.leader_for_partition(chosen) != state.leader
            if state.room >= 0 and not moved:
                return int(chosen.partition)
            if self._choose(state, leaders_changed=moved):
                state.room -= len(serialized_value or b"") + RECORD_OVERHEAD
                return int(state.partition.partition)
        return int(
            super()._partition(topic, partition, key, value, serialized_key, serialized_value)
        )

    def _choose(self, state: _Topic, *, leaders_changed: bool) -> bool:
        """Set the partition for the next batch; return False if the topic has no writable one."""
        batches = self._message_accumulator._batches
        fewest = float("inf")
        state.partition = None
        for partition, leader in state.chooser.writable(
            self._metadata, leaders_changed=leaders_changed
        ):
            queued = batches.get(partition, ())
            if len(queued) < fewest:
                fewest = len(queued)
                state.partition, state.leader = partition, leader
                if not queued:
                    break
        if state.partition is None:
            return False
        open_batches = batches.get(state.partition)
        used = open_batches[-1]._builder.size() if open_batches else 0
        state.room = self._message_accumulator._batch_size - used
        return True
