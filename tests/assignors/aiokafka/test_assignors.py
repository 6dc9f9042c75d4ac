"""Assignors as arguments of AIOKafkaConsumer: accepted and refused forms."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.aiokafka import LeaderRackAwareRangeAssignor as Range
from tests.support.aiokafka import Consumer


def test_classes_instances_and_assignors_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[tuple[str, str | None]]:
        strategies: list[Any] = [Range, Sticky(rack="az1"), RoundRobinPartitionAssignor]
        assignors = Consumer(*strategies).coordinator._assignors
        assert assignors[2] is RoundRobinPartitionAssignor
        return [(bound.name, bound.assignor.rack) for bound in assignors[:2]]

    monkeypatch.setenv("RACKWARD_RACK", "az2")
    assert asyncio.run(run()) == [(Range.name, "az2"), (Sticky.name, "az1")]
