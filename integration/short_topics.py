"""Topics that wait for replicas: making them, and waiting until they have them."""

from __future__ import annotations

from kafka import KafkaProducer

from integration.command_line import rackward
from integration.controllers import RunningController
from integration.throttle_settings import throttle_settings
from integration.waiting import PATIENCE, wait_until
from rackward.admin import ClusterState, connect, read_state
from rackward.clusters import Cluster
from rackward.intents import read_intents

FENCED_SECONDS = 60.0
FILL_SECONDS = 30.0
"""What the issue allows, from the broker's return on."""
TAKE_OVER_SECONDS = 180.0
"""A controller starts, joins, and waits for the session of one that was killed."""


def look(cluster: Cluster) -> ClusterState:
    """The cluster now, whichever broker tells it."""
    cluster.await_metadata()
    with connect({"bootstrap.servers": cluster.bootstrap_servers}, timeout=PATIENCE) as admin:
        return read_state(admin)


def stop(cluster: Cluster, *brokers: int) -> None:
    """Shut brokers down; returns when the cluster knows."""
    for broker in brokers:
        cluster.stop_broker(broker)
    wait_until(
        lambda: not look(cluster).view.racks().keys() & set(brokers),
        FENCED_SECONDS,
        f"brokers {brokers} are fenced",
    )


def await_full(cluster: Cluster, *topics: str, within: float = FILL_SECONDS) -> ClusterState:
    """Wait until every partition has three replicas in sync, one per rack."""
    found: list[ClusterState] = []

    def full() -> bool:
        found[:] = [look(cluster)]
        (state,) = found
        racks = state.view.racks()
        return not state.ongoing and all(
            len(row) == 3
            and set(state.in_sync[place]) == set(row)
            and {racks.get(broker) for broker in row} == {"a", "b", "c"}
            for place, row in state.view.replicas.items()
            if place.topic in topics
        )

    wait_until(full, within, f"{topics} have three replicas in sync, one per rack")
    return found[0]


def await_holder(*controllers: RunningController) -> RunningController:
    """The one that keeps the intents."""
    holding: list[RunningController] = []

    def one_holds() -> bool:
        holding[:] = [each for each in controllers if each.holds()]
        return len(holding) == 1

    wait_until(one_holds, TAKE_OVER_SECONDS, "one controller keeps the intents")
    return holding[0]


def create(cluster: Cluster, topic: str, *more: object) -> None:
    rackward(
        cluster,
        *("topics", "create", topic, "--partitions", 4, "--replication-factor", 3),
        *("--allow-under-replicated", "--config", "min.insync.replicas=2", "--yes", *more),
    )


def produce(cluster: Cluster, topic: str, partitions: int) -> int:
    """A record for each partition, acknowledged by all replicas in sync; how many there were."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all")
    try:
        sent = [producer.send(topic, b"x", partition=number) for number in range(partitions)]
        return sum(each.get(timeout=PATIENCE).offset == 0 for each in sent)
    finally:
        producer.close()


def intents_left(cluster: Cluster, topic: str = "") -> list[str]:
    """The keys of the intents that there are, of one topic or of all."""
    found = read_intents({"bootstrap.servers": cluster.bootstrap_servers}, PATIENCE).intents
    return sorted(key for key in found if key.startswith(topic))


def await_kept(cluster: Cluster) -> None:
    """Wait until no intent is left, and nothing of a throttle."""
    wait_until(lambda: intents_left(cluster) == [], TAKE_OVER_SECONDS, "no intent is left")
    # It was lifted before.
    assert throttle_settings(cluster) == {}, "a throttle is left"
