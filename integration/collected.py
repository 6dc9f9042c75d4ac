"""A topic that groups of every kind have read to its end, for a collector to look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import RetriableError

from integration.aiokafka_client import AIOKafka
from integration.clients import KafkaPython, MakeClient
from integration.collecting import fill, librdkafka, new_protocol
from integration.groups import ConsumerGroup, Place
from integration.racks import evenly, replicas_led_from
from integration.topics import committed, create_topic, new_name, with_admin
from integration.waiting import PATIENCE, wait_until
from rackward.clusters import Cluster
from rackward.collector import Patterns, Selection

PARTITIONS = 12
RECORDS = 20
"""Of each partition, a kilobyte each."""

SESSION_MS = 20_000
"""No member is to be taken for dead because the machine is busy, and one that is gone before it
was a member is not to be waited for by the others much longer than that."""

Owned = dict[str, tuple[int, dict[str, frozenset[Place]]]]
"""Kind of group to its generation, and to the partitions of each member."""


@dataclass(frozen=True)
class Scene:
    """A topic that several groups have read to its end, and go on reading."""

    cluster: Cluster
    topic: str
    groups: dict[str, ConsumerGroup]
    alone: str
    """A group whose consumer assigned partitions to itself, committed, and left."""

    @property
    def ids(self) -> list[str]:
        """Of all groups."""
        return sorted([self.alone, *(group.id for group in self.groups.values())])

    @property
    def selection(self) -> Selection:
        """These groups and this topic."""
        return Selection(Patterns(self.ids), Patterns([self.topic]))

    def owned(self) -> Owned:
        """Of each kind of group the generation, and what its members own of the whole topic."""
        places = {(self.topic, partition) for partition in range(PARTITIONS)}
        owned = {kind: group.settle(places, hold=0.0) for kind, group in self.groups.items()}
        return {kind: (self.groups[kind].generation, each) for kind, each in owned.items()}


@contextmanager
def collected(cluster: Cluster) -> Iterator[Scene]:
    """The scene, once all of it is as a collector is to find it."""
    topic = create_topic(cluster, new_name("collected"), replicas_led_from(evenly(PARTITIONS)))
    fill(cluster, topic, PARTITIONS, RECORDS)
    kinds: dict[str, MakeClient] = {
        "builtin": KafkaPython(lambda _: [RangePartitionAssignor]),
        "ours": KafkaPython(),
        "librdkafka": librdkafka,
        "aiokafka": AIOKafka(),
        "new": new_protocol,
    }
    with ExitStack() as stack:
        groups = {}
        for kind, client in kinds.items():
            group = ConsumerGroup(
                cluster, topics=[topic], client=client, session_timeout_ms=SESSION_MS
            )
            groups[kind] = stack.enter_context(group)
            group.start(f"{kind}-a", rack="a")
            group.start(f"{kind}-b", rack="b")
        alone = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers.split(","), group_id=new_name("alone")
        )
        stack.callback(alone.close)
        alone.assign([TopicPartition(topic, 3)])
        alone.seek(TopicPartition(topic, 3), 7)
        assert alone.position(TopicPartition(topic, 3)) == 7
        alone.commit()
        scene = Scene(cluster, topic, groups, alone.config["group_id"])
        scene.owned()
        for kind, group in groups.items():
            wait_until(
                lambda group=group: (  # type: ignore[misc]
                    sum(committed(cluster, group.id).values()) == PARTITIONS * RECORDS
                ),
                PATIENCE,
                f"the group {kind} commits all that there is",
            )
        ids = {group.id for group in groups.values()}
        # Of the new protocol, members have what they were told to have before brokers hear of it.
        wait_until(lambda: ids <= _stable(cluster), PATIENCE, "brokers call all groups stable")
        yield scene


def _stable(cluster: Cluster) -> set[str]:
    try:
        listed = with_admin(cluster, lambda admin: admin.list_groups())
    except RetriableError:
        return set()
    return {each["group_id"] for each in listed if each["group_state"] == "Stable"}
