"""Requests that change a cluster: each needs the guard, and none is sent after its deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.admin import AlterConfigOp as ConfigOp

from placement_core import RackwardError, TopicPartition
from rackward.kafka import AdminConnection, AdminTimeoutError
from rackward.kafka.configs import ALL_BROKERS, ConfigChange, alter_configs
from rackward.kafka.topics import elect_preferred_leaders, reassign
from rackward.units import Deadline


class FakeClient:
    """A client whose only broker answers each request with no errors; ``sent`` are the requests."""

    def __init__(self) -> None:
        self._manager = self
        self.sent: list[str] = []

    def run(self, coroutine: Callable[[], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await coroutine()

        return asyncio.run(run())

    async def send(self, request: Any, node_id: object, request_timeout_ms: float) -> Any:
        assert request_timeout_ms > 0, node_id
        self.sent.append(request.name)
        return SimpleNamespace(
            controller_id=1, error_code=0, responses=[], replica_election_results=[]
        )


def reassign_one(admin: AdminConnection) -> object:
    return reassign(admin, {TopicPartition("t", 0): (1, 2)})


def elect_one(admin: AdminConnection) -> object:
    return elect_preferred_leaders(admin, [TopicPartition("t", 0)])


def alter_one(admin: AdminConnection) -> object:
    change = ConfigChange("key", ConfigOp.SET, "value")
    return alter_configs(admin, "throttling", {ALL_BROKERS: [change]})


CHANGES = pytest.mark.parametrize("change", [reassign_one, elect_one, alter_one])


@CHANGES
def test_each_request_is_permitted_and_sent_before_its_deadline(
    change: Callable[[AdminConnection], object],
) -> None:
    client = FakeClient()
    admin = AdminConnection(client, "k:1", timeout=20.0)
    operations: list[str] = []
    now = 0.0

    @contextmanager
    def guard(operation: str) -> Iterator[Deadline]:
        operations.append(operation)
        yield Deadline(5.0, 5.0, lambda: now)

    admin.guard = guard
    change(admin)
    assert len(operations) == 1
    client.sent.clear()
    # The process is suspended after the guard has permitted the change.
    now = 5.0
    with pytest.raises(AdminTimeoutError, match=r"not sent, since its time of 5 s was over"):
        change(admin)
    assert client.sent == []


@CHANGES
def test_nothing_is_sent_without_permission(change: Callable[[AdminConnection], object]) -> None:
    client = FakeClient()
    admin = AdminConnection(client, "k:1", timeout=20.0)

    @contextmanager
    def guard(_: str) -> Iterator[Deadline]:
        raise RackwardError("lost")
        yield

    admin.guard = guard
    with pytest.raises(RackwardError, match="lost"):
        change(admin)
    assert client.sent == []


def test_every_batch_of_a_large_change_is_permitted() -> None:
    admin = AdminConnection(FakeClient(), "k:1", timeout=20.0)
    operations: list[str] = []

    @contextmanager
    def guard(operation: str) -> Iterator[Deadline]:
        operations.append(operation)
        yield Deadline.after(5.0)

    admin.guard = guard
    partitions = [TopicPartition("t", number) for number in range(2500)]
    reassign(admin, dict.fromkeys(partitions, (1, 2)))
    elect_preferred_leaders(admin, partitions)
    assert len(operations) == 6


def test_requests_within_a_deadline_share_it() -> None:
    admin = AdminConnection(FakeClient(), "k:1", timeout=20.0)
    with admin.within(Deadline.after(5.0)) as deadline:
        assert admin.deadline() is deadline
        with admin.within() as nested:
            assert nested is deadline
        with admin.within(Deadline.after(1.0)):
            assert admin.deadline().seconds == 1.0
        assert admin.deadline() is deadline
    assert admin.deadline().seconds == 20.0
