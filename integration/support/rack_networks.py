"""A DockerCluster whose racks are Docker networks, and clients in them.

Each rack has a subnet. A client of a rack is a process of this machine in the network namespace of
a container of its own, which is in the rack's network only. So brokers and the kernel see an
address of that subnet. Every broker has an address in each of these networks, which the rack's
listener advertises; other brokers use that in its own rack. Entering namespaces needs root and
nsenter.

As a program, this module is a client: ``python -m integration.support.rack_networks JSON``, with
the fields of `ClientConfig`. It ends when it has sent or read ``records``, or when its standard
input is closed.
"""

from __future__ import annotations

import json
import os
import random
import re
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import docker
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from docker.types import IPAMConfig, IPAMPool

from rackward.testing import DockerCluster, jolokia
from rackward.testing.broker_config import INTERNAL
from rackward.testing.cluster import Node

RECORD_BYTES = 10_000
SOURCES = Path(__file__).parents[2]
_FIRST_BROKER = 10


@dataclass(frozen=True)
class ClientConfig:
    """A producer without ``group``; else a consumer, which subscribes or assigns all partitions."""

    bootstrap: str
    topic: str
    partitions: int
    records: int | None = None
    group: str | None = None
    subscribe: bool = True
    rack: str | None = None
    """The rack that it declares."""
    ca: str | None = None
    """The file of the authority that signed the brokers' certificates, with TLS."""

    def connection(self) -> dict[str, str]:
        """Return librdkafka's properties of the connection."""
        properties = {"bootstrap.servers": self.bootstrap}
        if self.ca is not None:
            properties |= {"security.protocol": "ssl", "ssl.ca.location": self.ca}
            # Certificates have no addresses.
            properties["ssl.endpoint.identification.algorithm"] = "none"
        return properties


class Client(NamedTuple):
    """A running client and its address."""

    process: subprocess.Popen[str]
    address: str


class RackNetworks(DockerCluster):
    """See the module's docstring. `DockerCluster.bootstrap` is only for clients without a rack."""

    def __init__(
        self, racks: Sequence[str], server_properties: Mapping[str, str] | None = None
    ) -> None:
        # Addresses for benchmarks (RFC 2544), which no network in use has.
        first = random.SystemRandom().randrange(0, 256 - len(racks))
        self.subnets = {
            rack: f"198.18.{first + index}" for index, rack in enumerate(dict.fromkeys(racks))
        }
        """The first three numbers of each rack's addresses."""
        super().__init__(racks, server_properties=server_properties)

    def address(self, rack: str, broker: int) -> str:
        """Return the broker's address in the network of a rack."""
        return f"{self.subnets[rack]}.{_FIRST_BROKER + broker}"

    def port_of(self, rack: str) -> int:
        """Return the port of a rack's listener, the same at all brokers."""
        return self._container_ports[self._rack_listeners[rack]]

    @property
    def internal_port(self) -> int:
        """The port at which brokers fetch from each other."""
        return self._container_ports[INTERNAL]

    def bootstrap_of(self, rack: str) -> str:
        """Return ``host:port,...`` for a client in the rack's network."""
        port = self.port_of(rack)
        return ",".join(f"{self.address(rack, broker)}:{port}" for broker in self.racks)

    def bytes_replicated(self) -> dict[tuple[int, int], int]:
        """Return, by (leader, follower), the bytes that followers' fetchers have received."""
        mbean = "kafka.server:type=replica-fetcher-metrics,broker-id=*,fetcher-id=*"
        found: Counter[tuple[int, int]] = Counter()
        for node in self._nodes.values():
            by_fetcher = jolokia.read(node.agent_port, mbean, jolokia.BYTES_IN)
            for name, values in by_fetcher.items():
                leader = re.search(r"broker-id=(\d+)", name)
                assert leader is not None
                found[int(leader[1]), node.id] += int(values[jolokia.BYTES_IN])
        return found

    def start_client(self, rack: str, config: ClientConfig) -> Client:
        """Start a client in the rack's network."""
        with closing(docker.from_env()) as engine:
            container: Any = engine.containers.run(
                self._image,
                ["sleep", "infinity"],
                detach=True,
                network=self._network_of(rack),
                labels=self._labels,
            )
            container.reload()
        settings = container.attrs["NetworkSettings"]
        process = subprocess.Popen(
            [
                *("nsenter", f"--net={settings['SandboxKey']}", sys.executable),
                *("-m", "integration.support.rack_networks", json.dumps(asdict(config))),
            ],
            stdin=subprocess.PIPE,
            text=True,
            cwd=SOURCES,
        )
        return Client(process, settings["Networks"][self._network_of(rack)]["IPAddress"])

    def _open(self) -> None:
        super()._open()
        with closing(docker.from_env()) as engine:
            for rack, subnet in self.subnets.items():
                # Clients get addresses of the upper half.
                pool = IPAMPool(subnet=f"{subnet}.0/24", iprange=f"{subnet}.128/25")
                engine.networks.create(
                    self._network_of(rack),
                    labels=self._labels,
                    ipam=IPAMConfig(pool_configs=[pool]),
                )

    def _broker_variables(self, node: Node) -> dict[str, str]:
        variables = super()._broker_variables(node)
        advertised = dict(
            each.split("://") for each in variables["KAFKA_ADVERTISED_LISTENERS"].split(",")
        )
        for rack, listener in self._rack_listeners.items():
            advertised[listener] = f"{self.address(rack, node.id)}:{self.port_of(rack)}"
        # In the network of its own rack.
        assert node.rack is not None
        advertised[INTERNAL] = f"{self.address(node.rack, node.id)}:{self.internal_port}"
        text = ",".join(f"{name}://{address}" for name, address in advertised.items())
        return {**variables, "KAFKA_ADVERTISED_LISTENERS": text}

    def _launch(self, nodes: Sequence[Node]) -> None:
        super()._launch(nodes)
        with closing(docker.from_env()) as engine:
            for rack in self.subnets:
                network = engine.networks.get(self._network_of(rack))
                for node in nodes:
                    container = self._containers[node.name].get_wrapped_container()
                    network.connect(container, ipv4_address=self.address(rack, node.id))

    def _network_of(self, rack: str) -> str:
        return f"{self._network.name}-{rack}"


def _produce(config: ClientConfig) -> None:
    # Consumers read batches twice that a full response cuts: of small ones fewer bytes.
    producer = Producer({**config.connection(), "batch.size": 65536})
    for number in range(config.records or 0):
        producer.produce(
            config.topic, os.urandom(RECORD_BYTES), partition=number % config.partitions
        )
        producer.poll(0)
        if number % 100 == 99:
            producer.flush()
    assert producer.flush(60) == 0, "records are not acknowledged"


def _consume(config: ClientConfig) -> None:
    properties = {
        **config.connection(),
        "group.id": config.group,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
    }
    if config.rack is not None:
        properties["client.rack"] = config.rack
    with ExitStack() as stack:
        consumer = Consumer(properties)
        stack.callback(consumer.close)
        if config.subscribe:
            consumer.subscribe([config.topic])
        else:
            partitions = range(config.partitions)
            consumer.assign([TopicPartition(config.topic, p, OFFSET_BEGINNING) for p in partitions])
        read = 0
        while read != config.records and not select.select([sys.stdin], [], [], 0)[0]:
            for message in consumer.consume(500, 0.2):
                assert not message.error(), message.error()
                read += 1


if __name__ == "__main__":
    given = ClientConfig(**json.loads(sys.argv[1]))
    if given.group is None:
        _produce(given)
    else:
        _consume(given)
