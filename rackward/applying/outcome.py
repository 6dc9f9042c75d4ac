"""What came of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from placement_core import RackwardError, TopicPartition


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
