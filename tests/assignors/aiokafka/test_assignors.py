"""What users of aiokafka write, and what is refused."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import aiokafka.consumer.consumer
import pytest
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from assignors import aiokafka as ours
from assignors import kafka_python as theirs
from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.aiokafka import LeaderRackAwareRangeAssignor as Range
from assignors.aiokafka import UnseatedAssignorError, UnsupportedAiokafkaError
from assignors.aiokafka.coordinator import NEEDED, RackAwareCoordinator, check_support
from placement_core import InvalidOptionError, RackwardError
from tests.support.aiokafka import Consumer


@pytest.mark.parametrize(
    "name", ["LeaderRackAwareRangeAssignor", "LeaderRackAwareCooperativeStickyAssignor"]
)
def test_names_and_options_are_those_of_the_adapter_for_kafka_python(name: str) -> None:
    mine, other = getattr(ours, name), getattr(theirs, name)
    assert mine.name == other.name
    options = dict(inspect.signature(other).parameters)
    # What only kafka-python needs.
    del options["hardened"]
    assert dict(inspect.signature(mine).parameters) == options


@pytest.mark.parametrize("options", [{"rack": 3}, {"max_imbalance": -1}, {"max_imbalance": "x"}])
def test_options_that_make_no_sense_are_refused(options: Any) -> None:
    for strategy in (Range, Sticky):
        with pytest.raises(InvalidOptionError):
            strategy(**options)


def test_consumers_make_our_coordinator() -> None:
    assert aiokafka.consumer.consumer.GroupCoordinator is RackAwareCoordinator


def test_without_our_coordinator_an_assignor_refuses_to_join() -> None:
    # A leader that read version 0 of subscriptions would give away what others own.
    calls: list[Callable[[], object]] = [
        lambda: Sticky().metadata({"t"}),
        lambda: Sticky().assign(None, {}),
        lambda: Range().on_assignment(None),
    ]
    for call in calls:
        with pytest.raises(UnseatedAssignorError, match=r"after assignors\.aiokafka is imported"):
            call()
    assert issubclass(UnseatedAssignorError, RackwardError)


class Older:
    """An aiokafka of some other day."""

    listed = ("once a class",)

    async def changed(self, leader_id: Any, strategy: Any) -> None: ...


@pytest.mark.parametrize("declared", ["missing(self)", "changed(self, response)", "listed(group)"])
def test_an_aiokafka_that_will_not_do_is_refused_by_name(declared: str) -> None:
    with pytest.raises(UnsupportedAiokafkaError) as refused:
        check_support([(Older, [declared])], "0.9.0")
    message = str(refused.value)
    assert message.startswith(f"aiokafka 0.9.0 has no Older.{declared}, which the assignors need")
    assert "install aiokafka 0.13.0 or later" in message


def test_all_that_the_coordinator_overrides_is_checked() -> None:
    overridden = {
        name
        for name, value in vars(RackAwareCoordinator).items()
        if inspect.isfunction(value) and hasattr(RackAwareCoordinator.__mro__[1], name)
    } - {"__init__"}
    checked = {each.partition("(")[0] for _, names in NEEDED for each in names}
    assert overridden <= checked
    check_support()


def test_classes_instances_and_assignors_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def names() -> list[tuple[str, str | None]]:
        consumer = Consumer(Range, Sticky(rack="az1"), RoundRobinPartitionAssignor)
        seats = consumer.coordinator._assignors
        assert seats[2] is RoundRobinPartitionAssignor
        return [(seat.name, seat.assignor.rack) for seat in seats[:2]]

    monkeypatch.setenv("RACKWARD_RACK", "az2")
    assert asyncio.run(names()) == [(Range.name, "az2"), (Sticky.name, "az1")]
