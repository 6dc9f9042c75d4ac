"""A KafkaConsumer's fetcher that reads from followers, with constructed responses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import (
    KafkaConnectionError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailedError,
    UnknownError,
)
from kafka.protocol.consumer import FetchResponse
from kafka.structs import OffsetAndMetadata

from assignors.kafka_python import (
    LeaderRackAwareRangeAssignor,
    NearestPolicy,
    read_from_nearest,
)
from assignors.kafka_python.nearest_replica import NearestReplicas
from placement_core import InvalidOptionError
from tests.support.kafka_python import Consumers, metadata_response

RACKS: dict[int, str | None] = {0: "/dc1/r1", 1: "/dc2/r1", 2: "/dc3/r1"}
CLIENT_RACK = "/dc2/r9"
LEADER, NEAR = 0, 1
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Reading:
    """A consumer at offset 5 of two partitions, its clock, and the fetches that it would send.

    The clock is ``late`` seconds after the last metadata response.
    """

    def __init__(self, consumers: Consumers, **config: Any) -> None:
        self.consumer = consumers(
            RangePartitionAssignor, topics=(), auto_offset_reset="none", **config
        )
        self.fetcher = self.consumer._fetcher
        self.late = 0.0
        self.requested_metadata = False
        self.metadata()
        self.consumer.assign([P0, P1])
        for tp in (P0, P1):
            self.consumer._subscription.seek(tp, OffsetAndMetadata(5, "", 0))
        cluster = self.consumer._cluster
        self.replicas = NearestReplicas(
            self.fetcher,
            CLIENT_RACK,
            NearestPolicy(backoff=1),
            lambda: cluster._last_successful_refresh_ms / 1000 + self.late,
        )

    def metadata(
        self,
        in_sync: Sequence[int] | None = (0, 1, 2),
        leaders: Sequence[int] = (LEADER, LEADER),
        racks: Mapping[int, str | None] = RACKS,
    ) -> None:
        """Receive metadata with these replicas in sync, leaders and racks."""
        response = metadata_response(racks, {"t": leaders})
        for partition in response.topics[0].partitions:
            partition.replica_nodes, partition.isr_nodes = [0, 1, 2], in_sync
        self.consumer._cluster.update_metadata(response)

    def fetches(self) -> dict[int, list[int]]:
        """Return the partitions that would be fetched now, by broker.

        Sets ``requested_metadata`` to whether metadata was requested meanwhile.
        """
        cluster = self.consumer._cluster
        # Of this thread: kafka-python's I/O thread requests metadata too.
        requests_by: list[int] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                cluster, "request_update", lambda: requests_by.append(threading.get_ident())
            )
            requests = self.fetcher._create_fetch_requests()
        self.requested_metadata = threading.get_ident() in requests_by
        return {
            broker: sorted(tp.partition for tp in offsets)
            for broker, (_, offsets) in requests.items()
        }

    def respond_p0(self, broker: int, **fields: Any) -> None:
        """Handle the response of ``broker`` to a fetch of partition 0 at offset 5."""
        topic = FetchResponse.FetchableTopicResponse
        partition = topic.PartitionData(
            partition_index=0,
            high_watermark=9,
            last_stable_offset=9,
            log_start_offset=0,
            aborted_transactions=None,
            records=b"",
            **{"error_code": 0, "diverging_epoch": None, **fields},
        )
        self.respond(broker, responses=[topic(topic="t", partitions=[partition])])

    def respond(self, broker: int, responses: Sequence[Any] = (), error_code: int = 0) -> None:
        """Handle a response of ``broker`` to its last fetch."""
        response = FetchResponse(
            throttle_time_ms=0, error_code=error_code, session_id=0, responses=list(responses)
        )
        decoded = FetchResponse.decode(
            response.encode(version=12, header=False), version=12, header=False
        )
        session = self.fetcher._session_handlers[broker]
        session.session_partitions = {P0: session.session_partitions[P0]}
        self.fetcher._handle_fetch_response(broker, {P0: 5, P1: 5}, 0.0, decoded)
        self.fetcher.fetched_records()

    def position(self) -> int | None:
        """Return the consumer's position in partition 0."""
        position = self.consumer._subscription.assignment[P0].position
        return position and int(position.offset)


@pytest.fixture
def reading(consumers: Consumers) -> Reading:
    return Reading(consumers)


def test_fetches_go_to_the_nearest_replica_in_sync(reading: Reading) -> None:
    assert reading.fetches() == {NEAR: [0, 1]}
    assert reading.replicas.read_from == {P0: NEAR, P1: NEAR}
    reading.metadata(in_sync=(0, 2))
    assert reading.fetches() == {LEADER: [0, 1]}
    reading.metadata(leaders=(LEADER, 2))
    reading.metadata(leaders=(LEADER, 2), in_sync=(0, 2))
    assert reading.fetches() == {LEADER: [0], 2: [1]}
    reading.consumer.assign([P1])
    reading.consumer._subscription.seek(P1, 5)
    reading.fetches()
    assert reading.replicas.read_from == {P1: 2}


def test_after_a_lost_connection_the_leader_is_read_until_newer_metadata(
    reading: Reading,
) -> None:
    reading.fetches()
    reading.fetcher._handle_fetch_error(NEAR, KafkaConnectionError())
    assert reading.fetches() == {LEADER: [0, 1]}
    assert reading.requested_metadata
    reading.late = 1.5
    assert reading.fetches() == {LEADER: [0, 1]}, "the metadata is older than the failure"
    reading.metadata()
    assert reading.fetches() == {NEAR: [0, 1]}


@pytest.mark.parametrize("code", [1, 3, 6, 9, 29, 43, 56, 74, 75, 76, 78, 87, 100, -1])
def test_after_an_error_of_a_follower_the_leader_is_read(reading: Reading, code: int) -> None:
    reading.fetches()
    reading.respond_p0(NEAR, error_code=code)
    assert reading.position() == 5
    assert reading.fetches() == {LEADER: [0], NEAR: [1]}
    assert reading.requested_metadata


def test_offset_out_of_range_of_a_leader_is_raised(reading: Reading) -> None:
    reading.metadata(in_sync=(0,))
    reading.fetches()
    with pytest.raises(OffsetOutOfRangeError):
        reading.respond_p0(LEADER, error_code=1)


def test_the_response_of_a_follower_that_became_leader_is_one_of_a_follower(
    reading: Reading,
) -> None:
    reading.fetches()
    reading.metadata(leaders=(NEAR, NEAR))
    reading.respond_p0(NEAR, error_code=1)
    assert reading.position() == 5


def test_an_error_of_a_partition_that_the_broker_leads_is_raised(reading: Reading) -> None:
    reading.metadata(leaders=(NEAR, LEADER))
    assert reading.fetches() == {NEAR: [0, 1]}
    with pytest.raises(UnknownError):
        reading.respond_p0(NEAR, error_code=-1)
    assert reading.fetches() == {NEAR: [0, 1]}


def test_a_diverging_epoch_of_a_follower_does_not_move_the_position(
    reading: Reading,
) -> None:
    reading.fetches()
    diverging = FetchResponse.FetchableTopicResponse.PartitionData.EpochEndOffset
    reading.respond_p0(NEAR, diverging_epoch=diverging(epoch=0, end_offset=3))
    assert not reading.consumer._subscription.assignment[P0].awaiting_validation
    assert reading.fetches() == {LEADER: [0], NEAR: [1]}


def test_an_error_of_the_whole_response_concerns_all_partitions(reading: Reading) -> None:
    reading.fetches()
    reading.respond(NEAR, error_code=-1)
    assert reading.fetches() == {LEADER: [0, 1]}


@pytest.mark.parametrize("code", [70, 71])
def test_an_expired_fetch_session_is_no_failure(reading: Reading, code: int) -> None:
    reading.fetches()
    reading.respond(NEAR, error_code=code)
    assert reading.fetches() == {NEAR: [0, 1]}


def test_after_a_response_without_an_error_the_follower_is_read(reading: Reading) -> None:
    reading.fetches()
    reading.respond_p0(NEAR)
    assert reading.fetches() == {NEAR: [0, 1]}


def test_after_the_response_timeout_the_leader_is_read(reading: Reading) -> None:
    reading.fetches()
    reading.fetcher._nodes_with_pending_fetch_requests.add(NEAR)
    reading.late = 3.4
    assert reading.fetches() == {}
    reading.late = 3.6
    assert reading.fetches() == {LEADER: [0, 1]}


def test_a_broker_in_connection_backoff_or_with_failed_login_is_not_read(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = reading.consumer._client._manager
    monkeypatch.setattr(manager, "connection_delay", lambda node: 5.0 if node == NEAR else 0.0)
    assert reading.fetches() == {LEADER: [0, 1]}
    monkeypatch.undo()
    manager._auth_failures[NEAR] = SaslAuthenticationFailedError()
    assert reading.fetches() == {LEADER: [0, 1]}


def test_with_incomplete_metadata_kafka_python_chooses(reading: Reading) -> None:
    reading.metadata(in_sync=None)
    assert reading.fetches() == {LEADER: [0, 1]}
    reading.metadata(leaders=(-1, LEADER))
    assert reading.fetches() == {NEAR: [1]}
    reading.metadata(in_sync=(0, 1, 77), racks={0: "/dc1/r1"})
    assert reading.fetches() == {LEADER: [0, 1]}
    reading.metadata(racks={0: None, 1: "", 2: "/"})
    assert reading.fetches() == {LEADER: [0, 1]}
    reading.consumer._cluster._partitions = {}
    assert reading.fetches() == {}


def test_a_redirect_by_the_leader_is_followed(reading: Reading) -> None:
    reading.metadata(in_sync=(0,))
    reading.fetches()
    reading.respond_p0(LEADER, preferred_read_replica=2)
    assert reading.fetches() == {2: [0], LEADER: [1]}


@pytest.mark.parametrize("lost", [True, False])
def test_a_follower_that_the_leader_redirected_to_is_not_read_after_a_failure(
    reading: Reading, lost: bool
) -> None:
    reading.metadata(in_sync=(0,))
    reading.fetches()
    reading.respond_p0(LEADER, preferred_read_replica=2)
    reading.fetches()
    if lost:
        reading.fetcher._handle_fetch_error(2, KafkaConnectionError())
    else:
        reading.respond_p0(2, error_code=1)
    assert reading.position() == 5
    assert reading.fetches() == {LEADER: [0, 1]}


def test_a_fetch_of_a_revoked_partition_may_fail(reading: Reading) -> None:
    reading.fetches()
    reading.consumer.assign([P1])
    reading.fetcher._handle_fetch_error(NEAR, KafkaConnectionError())
    assert reading.fetches() == {LEADER: [1]}


def test_metadata_is_requested_at_the_interval_of_the_policy(reading: Reading) -> None:
    reading.fetches()
    assert not reading.requested_metadata
    reading.late = 31
    reading.fetches()
    assert reading.requested_metadata


def test_the_rack_is_not_sent_to_brokers(consumers: Consumers) -> None:
    reading = Reading(consumers, client_rack=CLIENT_RACK)
    for request, _ in reading.fetcher._create_fetch_requests().values():
        assert request.rack_id == ""


def test_a_second_call_and_a_wrong_type_are_refused(consumers: Consumers) -> None:
    consumer = consumers(RangePartitionAssignor)
    read_from_nearest(consumer, rack=CLIENT_RACK)
    with pytest.raises(InvalidOptionError, match="call read_from_nearest once"):
        read_from_nearest(consumer, rack=CLIENT_RACK)
    with pytest.raises(TypeError, match=r"is not a kafka\.KafkaConsumer"):
        read_from_nearest(object(), rack=CLIENT_RACK)


@pytest.mark.parametrize("strategy", [LeaderRackAwareRangeAssignor, LeaderRackAwareRangeAssignor()])
def test_a_combination_with_our_assignors_is_logged(
    consumers: Consumers, caplog: pytest.LogCaptureFixture, strategy: Any
) -> None:
    read_from_nearest(consumers(RangePartitionAssignor), rack=CLIENT_RACK)
    assert not warnings(caplog)
    read_from_nearest(consumers(strategy), rack=CLIENT_RACK)
    (warning,) = warnings(caplog)
    assert "leader-rack-aware assignment has no effect" in warning


def test_an_unknown_rack_is_logged(consumers: Consumers, caplog: pytest.LogCaptureFixture) -> None:
    read_from_nearest(consumers(RangePartitionAssignor), rack="/")
    (warning,) = warnings(caplog)
    assert "reads from leaders" in warning


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings that are not kafka-python's."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "rackward.assignors" and record.levelno == logging.WARNING
    ]
