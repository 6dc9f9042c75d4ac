"""A model of a controller and its brokers, for faults that no real cluster makes on demand.

It behaves as Kafka 4.3 was seen to: a reassignment lists the target first and then what is to
go; cancelling leaves the order of the target; a target that is replaced while it is worked on
tears, and never arrives. Time passes when somebody sleeps, and only then are bytes copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.cluster import Move
from rackward.admin import AdminError, ClusterState, Ongoing, RefusedError, ReplicaSize, Sizes
from rackward.admin.configs import Change, Op
from rackward.admin.throttle import LISTS, BrokerThrottle, Rates, covering, ours_in, uncovering
from rackward.reassignment import Timing


def place(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, partition)


def apply_changes(values: dict[str, str], changes: Iterable[Change]) -> None:
    """What a broker does with changes."""
    for key, op, value in changes:
        parts = [part for part in values.get(key, "").split(",") if part]
        if op is Op.DELETE:
            values.pop(key, None)
        elif op is Op.SET:
            values[key] = str(value)
        else:
            told = str(value).split(",")
            kept = [part for part in parts if part not in told]
            values[key] = ",".join(kept + told if op is Op.APPEND else kept)


@dataclass
class SimulatedThrottle:
    """Configuration in memory; ``fails`` is raised by every call while it is set, ``fails_once``
    by the first call of that name."""

    brokers: dict[str, str] = field(default_factory=dict)
    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    own: dict[int, Rates] = field(default_factory=dict)
    fails: BaseException | None = None
    fails_once: dict[str, BaseException] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)

    def found(self) -> BrokerThrottle:
        self._check("found")
        return BrokerThrottle.of(self.brokers)

    def own_rates(self, brokers: Collection[int]) -> Mapping[int, Rates]:
        return {broker: rates for broker, rates in self.own.items() if broker in brokers}

    def engage(self, rate: int) -> None:
        self._check("engage")
        apply_changes(self.brokers, self.found().setting(rate))

    def cover(self, moves: Iterable[Move]) -> None:
        self._check("cover")
        for topic, changes in covering(moves, self.topics).items():
            apply_changes(self.topics.setdefault(topic, {}), changes)

    def uncover(
        self, topics: Collection[str] | None = None, keep: Collection[TopicPartition] = ()
    ) -> set[TopicPartition]:
        self._check("uncover")
        chosen = self.topics if topics is None else topics
        lists = {name: self.topics[name] for name in chosen if name in self.topics}
        for topic, changes in uncovering(lists, keep).items():
            apply_changes(self.topics[topic], changes)
        return ours_in(lists) & set(keep)

    def lift(self, keep: Collection[TopicPartition] = ()) -> bool:
        self._check("lift")
        found = self.found()
        if not found.marks:
            return False
        if not self.uncover(keep=keep):
            apply_changes(self.brokers, found.lifting())
        return True

    def left(self, topics: Collection[str]) -> Sequence[str]:
        lists = {name: self.topics.get(name, {}) for name in topics}
        return [mark.key for mark in self.found().marks] + sorted(map(str, ours_in(lists)))

    @property
    def settings(self) -> dict[str, str]:
        """Everything that is set, as one mapping."""
        lists = {
            f"{topic} {key}": value
            for topic, values in self.topics.items()
            for key, value in values.items()
            if key in LISTS and value
        }
        return {**self.brokers, **lists}

    def _check(self, call: str) -> None:
        self.history.append(call)
        if call in self.fails_once:
            raise self.fails_once.pop(call)
        if self.fails is not None:
            raise self.fails


@dataclass
class Replicas:
    """A partition: what the controller knows of it, and the bytes that each replica has."""

    replicas: tuple[int, ...]
    size: int
    leader: int
    ongoing: Ongoing | None = None
    bytes: dict[int, int] = field(default_factory=dict)

    @property
    def in_sync(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas if self.bytes.get(b, 0) >= self.size)


class SimulatedCluster:
    """Implements MovableCluster; ``at`` maps seconds to what happens then."""

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
            each: Replicas(tuple(row), size, row[0], None, dict.fromkeys(row, size))
            for each, row in partitions.items()
        }
        self.throttle = SimulatedThrottle()
        self.at: dict[float, Callable[[], object]] = {}
        self.refuses: dict[TopicPartition, str] = {}
        self.unreachable = False
        self.seconds = 0.0
        self.submitted: list[dict[TopicPartition, tuple[int, ...] | None]] = []

    @property
    def timing(self) -> Timing:
        return Timing(lambda: self.seconds, self.sleep)

    def sleep(self, seconds: float) -> None:
        before, self.seconds = self.seconds, self.seconds + seconds
        for when in sorted(self.at):
            if before <= when < self.seconds:
                self.at.pop(when)()
        for each in self.partitions.values():
            self._copy(each, seconds)

    def rows(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {each: found.replicas for each, found in self.partitions.items()}

    def ongoing(self) -> dict[TopicPartition, Ongoing]:
        return {each: p.ongoing for each, p in self.partitions.items() if p.ongoing is not None}

    def look(
        self, topics: Collection[str]
    ) -> tuple[ClusterState, Mapping[TopicPartition, Ongoing]]:
        if self.unreachable:
            raise AdminError("nobody answers")
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
        return state.with_ongoing(self.ongoing()), self.ongoing()

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        told = {each: None if row is None else tuple(row) for each, row in targets.items()}
        self.submitted.append(told)
        refused: dict[TopicPartition, AdminError] = {}
        for each, row in told.items():
            if problem := self.refuses.get(each):
                refused[each] = RefusedError(problem, 39, "InvalidReplicationAssignmentError")
            elif each not in self.partitions:
                refused[each] = RefusedError("unknown", 3, "UnknownTopicOrPartitionError")
            elif row is None:
                self.cancel(each)
            else:
                self._target(self.partitions[each], row)
        return refused

    def elect(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, AdminError]:
        refused = {}
        for each in partitions:
            found = self.partitions[each]
            first = found.replicas[0]
            if first in self.live and first in found.in_sync:
                found.leader = first
            else:
                refused[each] = RefusedError("not in sync", 80, "PreferredLeaderNotAvailable")
        return refused

    def sizes(self, brokers: Collection[int], partitions: Collection[TopicPartition]) -> Sizes:
        return {
            (each, broker): ReplicaSize(size, 0)
            for each in partitions
            if each in self.partitions
            for broker, size in self.partitions[each].bytes.items()
            if broker in brokers and broker in self.live
        }

    def cancel(self, each: TopicPartition) -> None:
        """What anybody may do."""
        found = self.partitions[each]
        if found.ongoing is not None:
            adding = found.ongoing.adding
            found.replicas = tuple(b for b in found.replicas if b not in adding)
            found.ongoing = None

    def _target(self, found: Replicas, row: tuple[int, ...]) -> None:
        adding = [broker for broker in row if broker not in found.replicas]
        removing = tuple(broker for broker in found.replicas if broker not in row)
        if found.ongoing is not None:
            adding = [*dict.fromkeys([*found.ongoing.adding, *adding])]
        found.replicas = row + removing
        for broker in adding:
            found.bytes.setdefault(broker, 0)
        found.ongoing = Ongoing(found.replicas, tuple(adding), removing)
        self._finish(found)

    def _copy(self, found: Replicas, seconds: float) -> None:
        if found.ongoing is None or found.leader not in self.live:
            return
        for broker in found.ongoing.adding:
            if broker in self.live:
                have = found.bytes.get(broker, 0) + int(self.rate * seconds)
                found.bytes[broker] = min(found.size, have)
        self._finish(found)

    def _finish(self, found: Replicas) -> None:
        ongoing = found.ongoing
        if ongoing is None or set(ongoing.adding) & set(ongoing.removing):
            return
        if all(found.bytes.get(broker, 0) >= found.size for broker in ongoing.adding):
            found.replicas, found.ongoing = ongoing.target, None
            found.bytes = {broker: found.bytes[broker] for broker in found.replicas}
            if found.leader not in found.replicas:
                found.leader = found.replicas[0]
