"""What happens while a plan is carried out, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from placement_core import RackwardError, TopicPartition
from rackward.reassignment.progress import Progress


@dataclass(frozen=True, slots=True)
class Begun:
    """What there is to do: partitions ``to_do``, ``under_way`` from an earlier run, ``placed``
    already; in so many ``batches``, with ``bytes`` to copy in all (None: not known)."""

    to_do: int
    under_way: int
    placed: int
    batches: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Throttled:
    """Copying is throttled to ``rate`` bytes per second and broker."""

    rate: int


@dataclass(frozen=True, slots=True)
class OwnThrottle:
    """A broker has a replication throttle of its own, which stays in force there."""

    broker: int
    leader: int | None
    follower: int | None


@dataclass(frozen=True, slots=True)
class ThrottleLifted:
    """The throttle was taken back; ``leftover``: it was one that an earlier run had left."""

    leftover: bool = False


@dataclass(frozen=True, slots=True)
class ThrottleLeft:
    """The throttle could not be taken back, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class BatchBegun:
    """A batch was handed to the controller."""

    number: int
    batches: int
    partitions: int
    copies: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Progressed:
    """A look at how far things have come."""

    number: int
    batches: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class Failed:
    """A partition will not get where it should, for this reason."""

    partition: TopicPartition
    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Partitions wait for brokers that are down; the others go on."""

    partitions: int
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trouble:
    """The cluster could not be asked; it is asked again."""

    problem: str


@dataclass(frozen=True, slots=True)
class Elected:
    """So many partitions are led by their preferred replica now that were not."""

    partitions: int


@dataclass(frozen=True, slots=True)
class Cancelled:
    """So many reassignments that were under way are not any more."""

    partitions: int


@dataclass(frozen=True, slots=True)
class LeftUnderWay:
    """The run ends, and so many partitions are still on their way in the cluster."""

    partitions: int
    reason: str


Event = (
    Begun
    | Throttled
    | OwnThrottle
    | ThrottleLifted
    | ThrottleLeft
    | BatchBegun
    | Progressed
    | Failed
    | Waiting
    | Trouble
    | Elected
    | Cancelled
    | LeftUnderWay
)
Tell = Callable[[Event], None]


# ---- What came of a run.


class ForeignReassignmentError(RackwardError):
    """Reassignments are under way that are not the plan's."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was read back at the end.

    placed
        Partitions that are where they should be.
    failed
        Partitions that are not, and why.
    under_way
        Those of ``failed`` that are still being copied in the cluster.
    behind
        Of the partitions placed, those with replicas that are not in sync, and which.
    not_led
        Of the partitions placed, those that their first replica does not lead, and why.
    throttle_left
        What is left of our throttle, for people.
    """

    placed: int
    failed: Mapping[TopicPartition, str] = field(default_factory=dict)
    under_way: tuple[TopicPartition, ...] = ()
    behind: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    not_led: Mapping[TopicPartition, str] = field(default_factory=dict)
    throttle_left: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything is as it should be."""
        return not (self.failed or self.behind or self.not_led or self.throttle_left)
