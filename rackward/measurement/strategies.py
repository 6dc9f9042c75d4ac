"""A way to assign and read partitions, as a value: the client, its assignor, and who decides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Client(Enum):
    """A client library."""

    KAFKA_PYTHON = "kafka-python"
    CONFLUENT = "confluent"
    AIOKAFKA = "aiokafka"
    JAVA = "Java"


@dataclass(frozen=True, slots=True)
class Strategy:
    """How the members of a group are configured, and what else decides what they read.

    key, title
        Identifies it in JSON, group ids and log files, and names it in tables.
    client, assignor
        The library, and the assignor as the library's configuration has it.
    is_rackward
        Whether the assignor is ours, so that its assignments are compared with the optimum.
    sends_rack
        Whether members have ``client.rack`` (ours always know their rack).
    by_brokers
        Whether brokers assign (KIP-848); ``assignor`` is then that of the brokers.
    led
        Whether ``rackward lead`` assigns.
    follower_fetching
        Whether brokers have the RackAwareReplicaSelector (KIP-392).
    nearest
        Whether members choose the nearest replica themselves.
    leader_layout
        Whether leaders were moved to the racks of the members before.
    """

    key: str
    title: str
    client: Client
    assignor: str
    is_rackward: bool = False
    sends_rack: bool = False
    by_brokers: bool = False
    led: bool = False
    follower_fetching: bool = False
    nearest: bool = False
    leader_layout: bool = False
