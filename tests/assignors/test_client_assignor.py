"""The common interface of the assignors for kafka-python and for aiokafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import aiokafka.consumer.consumer
import kafka.consumer.group
import pytest
from aiokafka.consumer.group_coordinator import GroupCoordinator
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.consumer import ConsumerCoordinator

import assignors.aiokafka
import assignors.kafka_python
from assignors.client_assignor import (
    BoundAssignor,
    ClassPatch,
    ClientAssignor,
    CooperativeStickyClientAssignor,
    RangeClientAssignor,
    bind,
    is_client_assignor,
)
from assignors.kafka_python import CoordinatorNotPatchedError
from assignors.rack_discovery import discover
from placement_core import InvalidOptionError, RackwardError

ADAPTERS = pytest.mark.parametrize("adapter", [assignors.kafka_python, assignors.aiokafka])
NAMES = ["LeaderRackAwareRangeAssignor", "LeaderRackAwareCooperativeStickyAssignor"]


@ADAPTERS
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"rack": 3}, "3"),
        ({"max_imbalance": -1}, "max_imbalance"),
        ({"max_imbalance": "x"}, "max_imbalance"),
        ({"refresh": 60}, "refresh is 60"),
    ],
)
def test_invalid_options_are_refused(
    adapter: ModuleType, name: str, option: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        getattr(adapter, name)(**option)


# The rack.


@ADAPTERS
def test_the_rack_is_read_from_the_environment(
    adapter: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    sticky = adapter.LeaderRackAwareCooperativeStickyAssignor
    monkeypatch.setenv("RACKWARD_RACK", " az2 ")
    assert (sticky().rack, sticky(rack="az1").rack) == ("az2", "az1")
    monkeypatch.setenv("RACKWARD_RACK", "")
    assert sticky().rack is None
    assert adapter.LeaderRackAwareRangeAssignor().rack is None


@ADAPTERS
def test_the_rack_is_read_from_a_file_or_from_a_given_source(
    adapter: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sticky = adapter.LeaderRackAwareCooperativeStickyAssignor
    monkeypatch.delenv("RACKWARD_RACK", raising=False)
    file = tmp_path / "zone"
    file.write_text("az3\n")
    monkeypatch.setenv("RACKWARD_RACK_FILE", str(file))
    assert (adapter.LeaderRackAwareRangeAssignor().rack, sticky().rack) == ("az3", "az3")
    assert sticky(rack=discover("command:echo az4")).rack == "az4"
    assert sticky(rack=discover("command:no-such-program")).rack is None


# The coordinator that an assignor needs.


@ADAPTERS
def test_an_assignor_in_a_foreign_coordinator_is_refused(adapter: ModuleType) -> None:
    sticky = adapter.LeaderRackAwareCooperativeStickyAssignor()
    calls: list[Callable[[], object]] = [
        # A leader that does not read owned partitions would assign them to other members.
        lambda: sticky.metadata({"t"}),
        lambda: sticky.assign(None, {}),
        lambda: adapter.LeaderRackAwareRangeAssignor().on_assignment(None),
    ]
    for call in calls:
        with pytest.raises(CoordinatorNotPatchedError) as refused:
            call()
        assert "did not install: before the consumer is constructed, construct the" in str(
            refused.value
        )
        assert f"call {adapter.__name__}.install()" in str(refused.value)
    assert issubclass(CoordinatorNotPatchedError, RackwardError)


@pytest.mark.parametrize(
    ("adapter", "module", "name", "original"),
    [
        (assignors.kafka_python, kafka.consumer.group, "ConsumerCoordinator", ConsumerCoordinator),
        (assignors.aiokafka, aiokafka.consumer.consumer, "GroupCoordinator", GroupCoordinator),
    ],
    ids=["kafka-python", "aiokafka"],
)
def test_install_and_uninstall(
    adapter: Any, module: ModuleType, name: str, original: type, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(adapter.install)
    coordinator = adapter.coordinator.RackAwareCoordinator
    for _ in range(2):
        adapter.uninstall()
        assert getattr(module, name) is original
    for _ in range(2):
        adapter.install()
        assert getattr(module, name) is coordinator
    adapter.uninstall()
    adapter.LeaderRackAwareRangeAssignor()
    assert getattr(module, name) is coordinator, "constructing an assignor installs the coordinator"


def test_a_later_replacement_by_others_is_left_alone() -> None:
    class Original: ...

    class Ours: ...

    class Foreign: ...

    module = SimpleNamespace(Coordinator=Original)
    patch = ClassPatch(module, Coordinator=Ours)
    patch.install()
    module.Coordinator = Foreign
    patch.uninstall()
    assert module.Coordinator is Foreign
    patch.install()
    patch.uninstall()
    assert module.Coordinator is Foreign


# Subclasses and subscriptions.


@ADAPTERS
def test_a_subclass_may_fix_options(adapter: Any) -> None:
    class InRackA(adapter.LeaderRackAwareCooperativeStickyAssignor):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(rack="a", max_imbalance=0.1)

    strategy = InRackA()
    assert (strategy.name, strategy.rack) == ("leader-rack-aware-cooperative-sticky", "a")
    assert isinstance(strategy, ClientAssignor)
    assert is_client_assignor(strategy)
    assert is_client_assignor(InRackA)
    assert not is_client_assignor(object)


@pytest.mark.parametrize("kind", [CooperativeStickyClientAssignor, RangeClientAssignor])
def test_partitions_are_weighed_by_the_given_traffic(kind: Any) -> None:
    weights = {"t": [1.0, 2.0]}
    assert kind(rack=None, weights=weights).protocol.weights is weights
    assert kind(rack=None).protocol.weights is None
    assert kind(rack=None, max_imbalance=0.25).protocol.assignor.max_imbalance == 0.25


def test_client_assignors_are_bound_and_classes_instantiated() -> None:
    class NamedRange(CooperativeStickyClientAssignor):
        def __init__(self) -> None:
            super().__init__(rack=None)

    foreign, sticky = object(), CooperativeStickyClientAssignor(rack="a")
    other, first, second = bind([foreign, sticky, NamedRange], BoundAssignor)
    assert other is foreign
    assert first.assignor is sticky
    assert isinstance(second.assignor, NamedRange)
    # A class of others stays a class.
    assert bind([RangePartitionAssignor], BoundAssignor) == [RangePartitionAssignor]
