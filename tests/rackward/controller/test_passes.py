"""One pass of the reconciler: the order of its writes and requests, and passes without any."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import pytest

from placement_core import TopicPartition
from placement_core.cluster import Move
from placement_core.locators import MetadataLocator, RackLocator
from rackward.controller.lease import LeaseLostError
from rackward.controller.reconcile import TOPIC_MISSING_SECONDS, Reconciler, ReconcileStatus
from rackward.kafka import AdminError, ClusterState, Reassignment
from rackward.topics.pending_replicas import PENDING_REPLICAS_TOPIC, PendingReplicas
from tests.support.pending_replicas import (
    FakeLease,
    Lists,
    pending,
    state,
    with_id,
    without_topic,
)
from tests.support.waiting import Clock

T0 = TopicPartition("t", 0)
LISTS: Lists = {"t": {0: (0, 1)}, PENDING_REPLICAS_TOPIC: {0: (0, 1, 2)}}
COMPLETE: Lists = {**LISTS, "t": {0: (0, 1, 2)}}
WAITING, EXISTING = state([0, 1, 2], LISTS), state([0, 1], LISTS)
"""A topic lacks a replica, and a broker can take it or none can."""
ASSIGNED = pending(assigned={0: (0, 1, 2)})
THROTTLE = ("throttle", 50, [Move(T0, (0, 1), (0, 1, 2))])
THROTTLED_REQUEST = [THROTTLE, ("reassign", {T0: (0, 1, 2)}), THROTTLE]


class FakeCluster:
    """A cluster in ``state``; ``calls`` are the changes, in order, which need ``lease``."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.lease = FakeLease()
        self.calls: list[object] = []
        self.refused: dict[TopicPartition, AdminError] = {}

    def read_state(self, topics: Collection[str] | None) -> ClusterState:
        return self.state if topics is None else self.state.only(topics)

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        self.lease.confirm()
        self.calls.append(("reassign", dict(targets)))
        return self.refused

    def throttle(self, rate: int, moves: Collection[Move]) -> None:
        self.lease.confirm()
        self.calls.append(("throttle", rate, list(moves)))

    def remove_throttle(self) -> bool:
        self.lease.confirm()
        self.calls.append("remove throttle")
        return True

    def write(self, records: Collection[PendingReplicas], deleted: Collection[str] = ()) -> None:
        self.lease.confirm()
        self.calls.append(("write", [each.key for each in records], sorted(deleted)))
        self.lease.update(records, deleted)

    def restore_topic(self, records: Collection[PendingReplicas] = ()) -> None:
        self.calls.append(("restore", [each.key for each in records]))
        self.state = with_id(state([0, 1, 2], LISTS), PENDING_REPLICAS_TOPIC, "new")


def start(
    cluster: ClusterState,
    *records: PendingReplicas,
    locator: RackLocator | None = None,
    throttle: int | None = None,
    clock: Clock | None = None,
) -> tuple[Reconciler, FakeCluster, FakeLease]:
    """Return the reconciler that owns the lease on these records (by default ``pending()``)."""
    fake, lease = FakeCluster(cluster), FakeLease(*(records or [pending()]))
    fake.lease = lease
    reconciler = Reconciler(
        cast("Any", fake),
        cast("Any", lease),
        locator,
        clock or Clock(),
        max_in_progress=100,
        throttle=throttle,
    )
    return reconciler, fake, lease


def test_records_are_written_before_reassignments_are_requested() -> None:
    reconciler, cluster, lease = start(WAITING)
    reconciler.run_once(0)
    assert cluster.calls == [("write", ["t/i"], []), ("reassign", {T0: (0, 1, 2)})]
    assert reconciler.status == ReconcileStatus(
        active=True,
        pending_records=1,
        pending_partitions=1,
        partitions_in_progress=1,
        topic_offsets=1,
        topic_offsets_read=1,
    )
    assert reconciler.requested == 1
    assert lease.records["t/i"].assigned == {0: (0, 1, 2)}


def test_without_a_locator_racks_are_ignored() -> None:
    """Broker 2 is in a rack without a replica, and has more replicas than broker 3."""
    for locator, row in ((None, (0, 1, 3)), (MetadataLocator(), (0, 1, 2))):
        reconciler, cluster, _ = start(state([0, 1, 2, 3], LISTS), locator=locator)
        reconciler.run_once(0)
        assert cluster.calls[-1] == ("reassign", {T0: row})


def all_changes(reconciler: Reconciler, cluster: FakeCluster) -> None:
    """Run passes that write, throttle, request, remove the throttle and delete the record."""
    reconciler.run_once(0)
    cluster.state = state([0, 1, 2], COMPLETE)
    reconciler.run_once(0)


@pytest.mark.parametrize("confirmed", range(6))
def test_nothing_is_changed_after_the_lease_is_lost(confirmed: int) -> None:
    expected = [
        ("write", ["t/i"], []),
        THROTTLE,
        ("reassign", {T0: (0, 1, 2)}),
        THROTTLE,
        "remove throttle",
        ("write", [], ["t/i"]),
    ]
    reconciler, cluster, lease = start(WAITING, throttle=50)
    all_changes(reconciler, cluster)
    assert cluster.calls == expected
    reconciler, cluster, lease = start(WAITING, throttle=50)
    lease.confirmations = [True] * confirmed + [False]
    with pytest.raises(LeaseLostError):
        all_changes(reconciler, cluster)
    assert cluster.calls == expected[:confirmed]
    assert not reconciler.status.active
    reconciler.run_once(0)
    assert cluster.calls == expected[:confirmed], "it stands by"


def test_a_recorded_replica_list_is_requested_without_a_record() -> None:
    reconciler, cluster, _ = start(WAITING)
    reconciler.run_once(0)
    reconciler.run_once(0)
    assert cluster.calls[2:] == [("reassign", {T0: (0, 1, 2)})]


def test_an_error_of_a_reassignment_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    reconciler, cluster, _ = start(WAITING)
    cluster.refused = {T0: AdminError("reassigning t-0: no")}
    reconciler.run_once(0)
    reconciler.run_once(0)
    assert [each.message for each in caplog.records].count("reassigning t-0: no") == 1
    assert reconciler.requested == 0


def test_throttle_set_before_requests_removed_before_deletion() -> None:
    reconciler, cluster, _ = start(WAITING, throttle=50)
    reconciler.run_once(0)
    assert cluster.calls == [("write", ["t/i"], []), *THROTTLED_REQUEST]
    cluster.calls.clear()
    ongoing = {T0: Reassignment((0, 1, 2), (2,), ())}
    cluster.state = state([0, 1, 2], COMPLETE, reassignments=ongoing)
    reconciler.run_once(0)
    assert cluster.calls == [], "the reassignment is in progress"
    cluster.state = state([0, 1, 2], COMPLETE)
    reconciler.run_once(0)
    assert cluster.calls == ["remove throttle", ("write", [], ["t/i"])]


def test_the_next_controller_removes_the_throttle() -> None:
    """The last one was killed after the reassignment, or before it requested it."""
    reconciler, cluster, _ = start(state([0, 1, 2], COMPLETE), ASSIGNED)
    reconciler.run_once(0)
    assert cluster.calls == ["remove throttle", ("write", [], ["t/i"])]
    reconciler, cluster, _ = start(WAITING, ASSIGNED, throttle=50)
    reconciler.run_once(0)
    assert cluster.calls == THROTTLED_REQUEST


def test_the_throttle_is_removed_once_per_lease() -> None:
    """The assigned broker is down, so the record stays."""
    reconciler, cluster, lease = start(EXISTING, ASSIGNED, throttle=50)
    for _ in range(3):
        reconciler.run_once(0)
    assert cluster.calls == ["remove throttle"]
    records, lease.owned = lease.records, False
    reconciler.run_once(0)
    lease.owned, lease.records = True, records
    reconciler.run_once(0)
    assert cluster.calls == ["remove throttle"] * 2


def test_a_cancellation_needs_no_throttle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 2 is down while it should copy, and broker 5 can replace it."""
    monkeypatch.setattr("rackward.controller.reconcile.STUCK_SECONDS", 0.0)
    ongoing = {T0: Reassignment((0, 1, 2), (2,), ())}
    away = state([0, 1, 5], COMPLETE, reassignments=ongoing)
    reconciler, cluster, _ = start(away, ASSIGNED, throttle=50)
    reconciler.run_once(0)
    assert cluster.calls == [("write", ["t/i"], []), ("reassign", {T0: None})]


def test_a_standby_controller_changes_nothing() -> None:
    reconciler, cluster, lease = start(WAITING)
    lease.owned = False
    reconciler.run_once(0)
    assert reconciler.status == ReconcileStatus()
    reconciler.run_once(0)
    assert cluster.calls == []


def owner_of_records() -> tuple[Reconciler, FakeCluster, FakeLease, Clock]:
    """Return the controller that owns the lease on records of a cluster in the state EXISTING."""
    clock = Clock()
    return *start(EXISTING, clock=clock), clock


def test_a_deleted_topic_of_pending_replicas_is_restored() -> None:
    reconciler, cluster, lease, clock = owner_of_records()
    reconciler.run_once(0)
    assert cluster.calls == []
    cluster.state = without_topic(EXISTING, PENDING_REPLICAS_TOPIC)
    lease.owned = False
    reconciler.run_once(0)
    assert cluster.calls == [], "a broker may not return it yet"
    clock.now += TOPIC_MISSING_SECONDS
    reconciler.run_once(0)
    assert cluster.calls == [("restore", ["t/i"])]
    assert lease.was_reset
    cluster.calls.clear()
    reconciler.run_once(0)
    assert cluster.calls == []


def test_owner_restores_records_after_topic_recreated() -> None:
    """The deletion takes the lease, and the new topic gives it back, empty, in a few seconds."""
    reconciler, cluster, lease, clock = owner_of_records()
    reconciler.run_once(0)
    lease.owned, lease.records = False, {}
    reconciler.run_once(0)
    assert cluster.calls == [], "the broker that was asked may still return it"
    cluster.state = without_topic(EXISTING, PENDING_REPLICAS_TOPIC)
    reconciler.run_once(0)
    clock.now += TOPIC_MISSING_SECONDS
    cluster.state = with_id(EXISTING, PENDING_REPLICAS_TOPIC, "another")
    lease.owned = True
    reconciler.run_once(0)
    assert ("restore", ["t/i"]) in cluster.calls


def test_a_former_owner_forgets_the_records() -> None:
    reconciler, cluster, lease, clock = owner_of_records()
    reconciler.run_once(0)
    lease.owned, lease.records = False, {}
    clock.now += TOPIC_MISSING_SECONDS + 1
    reconciler.run_once(0)
    cluster.state = without_topic(EXISTING, PENDING_REPLICAS_TOPIC)
    for _ in range(2):
        reconciler.run_once(0)
        clock.now += TOPIC_MISSING_SECONDS
    assert cluster.calls == [("restore", [])]


def test_the_topic_is_not_restored_if_it_is_absent_for_a_moment() -> None:
    reconciler, cluster, lease, clock = owner_of_records()
    for observed in (EXISTING, without_topic(EXISTING, PENDING_REPLICAS_TOPIC), EXISTING):
        cluster.state = observed
        reconciler.run_once(0)
        clock.now += TOPIC_MISSING_SECONDS
    assert cluster.calls == []
    assert lease.records


def test_records_are_restored_in_a_topic_of_another_program() -> None:
    reconciler, cluster, _, clock = owner_of_records()
    reconciler.run_once(0)
    cluster.state = with_id(EXISTING, PENDING_REPLICAS_TOPIC, "another")
    reconciler.run_once(0)
    clock.now += TOPIC_MISSING_SECONDS
    reconciler.run_once(0)
    assert ("restore", ["t/i"]) in cluster.calls
