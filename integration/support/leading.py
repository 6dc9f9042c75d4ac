"""Leading groups of stock consumers in tests, and comparing what they own with the optimum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import aiokafka.coordinator.assignors.range
import aiokafka.coordinator.assignors.roundrobin
import aiokafka.coordinator.assignors.sticky.sticky_assignor
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from assignors.leader_moves import RefreshPolicy
from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import (
    KafkaPython,
    MakeClient,
    PartitionId,
    partitions_of,
)
from integration.support.confluent import StockConfluent
from integration.support.groups import ConsumerGroup
from integration.support.program_clients import (
    COOPERATIVE_STICKY,
    RANGE,
    ROUND_ROBIN,
    STICKY,
    GoClient,
    Java,
    KafkaJS,
)
from integration.support.racks import off_rack, shortfall
from integration.support.topics import create_topic, described, new_name
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import find_groups
from rackward.kafka import connect
from rackward.kafka.groups import Group
from rackward.lead import GroupLeader, LeadOptions, LeadStatus, TakeOverPolicy
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

UNMODIFIED_CLIENTS: dict[str, MakeClient] = {
    "confluent-range": StockConfluent("range"),
    "confluent-roundrobin": StockConfluent("roundrobin"),
    "confluent-cooperative-sticky": StockConfluent("cooperative-sticky"),
    "kafka-python-range": KafkaPython(lambda _: [RangePartitionAssignor]),
    "kafka-python-roundrobin": KafkaPython(lambda _: [RoundRobinPartitionAssignor]),
    "kafka-python-sticky": KafkaPython(lambda _: [StickyPartitionAssignor]),
    "kafka-python-cooperative-sticky": KafkaPython(lambda _: [CooperativeStickyAssignor]),
    "aiokafka-range": AIOKafka(
        lambda _: (aiokafka.coordinator.assignors.range.RangePartitionAssignor,)
    ),
    "aiokafka-roundrobin": AIOKafka(
        lambda _: (aiokafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor,)
    ),
    "aiokafka-sticky": AIOKafka(
        lambda _: (aiokafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor,)
    ),
    "java-range": Java(RANGE),
    "java-roundrobin": Java(ROUND_ROBIN),
    "java-sticky": Java(STICKY),
    "java-cooperative-sticky": Java(COOPERATIVE_STICKY),
}
"""Consumers without rackward, by client and protocol."""

WITH_GO_OR_NODE: dict[str, MakeClient] = {
    **{
        f"{client}-{strategy}": GoClient(client, strategy)
        for client, strategies in {
            "franz-go": ("range", "roundrobin", "sticky", "cooperative-sticky"),
            "sarama": ("range", "roundrobin", "sticky"),
            "kafka-go": ("range", "roundrobin", "rack-affinity"),
        }.items()
        for strategy in strategies
    },
    "kafkajs-roundrobin": KafkaJS(),
}
"""Such consumers that need Go, or Node and npm, which need not be installed."""

CLIENTS = UNMODIFIED_CLIENTS | WITH_GO_OR_NODE

MAPPING_OPTION = ",".join(f"{rack}{n}={rack}" for rack in "abc" for n in range(10))
MAPPING = HostRacks.parse_option("--mapping", MAPPING_OPTION)
"""Racks by client id, for clients that send no rack: member a1 is in rack a."""

FAST = RefreshPolicy(
    min_gain=0.01,
    stable_seconds=1.0,
    unstable_seconds=5.0,
    min_interval=1.0,
    check_interval=1.0,
)

SHORT_SESSION_SECONDS = 6.0


@contextmanager
def membership_times(
    session: float = SHORT_SESSION_SECONDS,
    rebalance: float = 80.0,
    heartbeat: float = 0.2,
    alone: float = 60.0,
    watched: float = 0.0,
) -> Iterator[None]:
    """Have members that lead use these times, in seconds."""
    times: dict[str, Any] = {"SESSION_SECONDS": session, "HEARTBEAT_SECONDS": heartbeat}
    with (
        patch.multiple("rackward.lead.member", REBALANCE_SECONDS=rebalance, **times),
        patch.multiple("rackward.lead.workers", **times),
        patch.multiple("rackward.lead.led_group", ALONE_SECONDS=alone, OFFSETS_SECONDS=watched),
    ):
        yield


@contextmanager
def leading(
    cluster: Cluster,
    *groups: str,
    take_over: TakeOverPolicy | None = None,
    **settings: Any,
) -> Iterator[GroupLeader]:
    """Lead these groups, with short times; stop at the end of the block."""
    options = LeadOptions(
        host_racks=MAPPING,
        take_over=take_over or TakeOverPolicy(),
        refresh=FAST,
        **settings,
    )
    properties = {"bootstrap.servers": cluster.bootstrap_servers}
    with membership_times(), GroupLeader(properties, groups, options) as leader:
        yield leader


def wait_for_status(
    leader: GroupLeader, matches: Callable[[LeadStatus], bool], what: str
) -> LeadStatus:
    """Wait until the status of the only group matches, and return it."""
    try:
        wait_until(lambda: any(map(matches, leader.status())), TEST_TIMEOUT, what)
    except AssertionError as error:
        raise AssertionError(f"{error}, but {leader.status()}") from None
    return leader.status()[0]


def wait_until_leading(leader: GroupLeader) -> None:
    """Wait until the only group is led."""
    wait_for_status(leader, lambda status: status.leads, "the group is led")


def member_ids(cluster: Cluster, group: str) -> set[str]:
    """Return the member ids of a stable group."""
    (description,) = described(cluster, group)
    return {each["member_id"] for each in description["members"]}


def live_group(cluster: Cluster, group: str) -> Group:
    """Return the group as the commands read it."""
    with connect({"bootstrap.servers": cluster.bootstrap_servers}, timeout=TEST_TIMEOUT) as admin:
        return find_groups(admin, cluster.racks, [group])[group]


def leaders_in_all_racks(replicas: int = 1, partitions: int = 12) -> list[list[int]]:
    """Return rows of replicas on three brokers, whose racks lead as many partitions each."""
    return [[(p * 7 + n) % 3 for n in range(replicas)] for p in range(partitions)]


@contextmanager
def led_group(
    cluster: Cluster,
    client: MakeClient | str = "confluent-cooperative-sticky",
    replicas: Sequence[list[int]] = tuple(leaders_in_all_racks()),
    *,
    sends_racks: bool = True,
    **settings: Any,
) -> Iterator[LedGroup]:
    """Yield a group without members on a new topic; ``client`` may be a name in CLIENTS."""
    topic = create_topic(cluster, new_name("led"), replicas)
    make = CLIENTS[client] if isinstance(client, str) else client
    with ConsumerGroup(cluster, topics=[topic], client=make, **settings) as group:
        yield LedGroup(cluster, group, topic, len(replicas), sends_racks)


@dataclass
class LedGroup:
    """A group of stock consumers on one topic, whose assignments must be optimal."""

    cluster: Cluster
    group: ConsumerGroup
    topic: str
    partitions: int
    sends_racks: bool = True
    """Whether members send their racks, or the process that leads must know them."""
    racks: dict[str, str] = field(default_factory=dict)

    @property
    def tps(self) -> set[PartitionId]:
        """The partitions of the topic."""
        return set(partitions_of(self.topic, self.partitions))

    @property
    def ids(self) -> list[str]:
        """The name of the group."""
        return [self.group.id]

    def is_followed(self) -> bool:
        """Return whether every partition is owned once, in the rack of its leader."""
        owned = {name: member.owned for name, member in self.group.members.items()}
        count = sum(map(len, owned.values()))
        return count == self.partitions and off_rack(self.cluster, owned, self.racks) == 0

    @contextmanager
    def leading(self, *names: str, **settings: Any) -> Iterator[GroupLeader]:
        """Lead the group in the block, see `leading`, and then start these members."""
        with leading(self.cluster, self.group.id, **settings) as leader:
            wait_until_leading(leader)
            if names:
                self.start(*names)
                self.settle()
            yield leader

    def start(self, *names: str, **settings: Any) -> None:
        """Start members; the first letter of a name is the rack."""
        for name in names:
            self.racks[name] = name[0]
            self.group.start(name, name[0] if self.sends_racks else None, **settings)

    def stop(self, name: str) -> None:
        """Close a member."""
        self.group.stop(name)
        del self.racks[name]

    def restart(self, client: MakeClient) -> None:
        """Restart the members with another client, one after the other."""
        for name in sorted(self.racks):
            self.stop(name)
            self.start(name, client=client)
            self.await_owners()

    def await_owners(self) -> dict[str, frozenset[PartitionId]]:
        """Wait until the group owns every partition once."""
        return self.group.settle(self.tps)

    def settle(self, within: float = TEST_TIMEOUT) -> dict[str, frozenset[PartitionId]]:
        """Wait until the group owns every partition once, and as few as possible off-rack."""
        last: dict[str, frozenset[PartitionId]] = {}

        def optimal() -> bool:
            nonlocal last
            last = self.group.settle(self.tps, within=within)
            return not self.shortfall(last)

        wait_until(optimal, within, "the assignment is optimal")
        return last

    def shortfall(self, owned: Mapping[str, frozenset[PartitionId]]) -> str:
        """Return what is not optimal, see `integration.support.racks.shortfall`."""
        leader_racks = self.cluster.view([self.topic]).leader_racks()
        return shortfall(owned, self.racks, leader_racks)
