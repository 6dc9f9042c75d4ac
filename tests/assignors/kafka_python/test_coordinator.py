"""Assignors and their coordinator in a consumer: claims, racks, warnings; effects of importing."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import kafka.consumer.group
import pytest
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.base import Generation
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import KafkaConfigurationError
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from assignors.consumer_protocol import SubscriptionReader
from assignors.kafka_python import CoordinatorNotPatchedError, enable_workarounds
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import LeaderRackAwareRangeAssignor as Range
from tests.support.kafka_python import (
    Consumers,
    claims,
    complete,
    joined,
    perform,
    receive_metadata,
    subscription_bytes,
)


def test_claims_are_owned_partitions_and_their_generation(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    assert claims(consumer) == ({}, -1)
    complete(consumer, 4, t=[2, 0])
    assert claims(consumer) == ({"t": [0, 2]}, 4)
    # A join whose SyncGroup failed: a later generation, but the assignment is that of 4.
    consumer._coordinator._generation = Generation(5, "m", Sticky.name)
    assert claims(consumer) == ({"t": [0, 2]}, 4)


def test_beside_an_eager_assignor_owned_ones_are_sent_as_revoked(
    consumers: Consumers,
) -> None:
    consumer = consumers(Sticky(rack="a"), RangePartitionAssignor)
    complete(consumer, 4, t=[0, 2])
    encoded = dict(consumer._coordinator.group_protocols())[Sticky.name].encode()
    subscription = SubscriptionReader().read(encoded)
    assert (subscription.rack, subscription.generation) == ("a", 4)
    assert (subscription.released, subscription.owned) == (True, {"t": (0, 2)})


def test_one_assignor_may_be_given_to_two_consumers(consumers: Consumers) -> None:
    shared = Sticky(rack="a")
    one, other = consumers(shared), consumers(shared)
    complete(one, 3, t=[0])
    complete(other, 4, t=[1])
    assert (claims(one), claims(other)) == (({"t": [0]}, 3), ({"t": [1]}, 4))


def test_strategies_without_a_common_protocol_are_refused(consumers: Consumers) -> None:
    with pytest.raises(KafkaConfigurationError):
        consumers(Range(), CooperativeStickyAssignor)
    assert not consumers(Range(), Sticky())._coordinator.cooperative
    assert consumers(Sticky(), CooperativeStickyAssignor)._coordinator.cooperative


def test_an_invalid_topic_name_is_ignored(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    receive_metadata(consumer, t=[0])
    member_0 = joined("m0", subscription_bytes(["t", "..", "no such/name", ""], rack="a"))
    assert perform(consumer, member_0) == {"m0": {"t": [0]}}


def rack_of(consumer: Any) -> str | None:
    """Return the rack that the consumer joins with."""
    encoded = dict(consumer._coordinator.group_protocols())[Sticky.name].encode()
    return SubscriptionReader().read(encoded).rack


def test_client_rack_is_the_rack_of_an_assignor_without_one(
    consumers: Consumers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RACKWARD_RACK", raising=False)
    shared = Sticky()
    racks = ["a", "b", ""]
    members = [consumers(shared, client_rack=rack) for rack in racks]
    assert [rack_of(each) for each in members] == ["a", "b", None]
    assert rack_of(consumers(Sticky(rack="a"), client_rack="/a")) == "a"
    assert "client_rack" not in caplog.text


def test_another_client_rack_is_logged_once_and_ignored(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    shared = Sticky(rack="a")
    assert [rack_of(consumers(shared, client_rack="b")) for _ in range(2)] == ["a", "a"]
    assert caplog.text.count("client_rack='b' is ignored: the rack of the assignor is 'a'") == 1


def test_no_rack_is_sent_in_fetches_for_an_assignor(consumers: Consumers) -> None:
    for strategy in (Sticky(rack="a"), Sticky):
        assert consumers(strategy, client_rack="a")._fetcher.config["client_rack"] == ""
    stock = consumers(RangePartitionAssignor, client_rack="a")
    assert stock._fetcher.config["client_rack"] == "a"


def test_assignments_are_logged_with_group_and_generation(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rackward.assignors")
    strategy = Sticky(rack="a")
    consumer = consumers(strategy)
    assert strategy.last_assignment() is None
    receive_metadata(consumer, t=[0])
    consumer._coordinator._generation = Generation(12, "m0", Sticky.name)
    perform(consumer, joined("m0", subscription_bytes(["t"], rack="a")))
    last = strategy.last_assignment("g")
    assert last is not None
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.INFO] == [str(last)]
    assert "group=g generation=12" in str(last)
    assert (last.group, last.generation, last.partitions) == ("g", 12, 1)
    assert strategy.assignments() == (last,)
    assert strategy.last_assignment("another") is None


def test_consumer_constructed_before_install_is_refused(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka.consumer.group, "ConsumerCoordinator", ConsumerCoordinator)
    with pytest.raises(TypeError, match=r"call assignors\.kafka_python\.install\(\) before"):
        enable_workarounds(consumers(RangePartitionAssignor))


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
strategy.protocol
assert "numpy" in sys.modules
""")
