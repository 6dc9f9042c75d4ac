"""The story that every strategy is told: its steps, in order, and what each one does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Event(Enum):
    """What happens at the beginning of a step."""

    START = "start"
    LEADERS_MOVE = "leaders-move"
    MEMBER_LEAVES = "member-leaves"
    MEMBER_JOINS = "member-joins"
    BROKER_DIES = "broker-dies"
    BROKER_RETURNS = "broker-returns"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: an event, then a while of steady reading.

    ``rebalances`` says whether the event makes groups rebalance, and so whether a strategy
    has had the chance to be at its best when the step ends. ``meddles`` marks what is only
    done to a cluster of our own.
    """

    event: Event
    title: str
    rebalances: bool
    meddles: bool


STORY: tuple[Step, ...] = (
    Step(Event.START, "six members start", rebalances=True, meddles=False),
    Step(Event.LEADERS_MOVE, "a tenth of the leaders move", rebalances=False, meddles=True),
    Step(Event.MEMBER_LEAVES, "a member leaves", rebalances=True, meddles=False),
    Step(Event.MEMBER_JOINS, "a member joins", rebalances=True, meddles=False),
    Step(Event.BROKER_DIES, "a broker dies", rebalances=False, meddles=True),
    Step(Event.BROKER_RETURNS, "the broker returns", rebalances=False, meddles=True),
)


def told(*, own_cluster: bool) -> tuple[Step, ...]:
    """The steps that are played: all of them on our own cluster, the harmless ones elsewhere."""
    return tuple(step for step in STORY if own_cluster or not step.meddles)


def left_out(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps of the story that are not among ``steps``."""
    return tuple(step for step in STORY if step not in steps)


# ---- The assignors that the demo compares, and how each is named and shown.


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
