"""Cluster states, and a simulated controller and brokers for faults that cannot be produced.

They behave as observed with Kafka 4.3. A reassignment in progress lists the target first and then
the replicas to remove. A cancellation leaves the replicas in the order of the target. If the target
of a reassignment in progress is replaced, the reassignment never completes. Bytes are copied only
while ``sleep`` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.cluster import Move
from rackward.admin import (
    AdminError,
    ClusterState,
    Reassignment,
    RefusedError,
    ReplicaSize,
    ReplicaSizes,
)
from rackward.admin.configs import ConfigChange, ConfigOp
from rackward.admin.throttle_settings import (
    LISTS,
    BrokerThrottle,
    Rates,
    ThrottleSettings,
    add_replica_changes,
    remove_replica_changes,
    throttled_partitions,
)
from rackward.reassignment import Clock


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


@dataclass
class SimulatedThrottle:
    """Configuration in memory.

    ``fails`` is raised by every call while it is set, ``fails_once`` by the first call of that
    name. ``history`` holds the names of the calls.
    """

    brokers: dict[str, str] = field(default_factory=dict)
    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    overrides: dict[int, Rates] = field(default_factory=dict)
    fails: BaseException | None = None
    fails_once: dict[str, BaseException] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)

    def read(self) -> BrokerThrottle:
        self._record("read")
        return BrokerThrottle.parse(self.brokers)

    def read_all(self) -> ThrottleSettings:
        self._record("read_all")
        lists = {topic: dict(values) for topic, values in self.topics.items() if values}
        return ThrottleSettings(BrokerThrottle.parse(self.brokers), dict(self.overrides), lists)

    def broker_overrides(self, brokers: Collection[int]) -> Mapping[int, Rates]:
        return {broker: rates for broker, rates in self.overrides.items() if broker in brokers}

    def set_rate(self, rate: int) -> None:
        self._record("set_rate")
        apply_changes(self.brokers, self.read().set_changes(rate))

    def add_replicas(self, moves: Iterable[Move]) -> None:
        self._record("add_replicas")
        for topic, changes in add_replica_changes(moves, self.topics).items():
            apply_changes(self.topics.setdefault(topic, {}), changes)

    def remove_replicas(
        self, topics: Collection[str] | None = None, keep: Collection[TopicPartition] = ()
    ) -> set[TopicPartition]:
        self._record("remove_replicas")
        chosen = self.topics if topics is None else topics
        lists = {name: self.topics[name] for name in chosen if name in self.topics}
        for topic, changes in remove_replica_changes(lists, keep).items():
            apply_changes(self.topics[topic], changes)
        return throttled_partitions(lists) & set(keep)

    def remove(self, keep: Collection[TopicPartition] = ()) -> bool:
        self._record("remove")
        throttle = self.read()
        if not throttle.markers:
            return False
        if not self.remove_replicas(keep=keep):
            apply_changes(self.brokers, throttle.remove_changes())
        return True

    def leftovers(self, topics: Collection[str]) -> Sequence[str]:
        lists = {name: self.topics.get(name, {}) for name in topics}
        keys = [marker.key for marker in self.read().markers]
        return keys + sorted(map(str, throttled_partitions(lists)))

    @property
    def settings(self) -> dict[str, str]:
        """All settings as one mapping."""
        lists = {
            f"{topic} {key}": value
            for topic, values in self.topics.items()
            for key, value in values.items()
            if key in LISTS and value
        }
        return {**self.brokers, **lists}

    def _record(self, call: str) -> None:
        self.history.append(call)
        if call in self.fails_once:
            raise self.fails_once.pop(call)
        if self.fails is not None:
            raise self.fails


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


class SimulatedCluster:
    """Implements ReassignableCluster.

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
        self.throttle = SimulatedThrottle()
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
                refused[each] = RefusedError(problem, 39, "InvalidReplicationAssignmentError")
            elif each not in self.partitions:
                refused[each] = RefusedError("unknown", 3, "UnknownTopicOrPartitionError")
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
                refused[each] = RefusedError("not in sync", 80, "PreferredLeaderNotAvailable")
        return refused

    def replica_sizes(
        self, brokers: Collection[int], partitions: Collection[TopicPartition]
    ) -> ReplicaSizes:
        return {
            (each, broker): ReplicaSize(size, 0)
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
