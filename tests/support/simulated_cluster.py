"""Cluster states, and a simulated controller and brokers for faults that cannot be produced.

They behave as observed with Kafka 4.3. A reassignment in progress lists the target first and then
the replicas to remove. A cancellation leaves the replicas in the order of the target. If the target
of a reassignment in progress is replaced, the reassignment never completes. Bytes are copied only
while ``sleep`` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kafka.admin import AlterConfigOp as ConfigOp

from placement_core import Broker, ClusterView, TopicPartition
from rackward.kafka import (
    AdminConnection,
    AdminError,
    ClusterState,
    Reassignment,
    RefusedError,
    ReplicaSizes,
    TooOldError,
    UnreachableError,
)
from rackward.kafka.configs import ConfigChange
from rackward.reassignment import Clock, LiveCluster
from rackward.reassignment.throttle import ReplicationThrottle

Configs = dict[str, dict[str, str]]
"""Name of a topic or a broker (none: all brokers) to its configuration."""


def tp(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, partition)


def apply_changes(values: dict[str, str], changes: Iterable[ConfigChange]) -> None:
    """Apply configuration changes as a broker does."""
    for key, op, value in changes:
        entries = [entry for entry in values.get(key, "").split(",") if entry]
        if op is ConfigOp.DELETE:
            values.pop(key, None)
        elif op is ConfigOp.SET:
            values[key] = str(value)
        else:
            changed = str(value).split(",")
            others = [entry for entry in entries if entry not in changed]
            values[key] = ",".join(others + changed if op is ConfigOp.APPEND else others)


class SimulatedBrokers(AdminConnection):
    """The configuration of brokers and topics, behind the requests of an AdminConnection.

    Broker ``i`` returns a change after ``lags[i]`` reads. ``nearest`` receives requests to any
    broker; ``down`` does not respond; the configuration of the topic ``hidden`` may not be read.
    ``fails`` is raised by every request while it is set, ``fails_at`` by the change of that number.
    ``changes`` holds the resources of each change.
    """

    def __init__(self, *lags: int, down: int | None = None, hidden: str | None = None) -> None:
        super().__init__(None, "k:1", 5.0)
        self.nearest, self.down, self.hidden = 0, down, hidden
        self.brokers: dict[str, str] = {}
        self.topics: dict[str, dict[str, str]] = {}
        self.overrides: dict[int, dict[str, str]] = {}
        self.fails: BaseException | None = None
        self.fails_at: dict[int, BaseException] = {}
        self.changes: list[list[str]] = []
        self._lags = list(lags) or [0]
        self._stale_reads = [0 for _ in self._lags]
        self._stale: list[Configs] = [{} for _ in self._lags]

    @property
    def settings(self) -> dict[str, str]:
        """All settings of topics and of all brokers as one mapping."""
        lists = {
            f"{topic} {key}": value
            for topic, values in self.topics.items()
            for key, value in values.items()
            if value
        }
        return {**self.brokers, **lists}

    def throttle(self) -> ReplicationThrottle:
        return ReplicationThrottle(self)

    def send(self, operation: str, request: Any, *, node: int | None = None) -> Any:  # noqa: ARG002
        if self.fails is not None:
            raise self.fails
        broker = self.nearest if node is None else node
        if broker == self.down:
            assert self.deadline().seconds <= 1.0, "the others wait for it"
            raise UnreachableError("connection refused")
        match type(request).__name__:
            case "MetadataRequest":
                return self._metadata()
            case "DescribeClusterRequest":
                raise TooOldError("not supported")
            case "IncrementalAlterConfigsRequest":
                return self._alter(request)
        return self._describe(broker, request)

    def _metadata(self) -> Any:
        brokers = [
            SimpleNamespace(node_id=each, rack=None, host="h", port=1)
            for each in {*range(len(self._lags)), *self.overrides}
        ]
        topics = [
            SimpleNamespace(name=name, error_code=0, is_internal=False, partitions=[])
            for name in self.topics
        ]
        return SimpleNamespace(topics=topics, brokers=brokers, cluster_id="c")

    def _alter(self, request: Any) -> Any:
        self.changes.append([each.resource_name for each in request.resources])
        if error := self.fails_at.pop(len(self.changes), None):
            raise error
        self._stale = [self._visible(each) for each in range(len(self._lags))]
        self._stale_reads = list(self._lags)
        for each in request.resources:
            changes = [
                ConfigChange(c.name, ConfigOp(c.config_operation), c.value) for c in each.configs
            ]
            values = self.topics.setdefault(each.resource_name, {})
            apply_changes(self.brokers if not each.resource_name else values, changes)
        self.topics.pop("", None)
        return SimpleNamespace(responses=[])

    def _visible(self, broker: int) -> Configs:
        if self._stale_reads[broker]:
            return self._stale[broker]
        own = {str(each): dict(values) for each, values in self.overrides.items()}
        topics = {name: dict(values) for name, values in self.topics.items()}
        return {"": dict(self.brokers), **own, **topics}

    def _describe(self, broker: int, request: Any) -> Any:
        broker = broker if broker < len(self._lags) else 0
        configs = self._visible(broker)
        self._stale_reads[broker] = max(0, self._stale_reads[broker] - 1)
        return SimpleNamespace(
            results=[
                SimpleNamespace(
                    error_code=29 if each.resource_name == self.hidden else 0,
                    error_message=None,
                    resource_name=each.resource_name,
                    configs=[
                        SimpleNamespace(name=key, value=value, config_source=2)
                        for key, value in configs.get(each.resource_name, {}).items()
                    ],
                )
                for each in request.resources
            ]
        )


@dataclass
class SimulatedPartition:
    """A partition in the controller's metadata, and the bytes of each replica."""

    replicas: tuple[int, ...]
    size: int
    leader: int
    reassignment: Reassignment | None = None
    bytes: dict[int, int] = field(default_factory=dict)

    @property
    def in_sync(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas if self.bytes.get(b, 0) >= self.size)


class SimulatedCluster(LiveCluster):
    """A LiveCluster without a connection.

    ``at`` maps seconds to actions at that time. ``refuses`` maps partitions to the reason why
    the controller refuses to reassign them. ``requests`` holds the targets of each request.
    """

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Sequence[int]],
        *,
        brokers: int = 6,
        size: int = 1000,
        rate: int = 500,
    ) -> None:
        self.live = set(range(brokers))
        self.rate = rate
        self.partitions = {
            each: SimulatedPartition(tuple(row), size, row[0], None, dict.fromkeys(row, size))
            for each, row in partitions.items()
        }
        self.configs = SimulatedBrokers()
        self.throttle = self.configs.throttle()
        self.at: dict[float, Callable[[], object]] = {}
        self.refuses: dict[TopicPartition, str] = {}
        self.unreachable = False
        self.seconds = 0.0
        self.requests: list[dict[TopicPartition, tuple[int, ...] | None]] = []

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.seconds, self.sleep)

    def sleep(self, seconds: float) -> None:
        before, self.seconds = self.seconds, self.seconds + seconds
        for when in sorted(self.at):
            if before <= when < self.seconds:
                self.at.pop(when)()
        for each in self.partitions.values():
            self._copy(each, seconds)

    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {each: partition.replicas for each, partition in self.partitions.items()}

    def reassignments(self) -> dict[TopicPartition, Reassignment]:
        return {
            each: partition.reassignment
            for each, partition in self.partitions.items()
            if partition.reassignment is not None
        }

    def describe(
        self, topics: Collection[str]
    ) -> tuple[ClusterState, Mapping[TopicPartition, Reassignment]]:
        if self.unreachable:
            raise AdminError("no broker responds")
        known = {each: p for each, p in self.partitions.items() if each.topic in topics}
        state = ClusterState(
            cluster_id="simulated",
            view=ClusterView(
                brokers=tuple(Broker(each) for each in sorted(self.live)),
                replicas={each: p.replicas for each, p in known.items()},
                leaders={each: p.leader for each, p in known.items() if p.leader in self.live},
            ),
            in_sync={each: p.in_sync for each, p in known.items()},
            topic_ids={each.topic: None for each in known},
        )
        return state.with_reassignments(self.reassignments()), self.reassignments()

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        request = {each: None if row is None else tuple(row) for each, row in targets.items()}
        self.requests.append(request)
        refused: dict[TopicPartition, AdminError] = {}
        for each, row in request.items():
            if problem := self.refuses.get(each):
                refused[each] = RefusedError(problem, 39)
            elif each not in self.partitions:
                refused[each] = RefusedError("unknown", 3)
            elif row is None:
                self.cancel(each)
            else:
                self._start(self.partitions[each], row)
        return refused

    def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, AdminError]:
        refused = {}
        for each in partitions:
            partition = self.partitions[each]
            preferred = partition.replicas[0]
            if preferred in self.live and preferred in partition.in_sync:
                partition.leader = preferred
            else:
                refused[each] = RefusedError("not in sync", 80)
        return refused

    def replica_sizes(
        self, brokers: Collection[int], partitions: Collection[TopicPartition]
    ) -> ReplicaSizes:
        return {
            (each, broker): size
            for each in partitions
            if each in self.partitions
            for broker, size in self.partitions[each].bytes.items()
            if broker in brokers and broker in self.live
        }

    def cancel(self, each: TopicPartition) -> None:
        """Cancel a partition's reassignment, as any client may do."""
        partition = self.partitions[each]
        if partition.reassignment is not None:
            adding = partition.reassignment.adding
            partition.replicas = tuple(b for b in partition.replicas if b not in adding)
            partition.reassignment = None

    def _start(self, partition: SimulatedPartition, target: tuple[int, ...]) -> None:
        adding = [broker for broker in target if broker not in partition.replicas]
        removing = tuple(broker for broker in partition.replicas if broker not in target)
        if partition.reassignment is not None:
            adding = [*dict.fromkeys([*partition.reassignment.adding, *adding])]
        partition.replicas = target + removing
        for broker in adding:
            partition.bytes.setdefault(broker, 0)
        partition.reassignment = Reassignment(partition.replicas, tuple(adding), removing)
        self._complete(partition)

    def _copy(self, partition: SimulatedPartition, seconds: float) -> None:
        if partition.reassignment is None or partition.leader not in self.live:
            return
        for broker in partition.reassignment.adding:
            if broker in self.live:
                copied = partition.bytes.get(broker, 0) + int(self.rate * seconds)
                partition.bytes[broker] = min(partition.size, copied)
        self._complete(partition)

    def _complete(self, partition: SimulatedPartition) -> None:
        reassignment = partition.reassignment
        if reassignment is None or set(reassignment.adding) & set(reassignment.removing):
            return
        if all(partition.bytes.get(b, 0) >= partition.size for b in reassignment.adding):
            partition.replicas, partition.reassignment = reassignment.target, None
            partition.bytes = {broker: partition.bytes[broker] for broker in partition.replicas}
            if partition.leader not in partition.replicas:
                partition.leader = partition.replicas[0]


# ---- Cluster states with any topics, for tests that render or plan.

RACKS = ("a", "a", "b", "b", "c", "c")
Rows = Sequence[tuple[int, ...]]


def cluster_state(
    topics: Mapping[str, Rows],
    racks: Sequence[str | None] = RACKS,
    *,
    down: Sequence[int] = (),
    **fields: Any,
) -> ClusterState:
    """Return a state with the brokers 0, 1, ... in ``racks``, of which some are ``down``.

    The leader of a partition is its first live replica; all live replicas are in sync.
    """
    replicas = {
        TopicPartition(topic, number): row
        for topic, rows in topics.items()
        for number, row in enumerate(rows)
    }
    in_sync = {
        tp: tuple(broker for broker in row if broker not in down) for tp, row in replicas.items()
    }
    brokers = [Broker(number, rack) for number, rack in enumerate(racks)]
    return ClusterState(
        cluster_id="cluster",
        view=ClusterView(
            brokers=tuple(broker for broker in brokers if broker.id not in down),
            replicas=replicas,
            leaders={tp: row[0] for tp, row in in_sync.items() if row},
        ),
        in_sync=in_sync,
        fenced=tuple(broker for broker in brokers if broker.id in down),
        addresses={broker.id: f"kafka-{broker.id}.example:9092" for broker in brokers},
        topic_ids={topic: f"id of {topic}" for topic in topics},
        **fields,
    )
