"""The values that go into an assignor and come out of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from placement_core.errors import InvalidOptionError
from placement_core.flow import IntArray

LeaderRacks = Mapping[str, Sequence[str | None]]
"""Topic to the rack of each partition's leader: index = partition, None = not known."""

Weights = Mapping[str, Sequence[float]]
"""Topic to the traffic of each partition, in any one unit (bytes per second, say)."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a consumer group, as its group leader sees it when it assigns.

    ``rack`` is where the member runs (None: it does not say). ``owned`` is what the member
    says it owns, topic to partition numbers, as of ``generation`` (-1: it does not say).
    Claims on partitions that do not exist are passed over. A partition that several members
    claim belongs to the claim of the highest generation, to nobody if two share that; and
    to nobody if its owner does not subscribe to the topic any more.
    """

    id: str
    topics: frozenset[str]
    rack: str | None = None
    instance_id: str | None = None
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation: int = -1


@dataclass(frozen=True, slots=True)
class Plan:
    """Who gets what, and how good that is.

    partitions
        Every member's id to its topics to its partition numbers, sorted; a member with
        nothing has an empty dict.
    off_rack
        Partitions whose leader's rack is known and is not their member's.
    crossings
        The same per level of the racks, widest first: how many partitions are read across
        that level. The last is ``off_rack``. One level where rack ids are opaque strings.
    optimum
        The fewest off-rack partitions, as proved by the solver's dual bound, that a plan of
        this balance can have (with levels: given the fewest across the levels above; with
        traffic weights: in a plan of the least off-rack weight).
    moved
        Partitions taken from an owner that is still in the group and subscribed.
    loads
        Every member's id to the number of its partitions.
    """

    partitions: Mapping[str, Mapping[str, list[int]]]
    off_rack: int
    crossings: tuple[int, ...]
    optimum: int
    moved: int
    loads: Mapping[str, int]


class Assignor(Protocol):
    """What decides: one of the pure assignors."""

    def assign(
        self, members: Iterable[Member], leader_racks: LeaderRacks, weights: Weights | None = None
    ) -> Plan:
        """The plan for ``members``; see the pure assignors."""
        ...


# ---- The options that both assignors take.

MOST_IMBALANCE = 3.0
"""The largest ``max_imbalance``: four times a balanced load is no balance worth the name, and
the work of an uneven plan grows with the loads that it permits."""


def checked_imbalance(share: float) -> float:
    """``share`` if it is from 0 to :data:`MOST_IMBALANCE`. Raises InvalidOptionError."""
    if not (isinstance(share, int | float) and 0 <= share <= MOST_IMBALANCE):
        raise InvalidOptionError(
            f"max_imbalance is {share!r}: give the share by which a member may exceed "
            f"its balanced load, from 0 to {MOST_IMBALANCE:g}, such as 0.1"
        )
    return float(share)


def most_units(ceiling: IntArray, share: float) -> IntArray:
    """The most that members of a balanced ``ceiling`` may get: ``floor(ceiling x (1 + share))``."""
    most: IntArray = np.floor(ceiling * (1 + share)).astype(np.int64)
    return most
