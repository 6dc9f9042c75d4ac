"""Events and the result of carrying out a plan.

The executor passes each event to an :data:`EventHandler`; the command line renders them as text or
JSON (:mod:`rackward.cli.render.progress`), where an event is named after its class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from placement_core import TopicPartition
from rackward.reassignment.progress import Progress


@dataclass(frozen=True, slots=True)
class Started:
    """The run starts: partitions ``pending``, ``in_progress`` from an earlier run, ``completed``
    already; the number of ``batches``, and the ``bytes`` to copy (None: unknown)."""

    pending: int
    in_progress: int
    completed: int
    batches: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class ThrottleSet:
    """Copying is throttled to ``rate`` bytes per second and broker, in each direction."""

    rate: int


@dataclass(frozen=True, slots=True)
class BrokerThrottleFound:
    """A broker has replication throttle rates of its own, which stay in force there."""

    broker: int
    leader_rate: int | None
    follower_rate: int | None


@dataclass(frozen=True, slots=True)
class ThrottleRemoved:
    """The throttle was removed; ``leftover``: it was that of an earlier run."""

    leftover: bool = False


@dataclass(frozen=True, slots=True)
class ThrottleNotRemoved:
    """The throttle could not be removed."""

    reason: str


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """The controller accepted a batch of ``partitions`` with ``copies`` new replicas."""

    number: int
    batches: int
    partitions: int
    copies: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Progressed:
    """The progress of the whole run, seen while batch ``number`` is copied."""

    number: int
    batches: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class PartitionFailed:
    """A partition will not be reassigned."""

    partition: TopicPartition
    reason: str


@dataclass(frozen=True, slots=True)
class WaitingForBrokers:
    """Partitions wait for brokers that are down; the others proceed."""

    partitions: int
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request to the cluster failed; it is retried."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeadersElected:
    """Partitions got their preferred replica as leader."""

    partitions: int


@dataclass(frozen=True, slots=True)
class ReassignmentsCancelled:
    """Reassignments in progress were cancelled."""

    partitions: int


@dataclass(frozen=True, slots=True)
class LeftInProgress:
    """The run ends while the cluster still reassigns partitions."""

    partitions: int
    reason: str


Event = (
    Started
    | ThrottleSet
    | BrokerThrottleFound
    | ThrottleRemoved
    | ThrottleNotRemoved
    | BatchStarted
    | Progressed
    | PartitionFailed
    | WaitingForBrokers
    | RequestFailed
    | LeadersElected
    | ReassignmentsCancelled
    | LeftInProgress
)
EventHandler = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The state of the cluster at the end of a run, as read back from it.

    completed
        Number of partitions with the intended replicas.
    failed
        The other partitions, with the reason.
    in_progress
        Partitions in ``failed`` that the cluster is still reassigning.
    out_of_sync
        Completed partitions with replicas that are not in sync, and these brokers.
    wrong_leader
        Completed partitions whose first replica is not the leader, with the reason.
    throttle_leftovers
        What is left of rackward's throttle, as text.
    """

    completed: int
    failed: Mapping[TopicPartition, str] = field(default_factory=dict)
    in_progress: tuple[TopicPartition, ...] = ()
    out_of_sync: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    wrong_leader: Mapping[TopicPartition, str] = field(default_factory=dict)
    throttle_leftovers: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if everything is as intended."""
        return not (self.failed or self.out_of_sync or self.wrong_leader or self.throttle_leftovers)
