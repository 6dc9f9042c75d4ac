"""Groups whose members discover their racks, or are in racks without a broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import assignors.aiokafka
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.rack_discovery import discover, resolve
from assignors.rack_discovery.resolve import RackResolver
from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import KafkaPython, MakeClient, partitions_of
from integration.support.confluent import Confluent
from integration.support.groups import ConsumerGroup
from integration.support.racks import loads, off_rack, replicas_led_from
from integration.support.topics import create_topic, new_name
from rackward.testing import Cluster, LocalCluster

MISMATCH = "no member is in a rack of the brokers"
CLIENTS: dict[str, MakeClient] = {
    "kafka-python": KafkaPython(lambda rack: [Sticky(rack=rack)]),
    "confluent": Confluent(),
    "aiokafka": AIOKafka(
        lambda rack: [assignors.aiokafka.LeaderRackAwareCooperativeStickyAssignor(rack=rack)]
    ),
}


def warnings_of(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and part in record.getMessage()
    ]


@pytest.fixture(scope="module")
def two_brokers() -> Iterator[Cluster]:
    """Two brokers whose racks are ids of AWS zones."""
    with LocalCluster(("use1-az1", "use1-az2")) as cluster:
        yield cluster


@pytest.mark.parametrize("client", CLIENTS)
def test_zone_names_against_zone_ids_are_logged_once(
    two_brokers: Cluster, caplog: pytest.LogCaptureFixture, client: str
) -> None:
    topic = create_topic(two_brokers, new_name("apart"), [[p % 2] for p in range(6)])
    with ConsumerGroup(two_brokers, topics=[topic], client=CLIENTS[client]) as group:
        # Each member that joins causes a rebalance, with another list of racks.
        for name in ("us-east-1a", "us-east-1b", "us-east-1c"):
            before = group.generation
            group.start(name, name)
            owned = group.settle(partitions_of(topic, 6), after=before)
        # Before the leader leaves: the next one logs it again.
        logged = warnings_of(caplog, MISMATCH)
    assert loads(owned) == [2, 2, 2]
    (warning,) = logged
    assert warning.startswith(
        f"{MISMATCH}, so every partition is read across racks: racks of members: us-east-1a; racks"
        " of brokers: use1-az1, use1-az2. The racks of the members look like names of AWS zones"
    )


@pytest.mark.parametrize(
    "client",
    [
        "kafka-python",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("confluent", "aiokafka")),
    ],
)
def test_a_member_whose_rack_source_hangs_has_no_rack(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    client: str,
) -> None:
    # A process logs it once, so each test has its own resolver.
    monkeypatch.setattr(resolve, "_resolver", RackResolver())
    hanging: Any = discover("command:sleep 60", timeout=0.5)
    client_settings: dict[str, dict[str, Any]] = {"confluent": {"client.rack": hanging}}
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
        group.start("rackless", **client_settings.get(client, {}))
        group.start("b", "b")
        owned = group.settle(partitions_of(topic, 4))
    (warning,) = warnings_of(caplog, "no rack from command sleep: t")
    # The latter if the machine is too busy to stop the command in time.
    assert "took longer than 0.5 s" in warning or "timed out after 0.5 s" in warning
    assert warning.endswith("this consumer starts without a rack")
    # The member in b takes the two that are led there.
    assert loads(owned) == [2, 2]
    assert off_rack(cluster, owned, {"rackless": "a", "b": "b"}) == 0
