"""The input and the result of a leader layout."""

from __future__ import annotations

from collections.abc import Mapping
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

    Raises InvalidOptionError if a weight is out of range.
    """

    name: str
    topics: frozenset[str]
    racks: Mapping[TopicPartition, str | None]
    weights: Mapping[TopicPartition, float] = field(default_factory=dict)

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
    """

    order: Mapping[TopicPartition, tuple[int, ...]]
    moves: tuple[Move, ...]
    localities: tuple[Locality, ...]
    locality_proved: bool
    balance_proved: bool
    unmet: tuple[UnmetReads, ...] = ()
    leader_limit: int | None = None
