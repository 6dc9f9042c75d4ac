"""The values that go into an assignor and come out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from placement_core.errors import InvalidOptionError

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

LeaderRacks = Mapping[str, Sequence[str | None]]
"""Topic to the rack of each partition's leader. The index is the partition, None is unknown."""

Weights = Mapping[str, "Sequence[float] | NDArray[np.float64]"]
"""Topic to the traffic of each partition, in any one unit (bytes per second, for example)."""

WeightSource = Weights | Callable[[str], "Sequence[float] | NDArray[np.float64] | None"]
"""Weights, or a function from a topic to its partitions' traffic (None: not known)."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a consumer group, as the group's leader sees it.

    id
        The member id, unique in the group.
    topics
        The topics that the member subscribes to.
    rack
        The rack that the member runs in; None if unknown.
    instance_id
        ``group.instance.id`` of a static member, else None.
    owned
        Topic to the partitions that the member claims to own. Partitions that do not exist are
        ignored. If several members claim a partition, the claim of the highest generation counts;
        if two claims share that generation, or the owner no longer subscribes to the topic, the
        partition has no owner.
    generation
        The generation of ``owned``; -1 if unknown.
    """

    id: str
    topics: frozenset[str]
    rack: str | None = None
    instance_id: str | None = None
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation: int = -1


@dataclass(frozen=True, slots=True)
class Plan:
    """An assignment and its figures.

    partitions
        Member id to topic to sorted partitions. Every member is present; a member without
        partitions has an empty dict.
    off_rack
        The number of partitions whose leader's rack is known and is not their member's.
    crossings
        The number of partitions read across each level of the racks, widest level first. The last
        number is ``off_rack``. Racks that are opaque strings have one level.
    optimum
        The minimum of ``off_rack`` over all plans with the same balance, proved by the solver's
        dual bound. With several levels: the minimum given the minimum across the wider levels.
        With traffic weights: the minimum over plans of minimum off-rack weight, as rounded in
        groups of more than 1,000 partitions (docs/algorithm.md). None if nothing is proved: with
        ``balance="bytes"`` and unequal weights.
    moved
        The number of partitions taken from an owner that is still in the group and subscribed.
    loads
        Member id to its number of partitions.
    """

    partitions: Mapping[str, Mapping[str, list[int]]]
    off_rack: int
    crossings: tuple[int, ...]
    optimum: int | None
    moved: int
    loads: Mapping[str, int]


class Assignor(Protocol):
    """What computes an assignment, such as the assignors of this package."""

    def assign(
        self,
        members: Iterable[Member],
        leader_racks: LeaderRacks,
        weights: WeightSource | None = None,
    ) -> Plan:
        """Return a plan that gives every partition of a subscribed topic to one subscriber."""
        ...


def validate_balance(balance: object) -> None:
    """Raise InvalidOptionError if ``balance`` is neither "partitions" nor "bytes"."""
    if balance not in ("partitions", "bytes"):
        raise InvalidOptionError(
            f'balance is {balance!r}: give "partitions", or "bytes" for members even in weights'
        )


MAX_IMBALANCE = 3.0
"""The largest ``max_imbalance``. Four times a balanced load is not a balance any more, and the
work of an uneven plan grows with the loads that it permits."""


def validate_imbalance(max_imbalance: object) -> None:
    """Raise InvalidOptionError if ``max_imbalance`` is not a number from 0 to MAX_IMBALANCE."""
    if not (isinstance(max_imbalance, int | float) and 0 <= max_imbalance <= MAX_IMBALANCE):
        raise InvalidOptionError(
            f"max_imbalance is {max_imbalance!r}: give the share by which a member may exceed "
            f"its balanced load, from 0 to {MAX_IMBALANCE:g}, such as 0.1"
        )


def load_factor(max_imbalance: float) -> Fraction:
    """Return ``1 + max_imbalance`` exactly, as the decimal number that ``max_imbalance`` prints as.

    A member with the balanced load ``n`` may have ``int(n * factor)`` partitions. In floats,
    ``100 * (1 + 0.15)`` would be 114.99..., one partition too few.

    Raises InvalidOptionError as :func:`validate_imbalance`.
    """
    from fractions import Fraction  # Not at the top: only the leader of a group needs it.

    validate_imbalance(max_imbalance)
    return 1 + Fraction(str(float(max_imbalance)))
