"""Leaving a group: what is sent on which connection, and what is forgotten."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.base import Generation
from kafka.errors import KafkaConnectionError, MemberIdRequiredError
from kafka.future import Future
from kafka.protocol.metadata import MetadataResponse
from kafka.structs import MemberState

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import fixes
from assignors.kafka_python.coordinator import MetadataPending
from tests.support.kafka_python import Consumers, receive_metadata

NODE = "coordinator-1"
SECOND = f"commits-{NODE}"


class Joining:
    """A consumer whose JoinGroup has no response until its connection is closed."""

    def __init__(
        self, consumer: Any, monkeypatch: pytest.MonkeyPatch, member_id: str = "m"
    ) -> None:
        self.consumer = consumer
        self.coordinator = consumer._coordinator
        self.sent: list[tuple[Any, Any]] = []
        self.closed: list[Any] = []
        self.join = Future()
        self.response: Any = SimpleNamespace(error_code=0, members=[])
        receive_metadata(consumer, t=[0])
        consumer._cluster._coordinator_brokers[NODE] = MetadataResponse.MetadataResponseBroker(
            NODE, "127.0.0.1", 1, None
        )
        coordinator = self.coordinator
        coordinator._generation = Generation(3, member_id, "sticky")
        coordinator.state = MemberState.REBALANCING
        coordinator.rejoining = True
        coordinator._join_task = self.join
        coordinator.coordinator_id = NODE
        monkeypatch.setattr(coordinator, "coordinator", lambda: coordinator.coordinator_id)
        monkeypatch.setattr(coordinator._manager, "send", self._send)
        monkeypatch.setattr(coordinator._manager, "close", self._close)

    def _send(self, request: Any, node_id: Any = None, request_timeout_ms: Any = None) -> Any:  # noqa: ARG002
        self.sent.append((request, node_id))
        if isinstance(self.response, Exception):
            return Future().failure(self.response)
        return Future().success(self.response)

    def _close(self, node_id: Any = None, timeout_ms: Any = None) -> None:  # noqa: ARG002
        self.closed.append(node_id)
        if not self.join.is_done:
            self.join.failure(KafkaConnectionError("closed"))

    def leave(self, reason: str | None = None) -> None:
        self.consumer._net.run(self.coordinator.maybe_leave_group_async, reason, 1000)
        assert self.coordinator._generation.is_lost()
        assert self.coordinator.state is MemberState.UNJOINED

    def members(self) -> list[tuple[str, str | None, str | None]]:
        """Return member id, instance id and reason of each LeaveGroup, sent to the second
        connection."""
        assert {node for _, node in self.sent} <= {SECOND}
        return [
            (each.member_id, each.group_instance_id, each.reason)
            for request, _ in self.sent
            for each in request.members
        ]


def test_a_member_that_joins_leaves_on_the_connection_of_its_commits(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    joining = Joining(consumers(Sticky(rack="a")), monkeypatch)
    joining.leave("x" * 300)
    assert joining.members() == [("m", None, "x" * 255)]
    assert joining.closed == [NODE]
    assert joining.join.failed()
    assert not joining.coordinator.rejoining
    assert joining.coordinator._pending_join_result is None


def test_a_join_that_ends_meanwhile_is_forgotten(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    joining = Joining(consumers(Sticky(rack="a")), monkeypatch)
    coordinator = joining.coordinator

    def join_ends(_: Any) -> None:
        coordinator._generation = Generation(4, "m", "sticky")
        coordinator.state = MemberState.STABLE
        coordinator._pending_join_result = (coordinator._generation, 0.0, b"")
        joining.join.success(b"")

    monkeypatch.setattr(coordinator._manager, "close", join_ends)
    joining.leave()
    assert coordinator._pending_join_result is None


def test_a_failing_assignor_does_not_keep_the_member_from_leaving(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    joining = Joining(consumers(Sticky(rack="a")), monkeypatch)
    monkeypatch.setattr(
        joining.coordinator._manager, "close", lambda _: joining.join.failure(LookupError("t"))
    )
    joining.leave()
    assert joining.members() == [("m", None, None)]


def test_a_failure_is_logged_and_the_membership_forgotten(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    joining = Joining(consumers(Sticky(rack="a")), monkeypatch)
    joining.response = KafkaConnectionError("refused\nCRITICAL forged")
    joining.leave()
    assert joining.closed == [NODE]
    (line,) = [each for each in caplog.messages if "LeaveGroup failed" in each]
    assert line.isprintable()


def test_a_static_member_sends_nothing(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    joining = Joining(consumers(Sticky(rack="a"), group_instance_id="i"), monkeypatch)
    joining.leave()
    assert joining.members() == []
    assert joining.closed == [NODE]


def test_nothing_is_sent_without_a_coordinator(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    joining = Joining(consumers(Sticky(rack="a")), monkeypatch)
    joining.coordinator.coordinator_id = None
    monkeypatch.setattr(fixes, "JOIN_END_MS", 10)
    joining.leave()
    assert (joining.members(), joining.closed) == ([], [])


def test_a_new_member_waits_for_its_member_id(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    joining = Joining(consumers(Sticky(rack="a")), monkeypatch, member_id="")

    def respond() -> None:
        joining.coordinator.reset_generation("given")
        joining.join.failure(MemberIdRequiredError())

    joining.consumer._net.call_later(0.05, respond)
    joining.leave()
    assert joining.members() == [("given", None, None)]
    assert joining.closed == []


def test_a_member_with_an_id_and_no_join_in_progress_leaves(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    joining = Joining(consumers(Sticky(rack="a")), monkeypatch)
    joining.coordinator._join_task = None
    joining.coordinator.reset_generation("given")
    joining.leave()
    assert joining.members() == [("given", None, None)]
    assert joining.closed == []
    joining.leave()
    assert len(joining.sent) == 1


@pytest.mark.parametrize("strategy", [Sticky(workarounds=False), RangePartitionAssignor])
def test_without_workarounds_the_first_connection_is_used(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch, strategy: Any
) -> None:
    joining = Joining(consumers(strategy), monkeypatch)
    joining.leave()
    assert [node for _, node in joining.sent] == [NODE]
    assert joining.closed == []


def test_a_stable_member_leaves_as_kafka_python_does(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    joining = Joining(consumers(Sticky(rack="a")), monkeypatch)
    joining.join.success(b"")
    joining.coordinator.state = MemberState.STABLE
    joining.leave()
    assert [node for _, node in joining.sent] == [NODE]


def test_a_leader_that_has_left_does_not_join_again_for_metadata(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    joining = Joining(consumers(Sticky(rack="a")), monkeypatch)
    coordinator = joining.coordinator
    joins: list[int] = []

    async def join_once(_: Any) -> Any:
        joins.append(1)
        coordinator.reset_generation()
        raise MetadataPending("t")

    monkeypatch.setattr(fixes.FixedCoordinator, "_join_and_sync", join_once)
    coordinator._cluster.request_update = lambda: Future().success(None)
    with pytest.raises(MetadataPending, match="left the group"):
        joining.consumer._net.run(coordinator._join_and_sync)
    assert joins == [1]
