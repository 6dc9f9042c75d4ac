"""What a KafkaConsumer's fetcher does with follower reads: its own objects, and no broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import (
    KafkaConnectionError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailedError,
    UnknownError,
)
from kafka.protocol.consumer import FetchResponse

from assignors.kafka_python import LeaderRackAwareRangeAssignor, read_from_nearest
from placement_core import InvalidOptionError
from tests.support.kafka_python import Consumers, offline_consumers
from tests.support.nearest_reading import HERE, LEADER, NEAR, P0, P1, Reading


@pytest.fixture
def consumers() -> Iterator[Consumers]:
    with offline_consumers() as make:
        yield make


@pytest.fixture
def reading(consumers: Consumers) -> Reading:
    return Reading(consumers)


def test_fetches_go_to_the_nearest_in_sync(reading: Reading) -> None:
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


def test_a_lost_connection_sends_fetches_to_the_leader_until_the_follower_is_back(
    reading: Reading,
) -> None:
    reading.fetches()
    reading.fetcher._handle_fetch_error(NEAR, KafkaConnectionError())
    assert reading.fetches() == {LEADER: [0, 1]}
    assert reading.wants_metadata
    reading.late = 1.5
    assert reading.fetches() == {LEADER: [0, 1]}, "in sync by metadata of before"
    reading.metadata()
    assert reading.fetches() == {NEAR: [0, 1]}


@pytest.mark.parametrize("code", [1, 3, 6, 9, 29, 43, 56, 74, 75, 76, 78, 87, 100, -1])
def test_an_error_of_a_follower_is_asked_of_the_leader(reading: Reading, code: int) -> None:
    reading.fetches()
    reading.says(NEAR, error_code=code)
    assert reading.position() == 5
    assert reading.fetches() == {LEADER: [0], NEAR: [1]}
    assert reading.wants_metadata


def test_offsets_out_of_a_leaders_range_are_out_of_range(reading: Reading) -> None:
    reading.metadata(in_sync=(0,))
    reading.fetches()
    with pytest.raises(OffsetOutOfRangeError):
        reading.says(LEADER, error_code=1)


def test_who_was_asked_as_a_follower_is_not_believed_as_a_leader(reading: Reading) -> None:
    reading.fetches()
    reading.metadata(leaders=(NEAR, NEAR))
    reading.says(NEAR, error_code=1)
    assert reading.position() == 5


def test_an_error_of_the_partitions_that_a_follower_leads_is_as_ever(reading: Reading) -> None:
    reading.metadata(leaders=(NEAR, LEADER))
    assert reading.fetches() == {NEAR: [0, 1]}
    with pytest.raises(UnknownError):
        reading.says(NEAR, error_code=-1)
    assert reading.fetches() == {NEAR: [0, 1]}


def test_a_follower_that_denies_what_was_read_does_not_have_the_position_moved(
    reading: Reading,
) -> None:
    reading.fetches()
    diverging = FetchResponse.FetchableTopicResponse.PartitionData.EpochEndOffset
    reading.says(NEAR, diverging_epoch=diverging(epoch=0, end_offset=3))
    assert not reading.consumer._subscription.assignment[P0].awaiting_validation
    assert reading.fetches() == {LEADER: [0], NEAR: [1]}


def test_an_error_of_the_whole_answer_is_the_brokers(reading: Reading) -> None:
    reading.fetches()
    reading.answers(NEAR, error_code=-1)
    assert reading.fetches() == {LEADER: [0, 1]}


@pytest.mark.parametrize("code", [70, 71])
def test_a_session_that_a_broker_has_forgotten_is_no_failure(reading: Reading, code: int) -> None:
    reading.fetches()
    reading.answers(NEAR, error_code=code)
    assert reading.fetches() == {NEAR: [0, 1]}


def test_an_answer_without_an_error_keeps_the_follower(reading: Reading) -> None:
    reading.fetches()
    reading.says(NEAR)
    assert reading.fetches() == {NEAR: [0, 1]}


def test_a_silent_follower_is_left_though_its_fetch_is_on_its_way(reading: Reading) -> None:
    reading.fetches()
    reading.fetcher._nodes_with_pending_fetch_requests.add(NEAR)
    reading.late = 3.4
    assert reading.fetches() == {}
    reading.late = 3.6
    assert reading.fetches() == {LEADER: [0, 1]}


def test_a_broker_that_cannot_be_connected_to_is_not_waited_for(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = reading.consumer._client._manager
    monkeypatch.setattr(manager, "connection_delay", lambda node: 5.0 if node == NEAR else 0.0)
    assert reading.fetches() == {LEADER: [0, 1]}
    monkeypatch.undo()
    manager._auth_failures[NEAR] = SaslAuthenticationFailedError()
    assert reading.fetches() == {LEADER: [0, 1]}


def test_odd_metadata_leaves_the_choice_to_kafka_python(reading: Reading) -> None:
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


def test_a_leader_that_sends_the_consumer_elsewhere_is_followed(reading: Reading) -> None:
    reading.metadata(in_sync=(0,))
    reading.fetches()
    reading.says(LEADER, preferred_read_replica=2)
    assert reading.fetches() == {2: [0], LEADER: [1]}


@pytest.mark.parametrize("lost", [True, False])
def test_a_follower_that_a_leader_named_is_left_as_well(reading: Reading, lost: bool) -> None:
    reading.metadata(in_sync=(0,))
    reading.fetches()
    reading.says(LEADER, preferred_read_replica=2)
    reading.fetches()
    if lost:
        reading.fetcher._handle_fetch_error(2, KafkaConnectionError())
    else:
        reading.says(2, error_code=1)
    assert reading.position() == 5
    assert reading.fetches() == {LEADER: [0, 1]}


def test_what_is_no_longer_assigned_may_still_fail(reading: Reading) -> None:
    reading.fetches()
    reading.consumer.assign([P1])
    reading.fetcher._handle_fetch_error(NEAR, KafkaConnectionError())
    assert reading.fetches() == {LEADER: [1]}


def test_metadata_is_asked_for_as_often_as_the_policy_says(reading: Reading) -> None:
    reading.fetches()
    assert not reading.wants_metadata
    reading.late = 31
    reading.fetches()
    assert reading.wants_metadata


def test_brokers_are_not_told_the_rack(consumers: Consumers) -> None:
    reading = Reading(consumers, client_rack=HERE)
    for request, _ in reading.fetcher._create_fetch_requests().values():
        assert request.rack_id == ""


def test_it_is_asked_for_once_and_of_a_kafka_consumer(consumers: Consumers) -> None:
    consumer = consumers(RangePartitionAssignor)
    read_from_nearest(consumer, rack=HERE)
    with pytest.raises(InvalidOptionError, match="call it once"):
        read_from_nearest(consumer, rack=HERE)
    with pytest.raises(TypeError, match=r"is no kafka\.KafkaConsumer"):
        read_from_nearest(object(), rack=HERE)


@pytest.mark.parametrize("strategy", [LeaderRackAwareRangeAssignor, LeaderRackAwareRangeAssignor()])
def test_our_assignors_beside_it_are_warned_of(
    consumers: Consumers, caplog: pytest.LogCaptureFixture, strategy: Any
) -> None:
    read_from_nearest(consumers(RangePartitionAssignor), rack=HERE)
    assert not ours(caplog)
    read_from_nearest(consumers(strategy), rack=HERE)
    (warned,) = ours(caplog)
    assert "in vain" in warned


def test_an_unknown_rack_is_warned_of(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    read_from_nearest(consumers(RangePartitionAssignor), rack="/")
    (warned,) = ours(caplog)
    assert "reads from leaders" in warned


def ours(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings that are not kafka-python's."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "rackward.assignors" and record.levelno == logging.WARNING
    ]
