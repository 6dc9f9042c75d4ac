"""One turn of a controller: in what order it writes and asks, and when it does not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import pytest

from placement_core import TopicPartition
from placement_core.cluster import Move
from placement_core.locators import MetadataLocator
from rackward.admin import AdminError, ClusterState, Ongoing
from rackward.controller.pending_replicas import INTENTS_TOPIC, Intent
from rackward.controller.reconcile import Patience
from rackward.controller.reconciler import GONE_SECONDS, Keeper, Kept, Step
from tests.support.pending_replicas import Lists, intent, state, with_id, without_topic

T0 = TopicPartition("t", 0)
LISTS: Lists = {"t": {0: (0, 1)}, INTENTS_TOPIC: {0: (0, 1, 2)}}


class FakeLease:
    """A lease that is lost when a test says so."""

    def __init__(self, *intents: Intent) -> None:
        self.owned = self.read = True
        self.intents: dict[str, Intent] = {each.key: each for each in intents}
        self.confirmations: list[bool] = []
        self.forgotten = False

    @property
    def held(self) -> bool:
        return self.owned and self.read

    def poll(self, seconds: float) -> None:
        """Nothing new."""

    def confirm(self) -> bool:
        return self.confirmations.pop(0) if self.confirmations else self.owned

    def written(self, intents: Iterable[Intent], forgotten: Collection[str]) -> None:
        self.intents.update((each.key, each) for each in intents)
        for key in forgotten:
            self.intents.pop(key)

    def forget(self) -> None:
        self.intents, self.forgotten = {}, True


class FakeCluster:
    """A cluster in the state that a test says, and what it was asked, in order."""

    def __init__(self, found: ClusterState) -> None:
        self.found = found
        self.done: list[object] = []
        self.refuses: dict[TopicPartition, AdminError] = {}

    def look(self, topics: Collection[str] | None) -> ClusterState:
        return self.found if topics is None else self.found.only(topics)

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        self.done.append(("ask", dict(targets)))
        return self.refuses

    def throttle(self, rate: int, moves: Collection[Move]) -> None:
        self.done.append(("throttle", rate, list(moves)))

    def unthrottle(self) -> bool:
        self.done.append("unthrottle")
        return True

    def write(self, intents: Collection[Intent], forgotten: Collection[str] = ()) -> None:
        self.done.append(("write", [each.key for each in intents], sorted(forgotten)))

    def ensure_topic(self) -> Intent | None:
        self.done.append("topic")
        self.found = with_id(state([0, 1, 2], LISTS), INTENTS_TOPIC, "new")
        return None


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def made(cluster: FakeCluster, lease: FakeLease, clock: Clock | None = None) -> Keeper:
    return Keeper(cluster, lease, None, clock or Clock(), patience=Patience(unfit=60.0))


def test_it_records_before_it_asks() -> None:
    cluster, lease = FakeCluster(state([0, 1, 2], LISTS)), FakeLease(intent())
    keeper = made(cluster, lease)
    keeper.turn(0)
    assert cluster.done == [("write", ["t/i"], []), ("ask", {T0: (0, 1, 2)})]
    assert keeper.kept == Kept(held=True, intents=1, open=1, under_way=1, waiting=0)
    assert keeper.asked == 1
    assert lease.intents["t/i"].filling == {0: (0, 1, 2)}


def test_without_a_locator_racks_do_not_count() -> None:
    """Broker 2 stands in the rack that is not covered, and holds more than 3, which does not."""
    lists: Lists = {"t": {0: (0, 1)}, INTENTS_TOPIC: {0: (0, 1, 2)}}
    cluster, lease = FakeCluster(state([0, 1, 2, 3], lists)), FakeLease(intent())
    Keeper(cluster, lease, None, Clock()).turn(0)
    assert cluster.done[-1] == ("ask", {T0: (0, 1, 3)})
    cluster, lease = FakeCluster(state([0, 1, 2, 3], lists)), FakeLease(intent())
    Keeper(cluster, lease, MetadataLocator(), Clock()).turn(0)
    assert cluster.done[-1] == ("ask", {T0: (0, 1, 2)})


def test_who_lost_the_lease_writes_nothing() -> None:
    cluster, lease = FakeCluster(state([0, 1, 2], LISTS)), FakeLease(intent())
    lease.confirmations = [False]
    made(cluster, lease).turn(0)
    assert cluster.done == []


def test_who_lost_the_lease_while_writing_asks_for_nothing() -> None:
    cluster, lease = FakeCluster(state([0, 1, 2], LISTS)), FakeLease(intent())
    lease.confirmations = [True, False]
    made(cluster, lease).turn(0)
    assert cluster.done == [("write", ["t/i"], [])]


def test_what_was_recorded_is_asked_for_again_without_another_record() -> None:
    cluster, lease = FakeCluster(state([0, 1, 2], LISTS)), FakeLease(intent())
    keeper = made(cluster, lease)
    keeper.turn(0)
    keeper.turn(0)
    assert cluster.done[2:] == [("ask", {T0: (0, 1, 2)})]


def test_steps_come_in_order() -> None:
    cluster, lease = FakeCluster(state([0, 1, 2], LISTS)), FakeLease(intent())
    steps: list[Step] = []
    Keeper(cluster, lease, None, Clock(), step=steps.append).turn(0)
    assert steps == list(Step)


def test_a_refusal_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster, lease = FakeCluster(state([0, 1, 2], LISTS)), FakeLease(intent())
    cluster.refuses = {T0: AdminError("reassigning t-0: no")}
    keeper = made(cluster, lease)
    keeper.turn(0)
    keeper.turn(0)
    assert [each.message for each in caplog.records].count("reassigning t-0: no") == 1
    assert keeper.asked == 0


def throttling(cluster: FakeCluster, lease: FakeLease) -> Keeper:
    return Keeper(cluster, lease, None, Clock(), throttle=50)


DECIDED = intent(filling={0: (0, 1, 2)})
COPYING = ("throttle", 50, [Move(T0, (0, 1), (0, 1, 2))])
FILLED: Lists = {**LISTS, "t": {0: (0, 1, 2)}}


def test_it_throttles_before_it_asks_and_lifts_that_before_it_forgets() -> None:
    cluster, lease = FakeCluster(state([0, 1, 2], LISTS)), FakeLease(intent())
    keeper = throttling(cluster, lease)
    keeper.turn(0)
    assert cluster.done == [("write", ["t/i"], []), COPYING, ("ask", {T0: (0, 1, 2)})]
    cluster.done.clear()
    ongoing = {T0: Ongoing((0, 1, 2), (2,), ())}
    cluster.found = state([0, 1, 2], FILLED, ongoing=ongoing)
    keeper.turn(0)
    assert cluster.done == [], "it is under way"
    cluster.found = state([0, 1, 2], FILLED)
    keeper.turn(0)
    assert cluster.done == ["unthrottle", ("write", [], ["t/i"])]


def test_a_successor_lifts_what_it_did_not_set() -> None:
    """Its predecessor died after the fill, or before what it recorded was asked for."""
    cluster, lease = (
        FakeCluster(state([0, 1, 2], FILLED)),
        FakeLease(intent(filling={0: (0, 1, 2)})),
    )
    made(cluster, lease).turn(0)
    assert cluster.done == ["unthrottle", ("write", [], ["t/i"])]
    cluster, lease = FakeCluster(state([0, 1, 2], LISTS)), FakeLease(DECIDED)
    throttling(cluster, lease).turn(0)
    assert cluster.done == [COPYING, ("ask", {T0: (0, 1, 2)})]


def test_it_lifts_once_and_again_after_another_has_kept_them() -> None:
    """What was decided on cannot be had now, and stays recorded."""
    cluster = FakeCluster(state([0, 1], LISTS))
    lease = FakeLease(DECIDED)
    keeper = throttling(cluster, lease)
    for _ in range(3):
        keeper.turn(0)
    assert cluster.done == ["unthrottle"]
    kept, lease.owned = lease.intents, False
    keeper.turn(0)
    lease.owned, lease.intents = True, kept
    keeper.turn(0)
    assert cluster.done == ["unthrottle"] * 2


def test_what_is_only_cancelled_needs_no_throttle() -> None:
    """Broker 2 stays away while it is to copy, and 5 could take its place."""
    ongoing = {T0: Ongoing((0, 1, 2), (2,), ())}
    cluster = FakeCluster(state([0, 1, 5], FILLED, ongoing=ongoing))
    patience = Patience(stuck=0.0)
    lease = FakeLease(DECIDED)
    Keeper(cluster, lease, None, Clock(), throttle=50, patience=patience).turn(0)
    assert cluster.done == [("write", ["t/i"], []), ("ask", {T0: None})]


def test_who_lost_the_lease_lifts_nothing() -> None:
    cluster, lease = (
        FakeCluster(state([0, 1, 2], FILLED)),
        FakeLease(intent(filling={0: (0, 1, 2)})),
    )
    lease.confirmations = [False]
    throttling(cluster, lease).turn(0)
    assert cluster.done == []


def test_one_that_stands_by_does_nothing() -> None:
    cluster, lease = FakeCluster(state([0, 1, 2], LISTS)), FakeLease(intent())
    lease.owned = False
    keeper = made(cluster, lease)
    keeper.turn(0)
    assert keeper.kept == Kept()
    keeper.turn(0)
    assert cluster.done == []
    assert lease.forgotten, "another one keeps them, and knows better"


def test_a_topic_of_intents_that_is_gone_is_written_again() -> None:
    clock = Clock()
    there = state([0, 1], LISTS)
    cluster, lease = FakeCluster(there), FakeLease(intent())
    keeper = made(cluster, lease, clock)
    keeper.turn(0)
    assert cluster.done == []
    cluster.found = without_topic(there, INTENTS_TOPIC)
    lease.owned = False
    keeper.turn(0)
    assert cluster.done == [], "a broker may not have heard of it yet"
    clock.now += GONE_SECONDS
    keeper.turn(0)
    assert cluster.done == ["topic", ("write", ["t/i"], [])]
    assert lease.forgotten
    cluster.done.clear()
    keeper.turn(0)
    assert cluster.done == []


def test_a_topic_of_intents_that_was_gone_for_a_moment_is_not() -> None:
    clock = Clock()
    there = state([0, 1], LISTS)
    cluster, lease = FakeCluster(there), FakeLease(intent())
    keeper = made(cluster, lease, clock)
    for found in (there, without_topic(there, INTENTS_TOPIC), there):
        cluster.found = found
        keeper.turn(0)
        clock.now += GONE_SECONDS
    assert cluster.done == []
    assert lease.intents


def test_one_that_was_made_anew_by_somebody_else_is_written_too() -> None:
    clock = Clock()
    there = state([0, 1], LISTS)
    cluster, lease = FakeCluster(there), FakeLease(intent())
    keeper = made(cluster, lease, clock)
    keeper.turn(0)
    cluster.found = with_id(there, INTENTS_TOPIC, "another")
    keeper.turn(0)
    clock.now += GONE_SECONDS
    keeper.turn(0)
    assert ("write", ["t/i"], []) in cluster.done
