"""Traffic collectors in tests, and groups of every kind for them to take snapshots of."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import RetriableError
from pyarrow import dataset

from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import KafkaPython, MakeClient, PartitionId
from integration.support.confluent import StockConfluent
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import committed, create_topic, fill, new_name, with_admin
from placement_core import ClusterView
from rackward.collector import ClusterSource, Patterns, Selection
from rackward.kafka import AdminConnection, connect
from rackward.testing import Cluster
from rackward.testing.admin import RunningBrokers
from rackward.testing.kafka_jars import default_version
from tests.support.waiting import TEST_TIMEOUT, wait_until

Rows = list[dict[str, Any]]

State = TypeVar("State")
Result = TypeVar("Result")

OFFSETS = "__consumer_offsets"
ATTEMPTS = 10


def read_table(root: Path, table: str) -> Rows:
    """Return all rows of a table that was collected to a folder, without their date."""
    rows: Rows = dataset.dataset(root / table, format="parquet").to_table().to_pylist()
    return rows


def source(cluster: Cluster, name: str = "here", **settings: Any) -> ClusterSource:
    """Return the source for a collector of this cluster."""
    return ClusterSource(name, {"bootstrap.servers": cluster.bootstrap_servers}, **settings)


def open_source(cluster_source: ClusterSource) -> AdminConnection:
    """Connect to a source."""
    return connect(cluster_source.properties, timeout=TEST_TIMEOUT)


def with_stable_state(
    state: Callable[[], State], read: Callable[[], Result]
) -> tuple[State, Result]:
    """Return the ``state``, which was the same before and after ``read``, and the result of it.

    On a busy machine leaders move by themselves, and then groups may rebalance. The read is
    repeated until the state does not change during it.
    """
    for _ in range(ATTEMPTS):
        before, result = state(), read()
        if state() == before:
            return before, result
    raise AssertionError(f"the state changed during each of {ATTEMPTS} reads")


def layout(cluster: Cluster, topic: str) -> ClusterView:
    """Return the view of the topic and of __consumer_offsets when all running brokers agree on it.

    Every running broker is in it, so none is fenced.
    """
    running = {node.id for node in cluster._running_nodes()}
    views: list[ClusterView] = []

    def agreed() -> bool:
        # Brokers apply a change of the metadata one after another.
        views[:] = [
            RunningBrokers([port]).view([topic, OFFSETS]) for port in cluster._running_ports()
        ]
        return all(view == views[0] for view in views) and running <= views[0].racks().keys()

    wait_until(agreed, TEST_TIMEOUT, f"all brokers have the same metadata of {topic}")
    return views[0]


def collect(*arguments: str, log: Path | None = None) -> subprocess.Popen[str]:
    """Start ``rackward traffic collect`` as a process with piped output.

    Every snapshot is a file of its own. With ``log``, stderr goes to this file, which can be read
    while the process runs.
    """
    with nullcontext(subprocess.PIPE) if log is None else log.open("wb") as errors:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "rackward.cli.main", "traffic", "collect"),
                *("--snapshots-per-file", "1", *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


librdkafka = StockConfluent("range")
new_protocol = StockConfluent(None)
"""Members of groups of the new consumer protocol (KIP-848)."""


def has_new_protocol() -> bool:
    """Return whether brokers of the tested version have the new consumer protocol.

    In 3.9 it is early access, and clients of today do not use its first version.
    """
    return int(default_version().partition(".")[0]) >= 4


PARTITIONS = 12
RECORDS = 20
"""Records of a kilobyte in each partition."""

SESSION_MS = 20_000
"""Long enough that no session expires on a busy machine. Not longer, since the others wait for the
session of a member that disappeared while it joined."""

Owned = dict[str, tuple[int, dict[str, frozenset[PartitionId]]]]
"""Kind of group -> its generation, and the partitions of each member."""


@dataclass(frozen=True)
class IdleGroups:
    """A topic, and groups of every kind that have read it to its end and keep polling."""

    cluster: Cluster
    topic: str
    groups: dict[str, ConsumerGroup]
    standalone: str
    """Id of a group without members: its consumer used ``assign``, and committed."""

    @property
    def ids(self) -> list[str]:
        """Return the ids of all groups."""
        return sorted([self.standalone, *(group.id for group in self.groups.values())])

    @property
    def selection(self) -> Selection:
        """Return a selection of these groups and this topic."""
        return Selection(Patterns(self.ids), Patterns([self.topic]))

    def owned(self) -> Owned:
        """Return the generation and the members' partitions of each group, once all are settled."""
        partitions = {(self.topic, partition) for partition in range(PARTITIONS)}
        owned = {kind: group.settle(partitions, hold=0.0) for kind, group in self.groups.items()}
        return {kind: (self.groups[kind].generation, each) for kind, each in owned.items()}


@contextmanager
def run_idle_groups(cluster: Cluster) -> Iterator[IdleGroups]:
    """Yield the groups when they have committed everything and brokers report them as stable."""
    topic = create_topic(cluster, new_name("collected"), replicas_led_from(evenly(PARTITIONS)))
    fill(cluster, topic, PARTITIONS, RECORDS, size=1000)
    kinds: dict[str, MakeClient] = {
        "builtin": KafkaPython(lambda _: [RangePartitionAssignor]),
        "ours": KafkaPython(),
        "librdkafka": librdkafka,
        "aiokafka": AIOKafka(),
    }
    if has_new_protocol():
        kinds["new"] = new_protocol
    with ExitStack() as stack:
        groups = {}
        for kind, client in kinds.items():
            group = ConsumerGroup(
                cluster, topics=[topic], client=client, session_timeout_ms=SESSION_MS
            )
            groups[kind] = stack.enter_context(group)
            group.start(f"{kind}-a", rack="a")
            group.start(f"{kind}-b", rack="b")
        standalone = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers.split(","), group_id=new_name("standalone")
        )
        stack.callback(standalone.close)
        standalone.assign([TopicPartition(topic, 3)])
        standalone.seek(TopicPartition(topic, 3), 7)
        assert standalone.position(TopicPartition(topic, 3)) == 7
        standalone.commit()
        idle_groups = IdleGroups(cluster, topic, groups, standalone.config["group_id"])
        idle_groups.owned()
        for kind, group in groups.items():
            wait_until(
                lambda group=group: (  # type: ignore[misc]
                    sum(committed(cluster, group.id).values()) == PARTITIONS * RECORDS
                ),
                TEST_TIMEOUT,
                f"the group {kind} commits all records",
            )
        ids = {group.id for group in groups.values()}
        # With the new protocol, members have their assignment before the broker has their
        # acknowledgement.
        wait_until(lambda: ids <= _stable(cluster), TEST_TIMEOUT, "all groups are stable")
        yield idle_groups


def _stable(cluster: Cluster) -> set[str]:
    try:
        listed = with_admin(cluster, lambda admin: admin.list_groups())
    except RetriableError:
        return set()
    return {each["group_id"] for each in listed if each["group_state"] == "Stable"}
