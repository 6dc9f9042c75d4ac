"""A KafkaConsumer that reads from the nearest replica, with no broker to talk to."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.protocol.consumer import FetchResponse
from kafka.structs import OffsetAndMetadata

from assignors.kafka_python import NearestPolicy
from assignors.kafka_python.nearest_fetcher import NearestReplicas
from tests.support.kafka_python import Consumers, metadata_response

RACKS: dict[int, str | None] = {0: "/dc1/r1", 1: "/dc2/r1", 2: "/dc3/r1"}
HERE = "/dc2/r9"
LEADER, NEAR = 0, 1
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Reading:
    """A consumer at offset 5 of two partitions, a clock, and what it would fetch from where."""

    def __init__(self, consumers: Consumers, **config: Any) -> None:
        self.consumer = consumers(
            RangePartitionAssignor, topics=(), auto_offset_reset="none", **config
        )
        self.fetcher = self.consumer._fetcher
        self.late = 0.0
        self.wants_metadata = False
        self.metadata()
        self.consumer.assign([P0, P1])
        for place in (P0, P1):
            self.consumer._subscription.seek(place, OffsetAndMetadata(5, "", 0))
        cluster = self.consumer._cluster
        self.replicas = NearestReplicas(
            self.fetcher,
            HERE,
            NearestPolicy(back_off=1),
            lambda: cluster._last_successful_refresh_ms / 1000 + self.late,
        )

    def metadata(
        self,
        in_sync: Sequence[int] | None = (0, 1, 2),
        leaders: Sequence[int] = (LEADER, LEADER),
        racks: Mapping[int, str | None] = RACKS,
    ) -> None:
        """Brokers answer; the clock stands at ``late`` seconds after that."""
        answer = metadata_response(racks, {"t": leaders})
        for partition in answer.topics[0].partitions:
            partition.replica_nodes, partition.isr_nodes = [0, 1, 2], in_sync
        self.consumer._cluster.update_metadata(answer)

    def fetches(self) -> dict[int, list[int]]:
        """The brokers that would be asked now, each of which partitions.

        ``wants_metadata`` is whether metadata was asked for meanwhile.
        """
        cluster, asked = self.consumer._cluster, []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cluster, "request_update", lambda: asked.append(threading.get_ident()))
            requests = self.fetcher._create_fetch_requests()
        self.wants_metadata = threading.get_ident() in asked
        return {
            broker: sorted(place.partition for place in offsets)
            for broker, (_, offsets) in requests.items()
        }

    def says(self, broker: int, **fields: Any) -> None:
        """``broker`` answers the fetch of partition 0 at offset 5, and the consumer looks."""
        topic = FetchResponse.FetchableTopicResponse
        filled = {"error_code": 0, "diverging_epoch": None, **fields}
        partition = topic.PartitionData(
            partition_index=0,
            high_watermark=9,
            last_stable_offset=9,
            log_start_offset=0,
            aborted_transactions=None,
            records=b"",
            **filled,
        )
        self.answers(broker, responses=[topic(topic="t", partitions=[partition])])

    def answers(self, broker: int, responses: Sequence[Any] = (), error_code: int = 0) -> None:
        answer = FetchResponse(
            throttle_time_ms=0, error_code=error_code, session_id=0, responses=list(responses)
        )
        decoded = FetchResponse.decode(
            answer.encode(version=12, header=False), version=12, header=False
        )
        session = self.fetcher._session_handlers[broker]
        session.session_partitions = {P0: session.session_partitions[P0]}
        self.fetcher._handle_fetch_response(broker, {P0: 5, P1: 5}, 0.0, decoded)
        self.fetcher.fetched_records()

    def position(self) -> int | None:
        found = self.consumer._subscription.assignment[P0].position
        return found and int(found.offset)
