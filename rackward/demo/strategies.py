"""The assignors that the demo compares, and how each is named and shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Strategy:
    """One assignor. ``key`` names it in JSON, in group ids and in listeners; ``title`` shows
    it; ``ours`` marks those that are held to the optimum."""

    key: str
    title: str
    ours: bool


STRATEGIES: tuple[Strategy, ...] = (
    Strategy("range", "kafka-python Range", ours=False),
    Strategy("sticky", "kafka-python CooperativeSticky", ours=False),
    Strategy("our-range", "rackward Range", ours=True),
    Strategy("our-sticky", "rackward CooperativeSticky", ours=True),
)
