"""What a leader layout is made from, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement_core.cluster import Move, TopicPartition
from placement_core.errors import InvalidOptionError


@dataclass(frozen=True, slots=True)
class Readers:
    """Consumers that share some topics evenly: a group, or a part of one.

    All of them read all of ``topics``, and every consumer gets the floor or the ceiling of all
    these partitions together, as in a group that rackward's or any other sticky assignor
    balances. Consumers that are balanced topic by topic (range) are one ``Readers`` per topic; a
    group whose members differ in what they subscribe to is one per subscription.

    ``consumers`` holds how many stand in each rack (None: not known). ``weight`` is the
    traffic that they read from a partition, in any one unit, beside that of others.

    Raises InvalidOptionError where the values cannot be meant.
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
    """Of ``partitions``, how many a balanced, leader-rack-aware assignment reads locally.

    ``before`` counts with the present leaders, ``after`` with those of the layout. A partition
    is local where the rack of its leader is known and is its consumer's.
    """

    readers: str
    partitions: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class LeaderLayout:
    """Replica lists in a new order.

    order
        The replica list of every partition in question, changed or not.
    moves
        The partitions whose list changes; no data moves.
    localities
        Per ``Readers``, in their order; those without consumers or partitions are left out.
    most_local
        Whether it is proved that no order of replicas is more local (in weighted steps).
    most_even
        Whether it is proved that none as local spreads leaders more evenly over brokers, and
        none as even changes fewer.
    """

    order: Mapping[TopicPartition, tuple[int, ...]]
    moves: tuple[Move, ...]
    localities: tuple[Locality, ...]
    most_local: bool
    most_even: bool
