"""A group and an assignment of it as plain values, and the metrics of the assignment. No Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from assignors import Member
from placement_core import TopicPartition
from placement_core.flow import IntArray
from rack_traffic.advice import CLASSIC, MemberClient
from rack_traffic.prices import GB, PriceTable, crossed_level
from rack_traffic.tables import HOURS_PER_MONTH


@dataclass(frozen=True, slots=True)
class PartitionCase:
    """A partition: its leader, replicas and ISR, and the bytes that the group read of it."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class GroupCase:
    """A group at the end of an interval, of which snapshots cover ``hours`` hours.

    ``members`` have their current partitions as ``owned``. ``partitions`` are those of all topics
    to which a member subscribes. ``racks`` are the brokers' (None: unknown); ``shared_topics`` is
    the number of these topics that other groups read too. A group that is ``assigned_by_brokers``
    (KIP-848), or by Kafka Streams, keeps its assignment, wherever the leaders are. ``clients`` has
    all members by id.

    ``selecting`` are the brokers that select replicas by rack. ``sends_rack`` has, by the id of
    those members of which it is known, whether they fetch with their rack.
    """

    cluster: str
    group: str
    assignor: str
    hours: float
    members: tuple[Member, ...]
    partitions: Mapping[TopicPartition, PartitionCase]
    racks: Mapping[int, str | None]
    shared_topics: int = 0
    assigned_by_brokers: bool = False
    selecting: frozenset[int] = frozenset()
    sends_rack: Mapping[str, bool] = field(default_factory=dict)
    type: str = CLASSIC
    clients: Mapping[str, MemberClient] = field(default_factory=dict)

    @property
    def may_follow(self) -> bool:
        """Whether members may read from followers."""
        return bool(self.selecting) and any(
            self.sends_rack.get(each.id, True) for each in self.members
        )

    def rack_of(self, broker: int | None) -> str | None:
        """Return the rack of a broker; None if the broker or its rack is unknown."""
        return None if broker is None else self.racks.get(broker)

    def leader_racks(self) -> list[str | None]:
        """Return the rack of the leader of each partition, in the order of ``partitions``."""
        return [self.rack_of(each.leader) for each in self.partitions.values()]


NO_OWNER = -1
"""In an assignment: the partition has no owner."""


@dataclass(frozen=True, slots=True)
class ScenarioAssignment:
    """The assignment of a group under a scenario.

    Both in the order of the group's ``partitions``: ``owner`` is the index of the member among the
    group's ``members`` (NO_OWNER: none), ``source`` the rack that the partition is read from.
    ``leader_moves`` is the number of preferred leaders that change.
    """

    scenario: str
    assignor: str
    owner: IntArray
    source: Sequence[str | None]
    leader_moves: int = 0


@dataclass(frozen=True, slots=True)
class ScenarioMetrics:
    """The metrics of a scenario; the fields are columns of ``schemas.WHAT_IF``."""

    scenario: str
    assignor: str
    members: int
    partitions: int
    off_rack_partitions: int
    unknown_partitions: int
    bytes: int
    local_bytes: int
    crossing_bytes: int
    unknown_bytes: int
    cost: float
    cost_per_month: float
    max_partitions: int
    min_partitions: int
    max_bytes: int
    mean_bytes: float
    moves: int
    leader_moves: int
    shared_topics: int = 0


def scenario_metrics(
    case: GroupCase,
    scenario: ScenarioAssignment,
    current: ScenarioAssignment,
    prices: PriceTable,
) -> ScenarioMetrics:
    """Return locality, bytes, cost, load and moves of ``scenario``, relative to ``current``."""
    # Pairs of a source's and a reader's rack, as numbers: source * number of racks + reader.
    reader_racks = [*(member.rack for member in case.members), None]
    racks = list(dict.fromkeys([*scenario.source, *reader_racks]))
    code = {rack: number for number, rack in enumerate(racks)}
    sources = np.array([code[rack] for rack in scenario.source], np.int64)
    # The owner NO_OWNER, -1, has the last of the racks, which is unknown.
    readers = np.array([code[rack] for rack in reader_racks], np.int64)[scenario.owner]
    pairs = sources * len(racks) + readers
    bytes_of = np.array([each.bytes for each in case.partitions.values()], np.int64)
    pair_bytes = _sums(pairs, bytes_of, len(racks) ** 2)
    pair_counts = np.bincount(pairs, minlength=len(racks) ** 2)
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    cost = 0.0
    for pair in np.flatnonzero(pair_counts).tolist():
        source, reader = racks[pair // len(racks)], racks[pair % len(racks)]
        level = crossed_level(source, reader)
        locality = "unknown" if level is None else "crossing" if level else "local"
        counts[locality] += int(pair_counts[pair])
        sizes[locality] += int(pair_bytes[pair])
        if level:
            cost += int(pair_bytes[pair]) * (prices.price(case.cluster, source, reader) or 0.0) / GB
    owned = scenario.owner != NO_OWNER
    loads = np.bincount(scenario.owner[owned], minlength=len(case.members))
    bytes_read = _sums(scenario.owner[owned], bytes_of[owned], len(case.members))
    return ScenarioMetrics(
        scenario=scenario.scenario,
        assignor=scenario.assignor,
        members=len(case.members),
        partitions=len(case.partitions),
        off_rack_partitions=counts["crossing"],
        unknown_partitions=counts["unknown"],
        bytes=sum(sizes.values()),
        local_bytes=sizes["local"],
        crossing_bytes=sizes["crossing"],
        unknown_bytes=sizes["unknown"],
        cost=cost,
        cost_per_month=cost / case.hours * HOURS_PER_MONTH if case.hours else 0.0,
        max_partitions=int(loads.max()),
        min_partitions=int(loads.min()),
        max_bytes=int(bytes_read.max()),
        mean_bytes=float(bytes_read.mean()),
        # Owned partitions that get another owner, or none.
        moves=int(
            np.count_nonzero((current.owner != NO_OWNER) & (current.owner != scenario.owner))
        ),
        leader_moves=scenario.leader_moves,
        shared_topics=case.shared_topics,
    )


def _sums(index: IntArray, values: IntArray, size: int) -> IntArray:
    """Return an array of ``size`` sums: of the ``values`` with each ``index``."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, index, values)
    return sums
