"""The assignors that the demo compares, and the steps that it runs with all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Strategy:
    """One assignor.

    ``key`` identifies it in JSON, group ids, listener names and log files. ``is_rackward`` marks
    those whose assignments the demo compares with the optimum.
    """

    key: str
    title: str
    is_rackward: bool


STRATEGIES: tuple[Strategy, ...] = (
    Strategy("kafka-python-range", "kafka-python Range", is_rackward=False),
    Strategy("kafka-python-sticky", "kafka-python CooperativeSticky", is_rackward=False),
    Strategy("rackward-range", "rackward Range", is_rackward=True),
    Strategy("rackward-sticky", "rackward CooperativeSticky", is_rackward=True),
)


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
    """An event, followed by a period of steady reading.

    ``rebalances`` is true if the event makes groups rebalance, so that each assignor has
    assigned anew when the step ends. ``destructive`` steps stop brokers or move leaders, and
    run only on a cluster that the demo started.
    """

    event: Event
    title: str
    rebalances: bool
    destructive: bool


STEPS: tuple[Step, ...] = (
    Step(Event.START, "all members start", rebalances=True, destructive=False),
    Step(Event.LEADERS_MOVE, "a tenth of the leaders move", rebalances=False, destructive=True),
    Step(Event.MEMBER_LEAVES, "a member leaves", rebalances=True, destructive=False),
    Step(Event.MEMBER_JOINS, "a member joins", rebalances=True, destructive=False),
    Step(Event.BROKER_DIES, "a broker dies", rebalances=False, destructive=True),
    Step(Event.BROKER_RETURNS, "the broker returns", rebalances=False, destructive=True),
)


def steps_for(*, own_cluster: bool) -> tuple[Step, ...]:
    """Return the steps to run: all of them only on a cluster that the demo started."""
    return tuple(step for step in STEPS if own_cluster or not step.destructive)


def skipped_steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps that are not in ``steps``."""
    return tuple(step for step in STEPS if step not in steps)
