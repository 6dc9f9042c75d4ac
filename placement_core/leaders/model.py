"""The input and the result of a leader layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
class Locality:
    """How many of ``partitions`` a balanced, leader-rack-aware assignment reads locally.

    ``before`` counts with the current leaders, ``after`` with those of the layout. A partition is
    local if the rack of its leader is known and is that of its consumer.
    """

    name: str
    partitions: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class LeaderLayout:
    """Replica lists in a new order.

    order
        The replica list of every partition whose leader was chosen, changed or not.
    moves
        The partitions whose list changes; no data is copied.
    localities
        One per ``ConsumerDemand``, in their order, without those that have no consumers or
        partitions.
    locality_proved
        Whether it is proved that no order of replicas is more local (weighted).
    balance_proved
        Whether it is proved that no order that is as local has leaders more even over brokers, and
        none that is as even has fewer changes.
    """

    order: Mapping[TopicPartition, tuple[int, ...]]
    moves: tuple[Move, ...]
    localities: tuple[Locality, ...]
    locality_proved: bool
    balance_proved: bool
