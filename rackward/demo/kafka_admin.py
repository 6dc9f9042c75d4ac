"""kafka-python's admin client, as the demo uses it: topics, groups and metadata."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from placement_core import Broker, ClusterView, TopicPartition
from rackward.demo.groups import DemoError


@contextmanager
def admin_of(bootstrap_servers: str) -> Iterator[Any]:
    """An admin client. What the client library raises inside becomes a DemoError."""
    try:
        client = KafkaAdminClient(
            bootstrap_servers=bootstrap_servers.split(","), bootstrap_timeout_ms=10_000
        )
        try:
            yield client
        finally:
            client.close()
    except KafkaError as error:
        raise DemoError(f"the cluster at {bootstrap_servers} refused: {error}") from error
    except ValueError as error:
        raise DemoError(f"cannot connect to {bootstrap_servers!r}: {error}") from error


def view_of(admin: Any, topics: Sequence[str]) -> ClusterView:
    """The brokers, and the replicas and leaders of ``topics``, as of now."""
    brokers = admin.describe_cluster()["brokers"]
    replicas = {}
    leaders = {}
    for topic in admin.describe_topics(list(topics)) if topics else []:
        for partition in topic["partitions"]:
            place = TopicPartition(topic["name"], partition["partition_index"])
            replicas[place] = tuple(partition["replica_nodes"])
            if partition["leader_id"] >= 0:
                leaders[place] = partition["leader_id"]
    return ClusterView(
        brokers=tuple(
            sorted(
                (
                    Broker(broker["broker_id"], broker["rack"] or None)
                    for broker in brokers
                    if not broker.get("is_fenced")
                ),
                key=lambda broker: broker.id,
            )
        ),
        replicas=replicas,
        leaders=leaders,
    )
