"""Our coordinator in a consumer: what it claims, whom it can lead, what it warns of."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from kafka import TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.base import Generation
from kafka.errors import KafkaConfigurationError

from assignors.consumer_protocol import SubscriptionReader
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import LeaderRackAwareRangeAssignor as Range
from assignors.kafka_python.coordinator import RackAwareCoordinator
from tests.support.kafka_python import (
    Consumers,
    answer,
    claims,
    complete,
    joined,
    offline_consumers,
    perform,
    subscription_bytes,
)


@pytest.fixture
def consumers() -> Iterator[Consumers]:
    with offline_consumers() as make:
        yield make


def test_it_claims_what_the_consumer_holds_since_when_it_holds_it(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    assert claims(consumer) == ({}, -1)
    complete(consumer, 4, t=[2, 0])
    assert claims(consumer) == ({"t": [0, 2]}, 4)
    # A join whose sync failed: a later generation, and still what was assigned in 4.
    consumer._coordinator._generation = Generation(5, "m", Sticky.name)
    assert claims(consumer) == ({"t": [0, 2]}, 4)


def test_it_claims_nothing_that_was_lost(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    complete(consumer, 4, t=[0, 1])
    consumer._coordinator.reset_generation()
    consumer._net.run(consumer._coordinator._on_join_prepare_async, -1, "")
    assert claims(consumer)[0] == {}


def test_beside_an_eager_assignor_what_it_had_is_said_to_be_given_up(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"), RangePartitionAssignor)
    complete(consumer, 4, t=[0, 2])
    said = dict(consumer._coordinator.group_protocols())[Sticky.name].encode()
    read = SubscriptionReader().read(said)
    assert (read.rack, read.held, read.owned, read.generation) == ("a", {}, {"t": (0, 2)}, 4)


def test_it_claims_nothing_after_unsubscribe(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    complete(consumer, 4, t=[0, 1])
    consumer._subscription.unsubscribe()
    consumer.subscribe(["t"])
    assert claims(consumer)[0] == {}


def test_it_claims_what_another_strategy_was_given(consumers: Consumers) -> None:
    consumer = consumers(CooperativeStickyAssignor, Sticky(rack="a"))
    complete(consumer, 9, t=[1])
    assert claims(consumer) == ({"t": [1]}, 9)


def test_an_eager_strategy_claims_nothing(consumers: Consumers) -> None:
    consumer = consumers(Range(rack="a"))
    complete(consumer, 9, t=[1])
    assert claims(consumer, Range.name) == ({}, -1)


def test_one_instance_may_serve_two_consumers(consumers: Consumers) -> None:
    shared = Sticky(rack="a")
    one, other = consumers(shared), consumers(shared)
    complete(one, 3, t=[0])
    complete(other, 4, t=[1])
    assert (claims(one), claims(other)) == (({"t": [0]}, 3), ({"t": [1]}, 4))


def test_classes_are_as_good_as_instances(consumers: Consumers) -> None:
    consumer = consumers(Sticky)
    complete(consumer, 3, t=[0])
    assert claims(consumer) == ({"t": [0]}, 3)


def test_what_permits_no_common_protocol_is_refused(consumers: Consumers) -> None:
    with pytest.raises(KafkaConfigurationError):
        consumers(Range(), CooperativeStickyAssignor)
    assert not consumers(Range(), Sticky())._coordinator.cooperative
    assert consumers(Sticky(), CooperativeStickyAssignor)._coordinator.cooperative


def test_consumers_without_our_assignors_are_as_ever(consumers: Consumers) -> None:
    consumer = consumers(RangePartitionAssignor)
    assert isinstance(consumer._coordinator, RackAwareCoordinator)
    answer(consumer, t=[0, 1])
    assert perform(
        consumer, joined("m0", subscription_bytes(["t"], version=0)), protocol="range"
    ) == {"m0": {"t": [0, 1]}}


def test_the_other_strategy_of_a_rolling_change_is_as_ever(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"), CooperativeStickyAssignor)
    answer(consumer, t=[0, 1])
    for protocol in ("cooperative-sticky", Sticky.name):
        member = joined("m0", subscription_bytes(["t"], version=1))
        assert perform(consumer, member, protocol=protocol) == {"m0": {"t": [0, 1]}}


@pytest.mark.parametrize(
    "garbage", [b"", b"\0", b"\0\3\x7f\xff\xff\xff", b"\xff\xff", b"\0\0\0\0\0\1\0\2\xff\xfe"]
)
def test_a_member_that_cannot_be_read_gets_nothing_and_the_rest_all(
    consumers: Consumers, garbage: bytes
) -> None:
    consumer = consumers(Sticky(rack="a"))
    answer(consumer, t=[0, 1, 2])
    good = joined("m0", subscription_bytes(["t"], rack="a"))
    assert perform(consumer, good, joined("m1", garbage)) == {"m0": {"t": [0, 1, 2]}, "m1": {}}


def test_a_topic_name_that_no_topic_can_have_is_passed_over(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    answer(consumer, t=[0])
    odd = joined("m0", subscription_bytes(["t", "..", "no such/name", ""], rack="a"))
    assert perform(consumer, odd) == {"m0": {"t": [0]}}


def test_client_rack_is_warned_of_once(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    shared = Sticky(rack="a")
    for _ in range(2):
        consumers(shared, client_rack="a")
    assert caplog.text.count("client_rack='a' is set") == 1
    caplog.clear()
    consumers(RangePartitionAssignor, client_rack="a")
    assert "client_rack" not in caplog.text


def test_a_redirect_to_a_follower_is_warned_of_once(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consumers(Sticky(rack="a"))
    complete(consumer, 1, t=[0])
    answer(consumer, t=[0])
    assert "followers" not in caplog.text
    state = consumer._subscription.assignment[TopicPartition("t", 0)]
    state.update_preferred_read_replica(2, float("inf"))
    for _ in range(2):
        answer(consumer, t=[0])
    assert caplog.text.count("brokers send this consumer to followers (broker 2 for t-0)") == 1


def test_the_line_names_group_and_generation_and_the_record_does(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rackward.assignors")
    strategy = Sticky(rack="a")
    consumer = consumers(strategy)
    assert strategy.last_assignment() is None
    answer(consumer, t=[0])
    consumer._coordinator._generation = Generation(12, "m0", Sticky.name)
    perform(consumer, joined("m0", subscription_bytes(["t"], rack="a")))
    assert caplog.text.count("group g generation 12: 1 members, 1 topics, 1 partitions") == 1
    last = strategy.last_assignment("g")
    assert last is not None
    assert (last.group, last.generation, last.partitions) == ("g", 12, 1)
    assert strategy.assignments() == (last,)
    assert strategy.last_assignment("another") is None
