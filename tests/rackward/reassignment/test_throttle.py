"""The replication throttle during a run, after killed runs and beside other runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.kafka import AdminError, UnauthorizedError
from rackward.reassignment import BatchLimits, Event, ExecutionOptions, Executor
from rackward.reassignment import progress as events
from rackward.reassignment.throttle import throttled
from tests.support.simulated_cluster import SimulatedCluster, tp

EXISTING_RATES = {
    "leader.replication.throttled.rate": "111",
    "follower.replication.throttled.rate": "222",
}
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
