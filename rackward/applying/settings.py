"""How a plan is carried out."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_BATCH = 100
"""Partitions that are moved together, where nobody says otherwise."""

DEFAULT_ORDER_BATCH = 1000
"""The same where only the order of replicas changes."""

DEFAULT_PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Bounds and waits.

    most_partitions, most_bytes
        Of a batch; None: no bound.
    throttle
        Bytes per second that each broker may send and receive for new replicas; None: no bound.
    patience
        Seconds without any progress after which to wait no longer.
    additional
        Go on beside reassignments that are not ours, and in place of those of our partitions.
    settle
        Seconds in which brokers learn what the controller has done.
    longest_pause
        Seconds between two looks, at most.
    """

    most_partitions: int | None = DEFAULT_BATCH
    most_bytes: int | None = None
    throttle: int | None = None
    patience: float = DEFAULT_PATIENCE
    additional: bool = False
    settle: float = 10.0
    longest_pause: float = 1.0
