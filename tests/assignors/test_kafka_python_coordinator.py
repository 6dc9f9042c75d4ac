"""Our coordinator in real KafkaConsumers that have no broker to talk to."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.base import Generation
from kafka.errors import KafkaConfigurationError
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.structs import MemberState

from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor as Sticky,
)
from assignors.kafka_python import (
    LeaderRackAwareRangeAssignor as Range,
)
from assignors.kafka_python.coordinator import RackAwareCoordinator, TopicsUnseenError
from tests.assignors.kafka_python_group import joined, metadata_response, subscription_bytes

RACKS = {0: "a", 1: "b", 2: "c"}
Consumers = Callable[..., Any]


@pytest.fixture
def consumers() -> Iterator[Consumers]:
    made: list[Any] = []

    def make(*strategies: Any, topics: tuple[str, ...] = ("t",), **config: Any) -> Any:
        consumer = KafkaConsumer(
            *topics,
            bootstrap_servers="127.0.0.1:1",
            api_version=(3, 9),
            group_id="g",
            enable_auto_commit=False,
            partition_assignment_strategy=list(strategies),
            **config,
        )
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close(timeout_ms=0)


def claims(consumer: Any, protocol: str = Sticky.name) -> tuple[dict[str, list[int]], int]:
    said = ConsumerProtocolSubscription.decode(
        dict(consumer._coordinator.group_protocols())[protocol].encode()
    )
    return {held.topic: held.partitions for held in said.owned_partitions}, said.generation_id


def complete(consumer: Any, generation: int, **assigned: list[int]) -> None:
    """What the consumer does when a join ends with that assignment."""
    coordinator = consumer._coordinator
    data = ConsumerProtocolAssignment(
        version=0, assigned_partitions=list(assigned.items()), user_data=b""
    ).encode()
    protocol = next(iter(coordinator._assignors))
    consumer._net.run(coordinator._on_join_complete_async, generation, "m", protocol, data)


def perform(consumer: Any, *members: Any, protocol: str = Sticky.name) -> dict[str, Any]:
    answer = consumer._coordinator._perform_assignment("m0", protocol, list(members))
    return {
        member: {
            topic: list(partitions)
            for topic, partitions in ConsumerProtocolAssignment.decode(
                data if isinstance(data, bytes) else data.encode()
            ).assigned_partitions
        }
        for member, data in answer.items()
    }


def answer(consumer: Any, **leaders: list[int]) -> None:
    consumer._cluster.update_metadata(metadata_response(RACKS, leaders))


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


def test_eager_and_cooperative_do_not_mix(consumers: Consumers) -> None:
    with pytest.raises(KafkaConfigurationError):
        consumers(Range(), Sticky())


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


def test_it_waits_for_topics_that_only_others_subscribe_to(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    answer(consumer, t=[0])
    members = [
        joined("m0", subscription_bytes(["t"], rack="a")),
        joined("m1", subscription_bytes(["u"], rack="b")),
    ]
    with pytest.raises(TopicsUnseenError, match="u"):
        perform(consumer, *members)
    assert "u" in consumer._cluster._topics
    answer(consumer, t=[0], u=[1, 1])
    assert perform(consumer, *members) == {"m0": {"t": [0]}, "m1": {"u": [0, 1]}}
    # What it compares metadata with has the whole group's topics: no rebalance follows.
    snapshot = consumer._coordinator._assignment_snapshot
    answer(consumer, t=[0], u=[1, 1])
    assert snapshot == consumer._coordinator._metadata_snapshot == {"t": {0}, "u": {0, 1}}


def test_a_topic_that_two_answers_lack_does_not_exist(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consumers(Sticky(rack="a"))
    answer(consumer, t=[0])
    claimed = subscription_bytes(["t", "gone"], rack="a", owned={"gone": [3]}, generation=1)
    for _ in range(2):
        with pytest.raises(TopicsUnseenError):
            perform(consumer, joined("m0", claimed))
        answer(consumer, t=[0])
    for _ in range(2):
        assert perform(consumer, joined("m0", claimed)) == {"m0": {"t": [0]}}
    assert caplog.text.count("topic gone is subscribed to but does not exist") == 1


def test_owners_keep_a_topic_that_silent_brokers_tell_nothing_of(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assignors.kafka_python.coordinator.METADATA_PATIENCE", 0.0)
    consumer = consumers(Sticky(rack="a"))
    answer(consumer, t=[0])
    members = [
        joined("m0", subscription_bytes(["t", "u"], owned={"u": [0, 1]}, generation=4)),
        joined("m1", subscription_bytes(["t", "u"], owned={"u": [1, 2]}, generation=5)),
        joined("m2", subscription_bytes(["t"], owned={"u": [7]}, generation=5)),
    ]
    given = perform(consumer, *members)
    assert {m: ts["u"] for m, ts in given.items() if "u" in ts} == {"m0": [0], "m1": [1, 2]}


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


def test_a_join_that_outlasts_its_poll_is_not_forgotten(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    coordinator = consumer._coordinator
    coordinator.rejoin_needed = False
    coordinator.group_protocols()
    assert not coordinator.need_rejoin()
    coordinator.rejoining = True
    assert coordinator.need_rejoin()
    consumer._subscription.unsubscribe()
    assert not coordinator.need_rejoin()


def test_the_line_names_group_and_generation(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rackward.assignors")
    consumer = consumers(Sticky(rack="a"))
    answer(consumer, t=[0])
    consumer._coordinator._generation = Generation(12, "m0", Sticky.name)
    perform(consumer, joined("m0", subscription_bytes(["t"], rack="a")))
    assert "group g generation 12: 1 members, 1 topics, 1 partitions" in caplog.text


def test_a_hand_over_that_nobody_makes_is_asked_for(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consumers(Sticky(rack="a"))
    coordinator = consumer._coordinator
    waits: list[Any] = []
    monkeypatch.setattr(
        coordinator, "_later", lambda _seconds, method, *values: waits.append((method, values))
    )
    answer(consumer, t=[0, 0])
    perform(
        consumer,
        joined("m0", subscription_bytes(["t"], rack="a")),
        joined("m1", subscription_bytes(["t"], rack="a", owned={"t": [0, 1]}, generation=1)),
    )
    ((check, values),) = waits
    coordinator.rejoin_needed = False
    coordinator.state = MemberState.STABLE
    coordinator._generation = Generation(99, "m0", Sticky.name)
    check(*values)
    assert not coordinator.rejoin_needed
    coordinator._generation = Generation.NO_GENERATION
    check(*values)
    assert coordinator.rejoin_needed
    assert "1 withheld partitions" in caplog.text
