"""Real groups whose members look for their racks, or name racks that no broker is in."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assignors.aiokafka
from assignors.group_leader import Remarks
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.rack_discovery import discover
from assignors.rack_discovery import resolve as choosing
from assignors.rack_discovery.resolve import Memory
from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import KafkaPython, MakeClient, Place
from integration.support.confluent_clients import Confluent
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, loads, off_rack, replicas_led_from
from integration.support.topics import create_topic, new_name
from rackward.clusters import Cluster, LocalCluster

APART = "no member is in a rack of the brokers"
CLIENTS: dict[str, MakeClient] = {
    "kafka-python": KafkaPython(lambda rack: [Sticky(rack=rack)]),
    "confluent": Confluent(),
    "aiokafka": AIOKafka(
        lambda rack: [assignors.aiokafka.LeaderRackAwareCooperativeStickyAssignor(rack=rack)]
    ),
}


def places(topic: str, count: int) -> set[Place]:
    return {(topic, partition) for partition in range(count)}


def said(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and part in record.getMessage()
    ]


@pytest.fixture(scope="module")
def small() -> Iterator[Cluster]:
    """Two brokers in zones that have ids."""
    with LocalCluster(("use1-az1", "use1-az2")) as made:
        yield made


@pytest.mark.parametrize("client", CLIENTS)
def test_names_of_zones_against_ids_are_warned_of_once(
    small: Cluster, caplog: pytest.LogCaptureFixture, client: str
) -> None:
    topic = create_topic(small, new_name("apart"), [[p % 2] for p in range(6)])
    with ConsumerGroup(small, topics=[topic], client=CLIENTS[client]) as group:
        # Each member that comes is a rebalance, and makes another list of racks.
        for name in ("us-east-1a", "us-east-1b", "us-east-1c"):
            before = group.generation
            group.start(name, name)
            owned = group.settle(places(topic, 6), after=before)
        # Before the leader leaves: the next one says it once more.
        warnings = said(caplog, APART)
    assert loads(owned) == [2, 2, 2]
    (warning,) = warnings
    assert warning.startswith(
        f"{APART}: members say us-east-1a; brokers use1-az1, use1-az2; everything is read across"
        " racks. Some are names of AWS zones, while the brokers' are ids of zones."
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_a_rack_out_of_a_file(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    client: str,
) -> None:
    # Three each: whoever is in a reads what is led there, and the others what is led in theirs.
    labels = tmp_path / "labels"
    labels.write_text('app="billing"\ntopology.kubernetes.io/zone="a"\n')
    monkeypatch.delenv("RACKWARD_RACK", raising=False)
    monkeypatch.setenv("RACKWARD_RACK_FILE", f"{labels}#topology.kubernetes.io/zone")
    topic = create_topic(cluster, new_name("found"), replicas_led_from(evenly(9)))
    with ConsumerGroup(cluster, topics=[topic], client=CLIENTS[client]) as group:
        for name, rack in (("found", None), ("b", "b"), ("c", "c")):
            group.start(name, rack)
        owned = group.settle(places(topic, 9))
    assert loads(owned) == [3, 3, 3]
    assert off_rack(cluster, owned, {"found": "a", "b": "b", "c": "c"}) == 0
    assert said(caplog, APART) == []


@pytest.mark.parametrize(
    "client",
    [
        "kafka-python",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("confluent", "aiokafka")),
    ],
)
def test_a_source_that_hangs_costs_the_rack_only(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    client: str,
) -> None:
    # One process says it once, and each of these tests is about the first time.
    monkeypatch.setattr(choosing, "_choice", choosing.Choice(Memory(), Remarks()))
    hanging: Any = discover("command:sleep 60", timeout=0.5)
    making: dict[str, dict[str, Any]] = {"confluent": {"client.rack": hanging}}
    clients: dict[str, MakeClient] = {
        **CLIENTS,
        "kafka-python": KafkaPython(lambda rack: [Sticky(rack=rack or hanging)]),
        "aiokafka": AIOKafka(
            lambda rack: [
                assignors.aiokafka.LeaderRackAwareCooperativeStickyAssignor(rack=rack or hanging)
            ]
        ),
    }
    topic = create_topic(cluster, new_name("hanging"), replicas_led_from(["a", "b", "b", "a"]))
    with ConsumerGroup(cluster, topics=[topic], client=clients[client]) as group:
        group.start("rackless", **making.get(client, {}))
        group.start("b", "b")
        owned = group.settle(places(topic, 4))
    (warning,) = said(caplog, "no rack from command sleep, which took longer than 0.5 s")
    assert warning.endswith("this consumer starts without one")
    # What is led in a is all that the other leaves.
    assert loads(owned) == [2, 2]
    assert off_rack(cluster, owned, {"rackless": "a", "b": "b"}) == 0
