"""Real KafkaConsumers that have no broker to talk to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaConsumer
from kafka.cluster import ClusterMetadata
from kafka.protocol.consumer.group import JoinGroupResponse
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.protocol.metadata import MetadataResponse

from assignors import LeaderRackAwareCooperativeSticky
from assignors.consumer_protocol import SubscriptionReader, write_user_data
from assignors.group_leader import Joined, Leaders, Rebalance, Remarks

# ---- kafka-python's own objects, made as it makes them from what brokers send.

NO_LEADER = -1
UNKNOWN_TOPIC = 3
LEADER_NOT_AVAILABLE = 5


def metadata_response(
    racks: Mapping[int, str | None], leaders: Mapping[str, Sequence[int] | Mapping[int, int]]
) -> Any:
    """A broker's answer: ``racks`` by broker, the leader of each partition by topic.

    A topic without partitions is one that the broker does not know.
    """
    broker = MetadataResponse.MetadataResponseBroker
    topic = MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition
    answer = MetadataResponse(
        brokers=[
            broker(node_id=node, host="127.0.0.1", port=1, rack=rack)
            for node, rack in racks.items()
        ],
        cluster_id="c",
        controller_id=0,
        topics=[
            topic(
                error_code=0 if leads else UNKNOWN_TOPIC,
                name=name,
                is_internal=False,
                partitions=[
                    partition(
                        error_code=LEADER_NOT_AVAILABLE if leader == NO_LEADER else 0,
                        partition_index=index,
                        leader_id=leader,
                        leader_epoch=0,
                        replica_nodes=[0, 1],
                        isr_nodes=[0],
                        offline_replicas=[],
                    )
                    for index, leader in (
                        leads.items() if isinstance(leads, Mapping) else enumerate(leads)
                    )
                ],
            )
            for name, leads in leaders.items()
        ],
    )
    return MetadataResponse.decode(answer.encode(version=9, header=False), version=9, header=False)


def cluster_metadata(
    racks: Mapping[int, str | None], leaders: Mapping[str, Sequence[int] | Mapping[int, int]]
) -> Any:
    """A ClusterMetadata that has had that answer."""
    cluster = ClusterMetadata(bootstrap_servers="127.0.0.1:1")
    cluster.update_metadata(metadata_response(racks, leaders))
    return cluster


def subscription_bytes(
    topics: Sequence[str],
    *,
    version: int = 3,
    rack: str | None = None,
    owned: Mapping[str, Sequence[int]] | None = None,
    generation: int = -1,
    user_data: bytes | None = b"",
) -> bytes:
    """A member's subscription in that version, as kafka-python encodes it."""
    held = ConsumerProtocolSubscription.TopicPartition
    encoded: bytes = ConsumerProtocolSubscription(
        version=version,
        topics=list(topics),
        user_data=user_data,
        owned_partitions=[
            held(topic=topic, partitions=list(partitions))
            for topic, partitions in (owned or {}).items()
        ],
        generation_id=generation,
        rack_id=rack,
    ).encode()
    return encoded


def joined(member_id: str, metadata: bytes, instance_id: str | None = None) -> Any:
    """A member as the group's leader is told of it."""
    return JoinGroupResponse.JoinGroupResponseMember(
        member_id=member_id, group_instance_id=instance_id, metadata=metadata
    )


def decoded(member: Any) -> Any:
    """The same member after kafka-python's own leader has decoded its metadata."""
    return JoinGroupResponse.JoinGroupResponseMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        metadata=ConsumerProtocolSubscription.decode(member.metadata),
    )


RACKS: dict[int, str | None] = {0: "a", 1: "b", 2: "c"}
Consumers = Callable[..., Any]


@contextmanager
def offline_consumers() -> Iterator[Consumers]:
    """Makes consumers of strategies, and closes them."""
    made: list[Any] = []

    def make(*strategies: Any, topics: tuple[str, ...] = ("t",), **config: Any) -> Any:
        consumer = KafkaConsumer(
            *topics,
            bootstrap_servers="127.0.0.1:1",
            api_version=(3, 9),
            group_id="g",
            partition_assignment_strategy=list(strategies),
            **{"enable_auto_commit": False, **config},
        )
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close(timeout_ms=0)


def claims(
    consumer: Any, protocol: str = "leader-rack-aware-cooperative-sticky"
) -> tuple[dict[str, list[int]], int]:
    """What it would claim to own if it joined now, and since which generation."""
    said = ConsumerProtocolSubscription.decode(
        dict(consumer._coordinator.group_protocols())[protocol].encode()
    )
    return {held.topic: held.partitions for held in said.owned_partitions}, said.generation_id


def complete(consumer: Any, generation: int, **assigned: list[int]) -> None:
    """What the consumer does when a join ends with that assignment."""
    coordinator = consumer._coordinator
    data = ConsumerProtocolAssignment(
        version=0, assigned_partitions=list(assigned.items()), user_data=b""
    ).encode()
    protocol = next(iter(coordinator._assignors))
    consumer._net.run(coordinator._on_join_complete_async, generation, "m", protocol, data)


def perform(
    consumer: Any, *members: Any, protocol: str = "leader-rack-aware-cooperative-sticky"
) -> dict[str, Any]:
    """What it gives everyone as the leader of these members."""
    answer = consumer._coordinator._perform_assignment("m0", protocol, list(members))
    return {
        member: {
            topic: list(partitions)
            for topic, partitions in ConsumerProtocolAssignment.decode(
                data if isinstance(data, bytes) else data.encode()
            ).assigned_partitions
        }
        for member, data in answer.items()
    }


def answer(consumer: Any, **leaders: list[int]) -> None:
    """Brokers answer the consumer with these leaders."""
    consumer._cluster.update_metadata(metadata_response(RACKS, leaders))


# ---- A model of a group whose members are cooperative and eager, and which may fail at any point.
#
# Cooperative members own what they own while they join, and give it up as they are told in whose
# hands it is not. Eager ones give up everything before they join. Both learn their shares one
# after the other, or not at all where the next rebalance comes first. What members say travels
# in the bytes that kafka-python's and aiokafka's would send, and the leader reads them.

TOPIC = "t"


@dataclass
class Member:
    """``owned``: what it reads now; ``had``: what the last share that it learned of was."""

    eager: bool
    rack: str | None
    owned: frozenset[int] = frozenset()
    had: frozenset[int] = frozenset()
    since: int = -1

    def join(self) -> bytes:
        """Its subscription; an eager member gives up everything first."""
        claims = {TOPIC: sorted(self.had)} if self.had else {}
        if self.eager:
            self.owned = frozenset()
            return subscription_bytes(
                [TOPIC], version=0, user_data=write_user_data(self.rack, claims, self.since)
            )
        return subscription_bytes([TOPIC], rack=self.rack, owned=claims, generation=self.since)

    def learn(self, share: Collection[int], generation: int) -> bool:
        """Take the share over; whether it has to ask for another round to hand something on."""
        gives_up = not self.eager and not self.owned <= frozenset(share)
        self.owned = self.had = frozenset(share)
        self.since = generation
        return gives_up


class TwoOwnersError(AssertionError):
    """A partition is owned twice."""


class EndlessError(AssertionError):
    """Somebody waits for a round for which nobody asks, or rounds do not end."""


def sticky_rebalance() -> Rebalance:
    """What decides in a live group."""
    return Rebalance(
        "sticky", LeaderRackAwareCooperativeSticky(), cooperative=True, weights=None,
        remarks=Remarks(),
    )  # fmt: skip


@dataclass
class Group:
    """Members by id on a topic whose partitions are led from ``leaders``."""

    leaders: list[str | None]
    decide: Rebalance = field(default_factory=sticky_rebalance)
    members: dict[str, Member] = field(default_factory=dict)
    generation: int = 0

    def rebalance(self, learning: Collection[str]) -> tuple[bool, int]:
        """One round, in which only ``learning`` hear of its outcome, in that order.

        Returns whether one of them asks for another round, and how much was withheld.
        """
        self.generation += 1
        reader = SubscriptionReader()
        joined = [
            Joined(name, None, reader.read(member.join()))
            for name, member in sorted(self.members.items())
        ]
        known = Leaders({TOPIC: self.leaders}, {}, frozenset(), {0: "a", 1: "b", 2: "c"})
        shares, withheld, _ = self.decide.run(lambda _: known, joined)
        again = False
        for name in learning:
            again |= self.members[name].learn(shares[name].get(TOPIC, ()), self.generation)
            self.check()
        return again, withheld

    def check(self) -> None:
        """Raise TwoOwnersError where members own the same partition."""
        owners: dict[int, str] = {}
        for name, member in self.members.items():
            for partition in member.owned:
                if partition in owners:
                    raise TwoOwnersError(f"{partition}: {owners[partition]} and {name}")
                owners[partition] = name

    def settle(self, rounds: int = 2) -> int:
        """Rebalance until nobody asks again, in at most ``rounds``; how many it took."""
        for used in range(1, rounds + 1):
            again, withheld = self.rebalance(sorted(self.members))
            if not again:
                if withheld:
                    raise EndlessError(f"{withheld} withheld, and nobody hands them on")
                return used
        raise EndlessError(f"not at rest after {rounds} rounds")

    def owned(self) -> Mapping[str, frozenset[int]]:
        """Who reads what."""
        return {name: member.owned for name, member in self.members.items()}
