"""The assignors in kafka-python's interface, and side effects of importing them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from assignors.kafka_python import CoordinatorNotPatchedError
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import LeaderRackAwareRangeAssignor as Range
from tests.support.kafka_python import (
    Consumers,
)


def bound(consumer: Any, strategy: Any) -> Any:
    return consumer._coordinator._assignors[strategy.name]


def test_names_and_rebalance_protocols(consumers: Consumers) -> None:
    both = [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
    for strategy, name, protocols in (
        (Range(), "leader-rack-aware-range", [RebalanceProtocol.EAGER]),
        (Sticky(), "leader-rack-aware-cooperative-sticky", both),
    ):
        assert strategy.name == name
        assert bound(consumers(strategy), strategy).supported_protocols() == protocols
        with pytest.raises(CoordinatorNotPatchedError):
            strategy.supported_protocols()


@pytest.mark.parametrize("strategy", [Range(rack="az1"), Sticky(rack="az1")])
def test_the_subscription_has_sorted_topics_and_the_rack(
    consumers: Consumers, strategy: Any
) -> None:
    encoded = bound(consumers(strategy), strategy).metadata({"b", "a"}).encode()
    subscription = ConsumerProtocolSubscription.decode(encoded)
    assert (subscription.version, subscription.topics, subscription.rack_id) == (
        3, ["a", "b"], "az1",
    )  # fmt: skip
    assert (subscription.owned_partitions, subscription.generation_id) == ([], -1)


# Side effects.

_SNAPSHOT = """
import importlib, logging, pkgutil, sys

def import_all(package):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if ".cli" not in module.name and "__main__" not in module.name:
            try:
                importlib.import_module(module.name)
            except ImportError:
                pass

def identities(*packages):
    result = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in packages:
            for attribute, value in vars(module).items():
                if not attribute.startswith("__"):
                    result[name, attribute] = value
                    if isinstance(value, type):
                        members = vars(value).items()
                        result |= {(name, attribute, key): each for key, each in members}
    return result

def changed(before, after):
    return [key for key in before.keys() | after.keys()
            if key not in before or key not in after or before[key] is not after[key]]
"""


def run_in_fresh_interpreter(script: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", _SNAPSHOT + script], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_importing_the_adapters_changes_nothing_in_the_libraries() -> None:
    run_in_fresh_interpreter("""
import kafka, aiokafka
import_all(kafka)
import_all(aiokafka)
before = identities("kafka", "aiokafka")
assert ("kafka.consumer.group", "ConsumerCoordinator") in before
assert ("kafka.coordinator.consumer", "ConsumerCoordinator", "poll") in before
assert ("aiokafka.consumer.consumer", "GroupCoordinator") in before
import assignors.kafka_python, assignors.aiokafka
assert changed(before, identities("kafka", "aiokafka")) == []
loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
assert not any(logger.filters for logger in loggers if logger.name.startswith("kafka"))

# The snapshot finds what constructing an assignor changes.
assignors.kafka_python.LeaderRackAwareRangeAssignor()
keys = changed(before, identities("kafka", "aiokafka"))
assert {key[:2] for key in keys} == {
        ("kafka.consumer.group", "ConsumerCoordinator"),
        ("kafka.consumer.group", "Fetcher"),
    }
assignors.kafka_python.uninstall()
assert changed(before, identities("kafka", "aiokafka")) == []
""")


def test_a_consumer_with_assignors_of_kafka_python_is_untouched() -> None:
    run_in_fresh_interpreter("""
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
import assignors.kafka_python

consumer = KafkaConsumer(
    bootstrap_servers="127.0.0.1:1", api_version=(3, 9), group_id="g",
    partition_assignment_strategy=[RangePartitionAssignor],
)
assert type(consumer._coordinator) is ConsumerCoordinator
assert "send" not in vars(consumer._client._manager)
consumer.close(timeout_ms=0)
""")


def test_consumer_of_other_assignors_has_no_workarounds(
    consumers: Consumers,
) -> None:
    consumer = consumers(RangePartitionAssignor)
    assert not consumer._coordinator.workarounds_enabled
    assert "send" not in vars(consumer._client._manager)
    assert consumer._coordinator._bound == {}


@pytest.mark.parametrize("library", ["kafka_python", "aiokafka"])
def test_a_strategy_needs_no_numpy_before_its_consumer_leads(library: str) -> None:
    run_in_fresh_interpreter(f"""
from assignors.{library} import LeaderRackAwareCooperativeStickyAssignor
strategy = LeaderRackAwareCooperativeStickyAssignor(rack="a", max_imbalance=0.1)
assert strategy.assignments() == ()
assert "numpy" not in sys.modules
strategy.rebalance
assert "numpy" in sys.modules
""")
