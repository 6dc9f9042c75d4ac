"""The replication throttle: its markers, its changes, and brokers that apply them late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.admin import AlterConfigOp as ConfigOp

from placement_core import InvalidOptionError, TopicPartition
from placement_core.cluster import Move
from rackward.kafka import UnauthorizedError
from rackward.kafka.configs import ConfigChange
from rackward.reassignment import throttle as throttle_module
from rackward.reassignment.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    BrokerThrottle,
    Rates,
    ThrottleMarker,
    ThrottleSettings,
    add_changes,
    marked_partitions,
    remove_changes,
)
from tests.support.simulated_cluster import SimulatedBrokers, apply_changes

rates = st.none() | st.integers(0, 2**62)
other_entries = st.builds(lambda p, b: f"{p}:{b}", st.integers(0, 300), st.integers(0, 9))


@given(st.integers(1, 2**62), rates, rates)
def test_marker_key_round_trip(ours: int, leader: int | None, follower: int | None) -> None:
    marker = ThrottleMarker(ours, Rates(leader, follower))
    assert ThrottleMarker.parse(marker.key) == marker


@pytest.mark.parametrize(
    "key",
    [
        "leader.replication.throttled.rate",
        "rackward.throttle.5",
        "rackward.throttle.5.before.none",
        "rackward.throttle.x.before.none.none",
        "rackward.throttle.5.before.none.none.more",
    ],
)
def test_other_keys_are_not_markers(key: str) -> None:
    assert ThrottleMarker.parse(key) is None


@given(rates, rates, st.lists(st.integers(1, 2**62), min_size=1, max_size=3))
def test_removing_restores_rates_from_before_killed_runs(
    leader: int | None, follower: int | None, our_rates: list[int]
) -> None:
    before = {
        key: str(rate)
        for key, rate in ((LEADER_RATE, leader), (FOLLOWER_RATE, follower))
        if rate is not None
    }
    values = dict(before)
    for rate in our_rates:
        apply_changes(values, BrokerThrottle.parse(values).set_changes(rate))
        assert values[LEADER_RATE] == values[FOLLOWER_RATE] == str(rate)
        assert len(BrokerThrottle.parse(values).markers) == 1
    apply_changes(values, BrokerThrottle.parse(values).remove_changes())
    assert values == before


def test_nothing_is_removed_without_a_marker() -> None:
    assert BrokerThrottle.parse({LEADER_RATE: "5"}).remove_changes() == []


def test_entries_of_senders_and_receivers_have_a_leading_zero() -> None:
    moves = [
        Move(TopicPartition("t", 0), (1, 2), (2, 3, 4)),
        Move(TopicPartition("t", 10), (1,), (5,)),
        Move(TopicPartition("t", 2), (1, 2), (2, 1)),
        Move(TopicPartition("u", 3), (1, 2), (1,)),
    ]
    values: dict[str, dict[str, str]] = {"t": {}}
    for topic, changes in add_changes(moves, values).items():
        apply_changes(values[topic], changes)
    assert values == {
        "t": {LEADER_REPLICAS: "00:1,00:2,010:1", FOLLOWER_REPLICAS: "00:3,00:4,010:5"}
    }


def test_entries_are_added_once_and_never_to_a_list_of_all() -> None:
    move = Move(TopicPartition("t", 0), (1,), (1, 2))
    lists = {"t": {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "00:2,5:5"}}
    assert add_changes([move], lists) == {}
    assert add_changes([move], {"t": {FOLLOWER_REPLICAS: "0:2"}}) == {
        "t": [
            ConfigChange(LEADER_REPLICAS, ConfigOp.APPEND, "00:1"),
            ConfigChange(FOLLOWER_REPLICAS, ConfigOp.APPEND, "00:2"),
        ]
    }


def test_lists_longer_than_kafka_accepts_are_refused() -> None:
    moves = [Move(TopicPartition("t", n), (1, 2, 3), (4,)) for n in range(2000)]
    with pytest.raises(InvalidOptionError, match="lower --batch-count"):
        add_changes(moves, {})
    assert add_changes(moves[:1000], {})


@given(
    st.lists(other_entries, unique=True, max_size=6),
    st.sets(st.integers(0, 300), max_size=5),
    st.sets(st.integers(0, 300), max_size=3),
)
def test_entries_of_other_tools_are_not_changed(
    others: list[str], ours: set[int], preserved: set[int]
) -> None:
    before = {LEADER_REPLICAS: ",".join(others)} if others else {}
    values = dict(before)
    moves = [Move(TopicPartition("t", n), (0,), (0, 1)) for n in sorted(ours)]
    for changes in add_changes(moves, {"t": values}).values():
        apply_changes(values, changes)
    assert marked_partitions({"t": values}) == {move.partition for move in moves}
    keep = {TopicPartition("t", n) for n in preserved}
    for changes in remove_changes({"t": values}, keep).values():
        apply_changes(values, changes)
    assert marked_partitions({"t": values}) == {move.partition for move in moves} & keep
    for changes in remove_changes({"t": values}).values():
        apply_changes(values, changes)
    assert values == before


LISTED = {"t": {LEADER_REPLICAS: "0:1,00:2"}, "u": {FOLLOWER_REPLICAS: "*"}}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            ThrottleSettings(BrokerThrottle(Rates(500_000, 500_000)), {}, LISTED),
            "500 kB/s in each direction, for all replicas of 1 topic (u) and some replicas of 1 "
            "topic (t), not set by rackward",
        ),
        (
            ThrottleSettings(
                BrokerThrottle(Rates(None, 7_000), (ThrottleMarker(7_000, Rates()),)),
                {3: Rates(1_000, 2_000), 5: Rates(1_000, 2_000), 4: Rates(1_000, None)},
                {"t": LISTED["t"]},
            ),
            "receiving 7.00 kB/s; sending 1.00 kB/s, receiving 2.00 kB/s on brokers 3, 5; sending "
            "1.00 kB/s on broker 4, for some replicas of 1 topic (t), set by a run of rackward",
        ),
        (
            ThrottleSettings(BrokerThrottle(Rates(), (ThrottleMarker(7_000, Rates()),))),
            "no rate, for no replicas, set by a run of rackward",
        ),
    ],
)
def test_a_throttle_in_force_as_text(settings: ThrottleSettings, text: str) -> None:
    assert settings.in_force
    assert settings.text == text


def test_a_rate_without_lists_throttles_nothing() -> None:
    assert not ThrottleSettings(BrokerThrottle(Rates(5, 5)), {1: Rates(5, 5)}).in_force
    assert not ThrottleSettings().in_force


MOVE = Move(TopicPartition("t", 0), (0,), (0, 1))


def test_settings_are_on_every_broker_when_the_call_returns() -> None:
    brokers = SimulatedBrokers(0, 3, 5)
    throttle = brokers.throttle()
    throttle.set_rate(50)
    throttle.add(50, [MOVE])
    brokers.nearest = 2
    assert [marker.rate for marker in throttle.read().markers] == [50]
    assert len(throttle.leftovers(["t"])) == 2
    assert throttle.remove()


def test_a_broker_that_is_down_does_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle_module, "_PROPAGATION_SECONDS", 0.2)
    brokers = SimulatedBrokers(0, 0, 2, down=1)
    throttle = brokers.throttle()
    throttle.set_rate(50)
    brokers.nearest = 2
    assert throttle.read().markers


@pytest.fixture
def hidden_topic() -> SimulatedBrokers:
    """A broker with the topics ``t`` and ``hidden``."""
    brokers = SimulatedBrokers(0, hidden="hidden")
    brokers.topics = {"hidden": {}, "t": {}}
    return brokers


def test_other_topics_that_may_not_be_read_do_not_matter(hidden_topic: SimulatedBrokers) -> None:
    throttle = hidden_topic.throttle()
    assert throttle.read_all() == ThrottleSettings()
    throttle.set_rate(50)
    throttle.add(50, [MOVE])
    settings = throttle.read_all()
    assert settings.in_force
    assert settings.lists.keys() == {"t"}
    assert settings.hidden == ("hidden",)
    assert settings.not_read == (
        "replicas of 1 topic (hidden) may be throttled: to see them, grant this user "
        "DescribeConfigs on the topics"
    )
    assert throttle.remove()
    assert throttle.leftovers(["t", "hidden"]) == []
    assert throttle.read_all() == ThrottleSettings()


def test_the_rate_stays_while_a_hidden_run_may_need_it(
    hidden_topic: SimulatedBrokers,
) -> None:
    throttle = hidden_topic.throttle()
    throttle.set_rate(50)
    throttle.add(50, [MOVE])
    for name in ("hidden", "t"):
        assert throttle.read().markers
        with pytest.raises(UnauthorizedError, match="grant this user DescribeConfigs on hidden, "):
            throttle.remove(keep=[TopicPartition("hidden", 0), TopicPartition(name, 7)])
    assert throttle.leftovers(["t"]) == [
        "the key rackward.throttle.50.before.none.none of all brokers"
    ]
    assert throttle.remove(keep=[TopicPartition("t", 7)])
    assert throttle.read() == BrokerThrottle()


def test_replicas_of_a_topic_that_may_not_be_read_are_not_listed(
    hidden_topic: SimulatedBrokers,
) -> None:
    move = Move(TopicPartition("hidden", 0), (0,), (0, 1))
    with pytest.raises(UnauthorizedError, match=r"grant this user DescribeConfigs on hidden$"):
        hidden_topic.throttle().add(50, [move])
