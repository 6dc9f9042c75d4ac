"""The input and the result of a leader layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from placement_core.cluster import Move, TopicPartition
from placement_core.errors import InvalidOptionError


@dataclass(frozen=True, slots=True)
class ConsumerDemand:
    """Consumers that share some topics evenly: a consumer group, or a part of one.

    All consumers read all of ``topics``, and each gets the floor or the ceiling of its share of all
    these partitions together, as in a group that a sticky assignor balances. A group that is
    balanced topic by topic (range) is one ``ConsumerDemand`` per topic; a group whose members
    differ in their subscriptions is one per subscription.

    ``consumers`` is the number of consumers per rack (None: unknown rack). ``weight`` is the
    traffic that they read from one partition, in any unit that all demands share.

    Raises InvalidOptionError if a number of consumers or the weight is out of range.
    """

    name: str
    topics: frozenset[str]
    consumers: Mapping[str | None, int]
    weight: float = 1.0

    def __post_init__(self) -> None:
        for rack, count in self.consumers.items():
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise InvalidOptionError(
                    f"{self.name} has {count!r} consumers in rack {rack}: give a whole number"
                )
        if not 0 < self.weight < float("inf"):
            raise InvalidOptionError(
                f"the weight of {self.name} is {self.weight!r}: give a positive number"
            )


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """A consumer group whose members keep their partitions, wherever the leaders are.

    topics
        The topics that the group reads.
    racks
        Partition to the rack of the one member that owns it (None: unknown rack). Partitions of
        ``topics`` without an owner, or with several, are missing.
    weights
        The traffic that the group reads from a partition, in a unit that all readers share.
        Default: 1.
    shared
        Partition that several members read, each an equal part (share groups), to their racks.
        Each of these reads counts as a partition of the group.

    Raises InvalidOptionError if a weight is out of range.
    """

    name: str
    topics: frozenset[str]
    racks: Mapping[TopicPartition, str | None]
    weights: Mapping[TopicPartition, float] = field(default_factory=dict)
    shared: Mapping[TopicPartition, Sequence[str | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for tp, weight in self.weights.items():
            if not 0 < weight < float("inf"):
                raise InvalidOptionError(
                    f"the weight of {tp.topic}-{tp.partition} for {self.name} is {weight!r}: give "
                    "a positive number"
                )

    def weight(self, partition: TopicPartition) -> float:
        """Return the weight of a partition."""
        return self.weights.get(partition, 1.0)

    def readers(self, partition: TopicPartition) -> Sequence[str | None]:
        """Return the racks of the members that read a partition; none if no member does."""
        if partition in self.racks:
            return (self.racks[partition],)
        return self.shared.get(partition, ())


@dataclass(frozen=True, slots=True)
class WriterDemand:
    """Producers of some topics: where what they write comes from.

    written
        A topic, or one partition, to the bytes from each rack (None: unknown rack), in the unit of
        the readers' weights. A topic's bytes are spread evenly over its partitions.
    rack_aware
        Whether the producers write records without keys to the leaders in their own rack. Then
        leaders should be in proportion to what is written in each rack, so that all partitions of
        a topic get an equal share; what a rack writes beyond the share of its leaders counts as
        written across racks in the objective, and so in ``gap``. Otherwise (keys, or the client's
        own partitioner) each partition gets its bytes whatever its leader, and those from other
        racks are written across.

    Raises InvalidOptionError if an amount is negative or not finite.
    """

    name: str
    written: Mapping[str | TopicPartition, Mapping[str | None, float]]
    rack_aware: bool = False

    def __post_init__(self) -> None:
        for what, by_rack in self.written.items():
            for rack, amount in by_rack.items():
                if not 0 <= amount < float("inf"):
                    raise InvalidOptionError(
                        f"{self.name} writes {amount!r} to {_name_of(what)} from rack {rack}: give "
                        "0 or a positive number"
                    )

    def by_partition(
        self, partitions: Mapping[str, Sequence[TopicPartition]]
    ) -> dict[TopicPartition, dict[str | None, float]]:
        """Return what each partition gets from each rack; ``partitions`` are those of each topic.

        Topics and partitions that are not among them are left out.
        """
        found: dict[TopicPartition, dict[str | None, float]] = {}
        for what, by_rack in self.written.items():
            topic = what if isinstance(what, str) else what.topic
            of_topic = partitions.get(topic, ())
            targets = of_topic if isinstance(what, str) else [p for p in of_topic if p == what]
            for partition in targets:
                row = found.setdefault(partition, {})
                for rack, amount in by_rack.items():
                    row[rack] = row.get(rack, 0.0) + amount / len(targets)
        return found


def _name_of(what: str | TopicPartition) -> str:
    return what if isinstance(what, str) else f"{what.topic}-{what.partition}"


@dataclass(frozen=True, slots=True)
class BytesAcross:
    """How much of ``total`` a group reads, or producers write, across racks.

    In the unit of the weights; ``before`` with the current leaders, ``after`` with the layout's.
    """

    name: str
    total: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Locality:
    """How many of ``partitions`` are read locally.

    For a ``ConsumerDemand``: by a balanced, leader-rack-aware assignment. For a
    ``CurrentAssignment``: by the members that own them. ``before`` counts with the current leaders,
    ``after`` with those of the layout. A partition is local if the rack of its leader is known and
    is that of its consumer.
    """

    name: str
    partitions: int
    before: int
    after: int


class Obstacle(Enum):
    """Why a partition of a ``CurrentAssignment`` is not read locally after a layout.

    The first of these that applies.
    """

    UNREAD = "unread"
    """No member owns it, or several do."""

    RACKLESS_MEMBER = "rackless-member"
    """The rack of its member is unknown."""

    NO_BROKER_IN_RACK = "no-broker-in-rack"
    """No live broker is in the rack of its member."""

    NO_REPLICA_IN_RACK = "no-replica-in-rack"
    """None of its replicas is on a live broker in the rack of its member."""

    NOT_SELECTED = "not-selected"
    """Its topic is not among those whose leaders may change."""

    LEADER_LIMIT = "leader-limit"
    """Its replicas in the rack of its member are on brokers that may lead no more partitions."""

    BYTE_LIMIT = "byte-limit"
    """Its replicas in the rack of its member are on brokers that may not serve it as well."""

    OTHER_READERS = "other-readers"
    """Other consumers read it elsewhere, and its one leader serves them."""


@dataclass(frozen=True, slots=True)
class UnmetReads:
    """Partitions that the group ``name`` does not read locally after a layout, and why.

    ``rack`` is the rack of the members that read them; None if it is unknown.
    """

    name: str
    obstacle: Obstacle
    rack: str | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class LeaderLayout:
    """Replica lists in a new order.

    order
        The replica list of every partition whose leader was chosen, changed or not.
    moves
        The partitions whose list changes; no data is copied.
    localities
        One per ``ConsumerDemand`` and then per ``CurrentAssignment``, in their order, without those
        that have no consumers or partitions.
    locality_proved
        Whether it is proved that no permitted order of replicas is more local (weighted; in units
        of at most a 10,000th of the heaviest weight, far less in clusters of a few thousand
        partitions).
    balance_proved
        Whether it is proved that no order that is as local is better in the two objectives that
        follow: even leaders per broker, and few changes.
    unmet
        What members of ``CurrentAssignment`` values do not read locally, by reason.
    leader_limit
        The maximum of preferred leaders on a broker that had fewer before; None: unlimited.
    gap
        What a better layout could save at most: a share of all that is read and written, proved. 0
        if there is no better one. With ``max_byte_imbalance`` that is kept: one that keeps it too.
    heaviest_broker
        The most that the leaders on one broker serve, over the mean of the live brokers: what is
        read from them and written to them, in the weights of readers and writers. 0 without any.
    consumed, produced
        The bytes across racks per reader (as ``localities``) and per ``WriterDemand``. Rack-aware
        ones write as :func:`placement_core.racks.nearest_groups` says: a rack's leaders get all
        that is written in it, up to DEFAULT_MAX_SHARE.
    """

    order: Mapping[TopicPartition, tuple[int, ...]]
    moves: tuple[Move, ...]
    localities: tuple[Locality, ...]
    locality_proved: bool
    balance_proved: bool
    unmet: tuple[UnmetReads, ...] = ()
    leader_limit: int | None = None
    gap: float = 0.0
    heaviest_broker: float = 0.0
    consumed: tuple[BytesAcross, ...] = ()
    produced: tuple[BytesAcross, ...] = ()
