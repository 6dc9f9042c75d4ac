"""The demo's assignors and steps, its results as frozen values, and figures derived from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rackward.measurement.assignments import (
    SECONDS_PER_MONTH,
    AssignmentSnapshot,
    TrafficMatrix,
    cross_rack_bytes,
    share,
    sum_matrices,
)
from rackward.measurement.strategies import Client, Strategy

# ---- The assignors that the demo compares, and the steps that it runs with all of them.

STRATEGIES: tuple[Strategy, ...] = (
    Strategy("kafka-python-range", "kafka-python Range", Client.KAFKA_PYTHON, "range"),
    Strategy(
        "kafka-python-sticky",
        "kafka-python CooperativeSticky",
        Client.KAFKA_PYTHON,
        "cooperative-sticky",
    ),
    Strategy(
        "rackward-range",
        "rackward Range",
        Client.KAFKA_PYTHON,
        "leader-rack-aware-range",
        is_rackward=True,
    ),
    Strategy(
        "rackward-sticky",
        "rackward CooperativeSticky",
        Client.KAFKA_PYTHON,
        "leader-rack-aware-cooperative-sticky",
        is_rackward=True,
    ),
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


@dataclass(frozen=True, slots=True)
class StepResult:
    """One strategy in one step.

    ``snapshot`` is taken at the end of the step. ``moved`` counts partitions taken from members
    that stayed in the group. ``revoked`` counts partitions that members had to give up, including
    those that they got back at once (an eager rebalance revokes all). ``bytes`` were sent to the
    members from the event until the end of the step.
    """

    step: Step
    snapshot: AssignmentSnapshot
    moved: int
    revoked: int
    bytes: TrafficMatrix
    seconds: float


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """One strategy over all steps."""

    strategy: Strategy
    steps: tuple[StepResult, ...]
    records_read: int

    @property
    def matrix(self) -> dict[tuple[str, str], int]:
        """Bytes over all steps."""
        return sum_matrices(step.bytes for step in self.steps)

    @property
    def total_bytes(self) -> int:
        """Bytes sent to the group's members."""
        return sum(self.matrix.values())

    @property
    def cross_rack_bytes(self) -> int:
        """Bytes sent to members in another rack than the broker."""
        return cross_rack_bytes(self.matrix)

    @property
    def local_share(self) -> float | None:
        """Share (0 to 1) of the bytes read in the same rack; None if nothing was read."""
        cross_rack_share = share(self.cross_rack_bytes, self.total_bytes)
        return None if cross_rack_share is None else 1 - cross_rack_share

    @property
    def moved(self) -> int:
        """Partitions taken from members that stayed in the group, over all steps."""
        return sum(step.moved for step in self.steps)

    @property
    def revoked(self) -> int:
        """Partitions that members had to give up, over all steps."""
        return sum(step.revoked for step in self.steps)

    @property
    def widest_load_range(self) -> tuple[int, int]:
        """Minimum and maximum partitions per member, in the step where they differ most."""
        ranges = [step.snapshot.load_range for step in self.steps]
        return max(ranges, key=lambda loads: loads[1] - loads[0])

    @property
    def suboptimal_steps(self) -> tuple[StepResult, ...]:
        """The steps with a rebalance that ended with a suboptimal assignment."""
        return tuple(
            step for step in self.steps if step.step.rebalances and not step.snapshot.is_optimal
        )

    def cost_per_month(self, seconds: float, price_per_gb: float) -> float:
        """Return the cost of a month at the rate of cross-rack bytes over ``seconds``."""
        return self.cross_rack_bytes / seconds * SECONDS_PER_MONTH / 1e9 * price_per_gb


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of one run.

    ``bytes_counted`` is true if the brokers counted the bytes, false if they are estimated from
    assignments and log growth. ``seconds`` is the time of all steps. ``produced_bytes`` counts
    values, without keys and headers, in that time.
    """

    strategies: tuple[StrategyResult, ...]
    racks: tuple[str, ...]
    cluster: str
    brokers: int
    partitions: int
    bytes_counted: bool
    seed: int
    seconds: float
    produced_bytes: int
    produced_records: int
    price_per_gb: float
    skipped_steps: tuple[Step, ...]

    @property
    def is_optimal(self) -> bool:
        """Whether all groups with an assignor of rackward were optimal after every rebalance."""
        return not any(
            result.suboptimal_steps for result in self.strategies if result.strategy.is_rackward
        )
