"""The replication throttle: its markers and changes; during a run, after and beside other runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.admin import AlterConfigOp as ConfigOp

from placement_core import InvalidOptionError, TopicPartition
from placement_core.cluster import Move
from rackward.kafka import AdminError, UnauthorizedError
from rackward.kafka.configs import ConfigChange
from rackward.reassignment import BatchLimits, Event, ExecutionOptions, Executor
from rackward.reassignment import progress as events
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
    throttled,
)
from tests.support.simulated_cluster import (
    SimulatedBrokers,
    SimulatedCluster,
    apply_changes,
    tp,
)

rates = st.none() | st.integers(0, 2**62)
other_entries = st.builds(lambda p, b: f"{p}:{b}", st.integers(0, 300), st.integers(0, 9))


@given(st.integers(1, 2**62), rates, rates)
def test_marker_key_round_trip(rate: int, leader: int | None, follower: int | None) -> None:
    marker = ThrottleMarker(rate, Rates(leader, follower))
    assert ThrottleMarker.parse(marker.key) == marker


@pytest.mark.parametrize(
    "key",
    [
        "leader.replication.throttled.rate",
        *(f"rackward.throttle.{rest}" for rest in (
            "5", "5.before.none", "x.before.none.none", "5.before.none.none.more")),
    ],
)  # fmt: skip
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
    others: list[str], reassigned: set[int], preserved: set[int]
) -> None:
    before = {LEADER_REPLICAS: ",".join(others)} if others else {}
    values = dict(before)
    moves = [Move(TopicPartition("t", n), (0,), (0, 1)) for n in sorted(reassigned)]
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


FIRST = Move(TopicPartition("t", 0), (0,), (0, 1))


def test_settings_are_on_every_broker_when_the_call_returns() -> None:
    brokers = SimulatedBrokers(0, 3, 5)
    throttle = brokers.throttle()
    throttle.set_rate(50)
    throttle.add(50, [FIRST])
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
    throttle.add(50, [FIRST])
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
    throttle.add(50, [FIRST])
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


# ---- During a run, after killed runs and beside other runs.

EXISTING_RATES = {LEADER_RATE: "111", FOLLOWER_RATE: "222"}
MOVE = Move(tp(3), (0,), (0, 1))
MOVES = [Move(tp(number), (number,), (number, number + 1)) for number in range(4)]


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster({tp(3): (0,), tp(4): (0,)})


def no_others() -> set[TopicPartition]:
    return set()


def run_throttled(
    cluster: SimulatedCluster,
    rate: int | None,
    in_progress: set[int] | None = None,
    *,
    adopt: bool = False,
) -> tuple[list[Event], dict[str, str]]:
    """Return the events, and the throttle's settings in the ``with`` block."""
    emitted: list[Event] = []
    others = {tp(number) for number in in_progress or ()}
    with throttled(
        cluster.throttle,
        rate,
        cluster.live,
        lambda: others,
        emitted.append,
        cluster.clock,
        adopt=adopt,
    ):
        if rate is not None:
            cluster.throttle.add(rate, [MOVE])
        settings = cluster.configs.settings
    return emitted, settings


def test_existing_settings_are_restored(cluster: SimulatedCluster) -> None:
    cluster.configs.brokers.update(EXISTING_RATES)
    lists = {"leader.replication.throttled.replicas": "3:0,7:7"}
    cluster.configs.topics["t"] = dict(lists)
    run_throttled(cluster, 50)
    assert cluster.configs.brokers == EXISTING_RATES
    assert cluster.configs.topics["t"] == lists


def test_the_next_run_restores_settings_from_before_a_killed_one(
    cluster: SimulatedCluster,
) -> None:
    cluster.configs.brokers.update(EXISTING_RATES)
    # The throttle that a killed run leaves.
    cluster.throttle.set_rate(10)
    cluster.throttle.add(10, [MOVE, Move(tp(4), (0,), (0, 2))])
    _, settings = run_throttled(cluster, 50, adopt=True)
    assert "rackward.throttle.50.before.111.222" in settings
    assert not any(key.startswith("rackward.throttle.10") for key in settings)
    # Entries of partitions that are not being copied were removed at the start.
    assert settings["t leader.replication.throttled.replicas"] == "03:0"
    assert cluster.configs.brokers == EXISTING_RATES
    assert cluster.configs.settings.keys() == EXISTING_RATES.keys()
    # A run without a throttle removes the leftover, too.
    cluster.throttle.set_rate(10)
    cluster.throttle.add(10, [MOVE])
    emitted, _ = run_throttled(cluster, None, adopt=True)
    assert emitted == [events.ThrottleRemoved(leftover=True)]
    assert cluster.configs.settings == EXISTING_RATES


def test_a_run_without_a_throttle_leaves_that_of_another_alone(cluster: SimulatedCluster) -> None:
    """Such as a leader layout of the controller, between two batches of the other run."""
    cluster.throttle.set_rate(10)
    cluster.throttle.add(10, [MOVE])
    before = cluster.configs.settings
    emitted, _ = run_throttled(cluster, None)
    assert emitted == []
    assert cluster.configs.settings == before


def test_the_controller_leaves_the_rate_of_a_run_alone(cluster: SimulatedCluster) -> None:
    cluster.throttle.set_rate(100)
    for rate in (50, 200):
        cluster.throttle.add(rate, [MOVE])
    assert cluster.configs.settings == {
        "leader.replication.throttled.rate": "100",
        "follower.replication.throttled.rate": "100",
        "rackward.throttle.100.before.none.none": "-",
        "t leader.replication.throttled.replicas": "03:0",
        "t follower.replication.throttled.replicas": "03:1",
    }


def test_a_rate_changed_during_the_run_is_not_restored(cluster: SimulatedCluster) -> None:
    cluster.throttle.set_rate(10)
    cluster.configs.brokers["leader.replication.throttled.rate"] = "99"
    run_throttled(cluster, None, adopt=True)
    assert cluster.configs.settings == {"leader.replication.throttled.rate": "99"}


def test_rate_and_entries_of_another_run_are_not_changed(cluster: SimulatedCluster) -> None:
    cluster.throttle.set_rate(10)
    cluster.throttle.add(10, [Move(tp(4), (0,), (0, 2))])
    emitted, during = run_throttled(cluster, 50, in_progress={4})
    assert emitted == [events.ThrottleShared(10), events.ThrottleRemoved()]
    assert "rackward.throttle.10.before.none.none" in during
    settings = cluster.configs.settings
    assert settings["t follower.replication.throttled.replicas"] == "04:2"
    assert "rackward.throttle.10.before.none.none" in settings
    # The end of the other run removes everything.
    assert cluster.throttle.remove()
    assert cluster.configs.settings == {}


def test_rates_of_single_brokers_are_reported(cluster: SimulatedCluster) -> None:
    cluster.configs.overrides[2] = {"leader.replication.throttled.rate": "5"}
    assert events.BrokerThrottleFound(2, 5, None) in run_throttled(cluster, 50)[0]


def test_an_unauthorized_user_gets_the_error_without_retries(cluster: SimulatedCluster) -> None:
    cluster.configs.fails = UnauthorizedError("this user may not")
    with pytest.raises(UnauthorizedError):
        run_throttled(cluster, 50)
    assert cluster.seconds == 0


def test_the_removal_is_retried_for_a_while(cluster: SimulatedCluster) -> None:
    emitted: list[Event] = []
    with throttled(cluster.throttle, 50, cluster.live, no_others, emitted.append, cluster.clock):
        cluster.configs.fails = AdminError("no broker responds")
        cluster.at[5.0] = lambda: setattr(cluster.configs, "fails", None)
    assert emitted == [events.ThrottleSet(50), events.ThrottleRemoved()]
    assert cluster.configs.settings == {}
    emitted.clear()
    with throttled(cluster.throttle, 50, cluster.live, no_others, emitted.append, cluster.clock):
        cluster.configs.fails = AdminError("no broker responds")
    assert emitted == [events.ThrottleSet(50), events.ThrottleNotRemoved("no broker responds")]


def test_a_run_that_began_later_keeps_its_throttle() -> None:
    """Also if this one is interrupted, as by Ctrl-C."""
    cluster = SimulatedCluster({tp(3): (0,), tp(4): (0,)}, rate=1)
    other = Move(tp(4), (0,), (0, 2))

    def interrupt() -> None:
        raise KeyboardInterrupt

    def other_begins() -> None:
        cluster.throttle.add(10, [other])
        cluster.reassign({other.partition: other.after})

    cluster.at[1.0] = other_begins
    cluster.at[5.0] = interrupt
    options = ExecutionOptions(BatchLimits(throttle=7_000))
    with pytest.raises(KeyboardInterrupt):
        Executor([MOVE], {}, cluster, options, lambda _: None, cluster.clock).run()
    assert cluster.configs.settings == {
        "leader.replication.throttled.rate": "7000",
        "follower.replication.throttled.rate": "7000",
        "rackward.throttle.7000.before.none.none": "-",
        "t leader.replication.throttled.replicas": "04:0",
        "t follower.replication.throttled.replicas": "04:2",
    }


def test_a_batch_leaves_the_entries_of_another_run_on_its_topic() -> None:
    other = Move(tp(4), (0,), (0, 2))
    cluster = SimulatedCluster({**{move.partition: move.before for move in MOVES}, tp(4): (0,)})
    cluster.throttle.add(10, [other, Move(tp(5), (0,), (0, 2))])
    cluster.partitions[tp(4)].size = 10**9
    cluster.reassign({other.partition: other.after})
    options = ExecutionOptions(BatchLimits(partitions=2, throttle=7_000), allow_foreign=True)
    listed = set()

    def emit(event: Event) -> None:
        if isinstance(event, events.BatchStarted):
            listed.add(cluster.configs.topics["t"]["follower.replication.throttled.replicas"])

    Executor(MOVES, {}, cluster, options, emit, cluster.clock).run()
    # The entry of partition 5, which is not being reassigned, is removed with the first batch's.
    assert listed == {"04:2,05:2,00:1,01:2", "04:2,02:3,03:4"}
    assert cluster.configs.topics["t"]["follower.replication.throttled.replicas"] == "04:2"
    assert cluster.configs.brokers["follower.replication.throttled.rate"] == "10"


@pytest.mark.parametrize("requested", [True, False], ids=["after the request", "before it"])
def test_the_throttle_is_set_again_after_another_run_removed_it(requested: bool) -> None:
    class OtherRunEnds(SimulatedCluster):
        """Another run ends while a batch is requested; it listed the reassignments before."""

        def reassign(
            self, targets: Mapping[TopicPartition, Sequence[int] | None]
        ) -> Mapping[TopicPartition, AdminError]:
            refused = super().reassign(targets) if requested else {}
            assert self.throttle.remove()
            return refused if requested else super().reassign(targets)

    cluster = OtherRunEnds({move.partition: move.before for move in MOVES})
    settings_while_copying: list[dict[str, str]] = []

    def emit(event: Event) -> None:
        if isinstance(event, events.Progressed) and event.progress.bytes_copied < 4000:
            settings_while_copying.append(cluster.configs.settings)

    sizes = {move.partition: 1000 for move in MOVES}
    options = ExecutionOptions(BatchLimits(partitions=2, throttle=7_000))
    Executor(MOVES, sizes, cluster, options, emit, cluster.clock).run()
    assert len(settings_while_copying) >= 2
    for settings in settings_while_copying:
        assert "rackward.throttle.7000.before.none.none" in settings
        assert settings["t leader.replication.throttled.replicas"] in ("00:0,01:1", "02:2,03:3")
    assert cluster.replicas() == {move.partition: move.after for move in MOVES}
    assert cluster.configs.settings == {}
