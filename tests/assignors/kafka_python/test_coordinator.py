"""The coordinator in a consumer: the partitions it claims, the groups it leads, its warnings."""

from __future__ import annotations

import logging
from typing import Any

import kafka.consumer.group
import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.base import Generation
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import KafkaConfigurationError

from assignors.consumer_protocol import SubscriptionReader
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import LeaderRackAwareRangeAssignor as Range
from assignors.kafka_python import enable_workarounds
from tests.support.kafka_python import (
    Consumers,
    claims,
    complete,
    joined,
    perform,
    receive_metadata,
    subscription_bytes,
)


def test_claims_are_owned_partitions_and_their_generation(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    assert claims(consumer) == ({}, -1)
    complete(consumer, 4, t=[2, 0])
    assert claims(consumer) == ({"t": [0, 2]}, 4)
    # A join whose SyncGroup failed: a later generation, but the assignment is that of 4.
    consumer._coordinator._generation = Generation(5, "m", Sticky.name)
    assert claims(consumer) == ({"t": [0, 2]}, 4)


def test_beside_an_eager_assignor_owned_ones_are_sent_as_revoked(
    consumers: Consumers,
) -> None:
    consumer = consumers(Sticky(rack="a"), RangePartitionAssignor)
    complete(consumer, 4, t=[0, 2])
    encoded = dict(consumer._coordinator.group_protocols())[Sticky.name].encode()
    subscription = SubscriptionReader().read(encoded)
    assert (subscription.rack, subscription.generation) == ("a", 4)
    assert (subscription.released, subscription.owned) == (True, {"t": (0, 2)})


def test_nothing_is_claimed_after_unsubscribe(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    complete(consumer, 4, t=[0, 1])
    consumer._subscription.unsubscribe()
    consumer.subscribe(["t"])
    assert claims(consumer)[0] == {}


def test_an_eager_strategy_claims_nothing(consumers: Consumers) -> None:
    consumer = consumers(Range(rack="a"))
    complete(consumer, 9, t=[1])
    assert claims(consumer, Range.name) == ({}, -1)


def test_one_assignor_may_be_given_to_two_consumers(consumers: Consumers) -> None:
    shared = Sticky(rack="a")
    one, other = consumers(shared), consumers(shared)
    complete(one, 3, t=[0])
    complete(other, 4, t=[1])
    assert (claims(one), claims(other)) == (({"t": [0]}, 3), ({"t": [1]}, 4))


def test_strategies_without_a_common_protocol_are_refused(consumers: Consumers) -> None:
    with pytest.raises(KafkaConfigurationError):
        consumers(Range(), CooperativeStickyAssignor)
    assert not consumers(Range(), Sticky())._coordinator.cooperative
    assert consumers(Sticky(), CooperativeStickyAssignor)._coordinator.cooperative


def test_an_invalid_topic_name_is_ignored(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    receive_metadata(consumer, t=[0])
    member_0 = joined("m0", subscription_bytes(["t", "..", "no such/name", ""], rack="a"))
    assert perform(consumer, member_0) == {"m0": {"t": [0]}}


def rack_of(consumer: Any) -> str | None:
    """Return the rack that the consumer joins with."""
    encoded = dict(consumer._coordinator.group_protocols())[Sticky.name].encode()
    return SubscriptionReader().read(encoded).rack


def test_client_rack_is_the_rack_of_an_assignor_without_one(
    consumers: Consumers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RACKWARD_RACK", raising=False)
    shared = Sticky()
    racks = ["a", "b", ""]
    members = [consumers(shared, client_rack=rack) for rack in racks]
    assert [rack_of(each) for each in members] == ["a", "b", None]
    assert rack_of(consumers(Sticky(rack="a"), client_rack="/a")) == "a"
    assert "client_rack" not in caplog.text


def test_another_client_rack_is_logged_once_and_ignored(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    shared = Sticky(rack="a")
    assert [rack_of(consumers(shared, client_rack="b")) for _ in range(2)] == ["a", "a"]
    assert caplog.text.count("client_rack='b' is ignored: the rack of the assignor is 'a'") == 1


def test_no_rack_is_sent_in_fetches_for_an_assignor(consumers: Consumers) -> None:
    for strategy in (Sticky(rack="a"), Sticky):
        assert consumers(strategy, client_rack="a")._fetcher.config["client_rack"] == ""
    stock = consumers(RangePartitionAssignor, client_rack="a")
    assert stock._fetcher.config["client_rack"] == "a"


def test_assignments_are_logged_with_group_and_generation(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rackward.assignors")
    strategy = Sticky(rack="a")
    consumer = consumers(strategy)
    assert strategy.last_assignment() is None
    receive_metadata(consumer, t=[0])
    consumer._coordinator._generation = Generation(12, "m0", Sticky.name)
    perform(consumer, joined("m0", subscription_bytes(["t"], rack="a")))
    last = strategy.last_assignment("g")
    assert last is not None
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.INFO] == [str(last)]
    assert "group=g generation=12" in str(last)
    assert (last.group, last.generation, last.partitions) == ("g", 12, 1)
    assert strategy.assignments() == (last,)
    assert strategy.last_assignment("another") is None


def test_consumer_constructed_before_install_is_refused(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka.consumer.group, "ConsumerCoordinator", ConsumerCoordinator)
    with pytest.raises(TypeError, match=r"call assignors\.kafka_python\.install\(\) before"):
        enable_workarounds(consumers(RangePartitionAssignor))
