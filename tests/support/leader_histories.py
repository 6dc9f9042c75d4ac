"""Sequences of observations, and what must hold of the requests of a refresh policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import strategies as st

from assignors.leader_moves import Gain, Observation, RefreshPolicy, RefreshState

PARTITIONS = 12
TOPIC = "t"


class Leader(NamedTuple):
    """The rack of a partition's leader, and the leader epoch."""

    rack: str | None
    epoch: int


@dataclass(frozen=True)
class Check:
    """An observation at a time, and whether the policy then requested a rebalance."""

    at: float
    observation: Observation
    requested: bool = False


def observation(
    leaders: Sequence[Leader], unstable_partitions: int = 0, improvement: float = 0.0
) -> Observation:
    """Return an observation of one topic with these leaders."""
    racks, epochs = [leader.rack for leader in leaders], [leader.epoch for leader in leaders]
    gain = Gain(improvement, round(improvement), 0)
    return Observation({TOPIC: racks}, {TOPIC: epochs}, unstable_partitions, gain)


def elections(before: Observation, after: Observation) -> int:
    """Return the number of partitions whose leader or epoch differs."""
    rows = [zip(each.racks[TOPIC], each.epochs[TOPIC], strict=True) for each in (before, after)]
    return sum(a != b for a, b in zip(*rows, strict=True))


def run_policy(policy: RefreshPolicy, checks: Sequence[Check]) -> list[Check]:
    """Return the checks with what the policy requests at each."""
    state, results = RefreshState(), []
    for check in checks:
        state, requested = policy.step(state, check.observation, check.at)
        results.append(Check(check.at, check.observation, requested))
    return results


def wrong_requests(policy: RefreshPolicy, checks: Sequence[Check]) -> list[str]:
    """Return what is wrong with the requests: nothing for a correct policy."""
    wrong: list[str] = []
    last_request: float | None = None
    for index, check in enumerate(checks):
        if not check.requested:
            continue
        now = check.observation
        threshold = max(policy.min_gain * now.partitions, policy.min_partitions)
        if now.gain.improvement < threshold - 1e-6:
            wrong.append(f"{check.at}: gain below the threshold")
        if last_request is not None and check.at - last_request < policy.min_interval:
            wrong.append(f"{check.at}: {check.at - last_request} s after the last request")
        last_request = check.at
        stable = now.unstable_partitions < threshold
        required = policy.stable_seconds if stable else policy.unstable_seconds
        recent = [each for each in checks[: index + 1] if each.at >= check.at - required]
        # Stability is counted from a check, so one of them is at least that old.
        earlier = [each for each in checks[:index] if each.at <= check.at - required]
        if required and not earlier:
            wrong.append(f"{check.at}: no check {required} s before")
        for each in [*earlier[-1:], *recent] if required else [check]:
            before = each.observation
            if before.gain.improvement < threshold - 1e-6:
                wrong.append(f"{check.at}: gain below the threshold at {each.at}")
            changed = abs(before.unstable_partitions - now.unstable_partitions) >= 2 * threshold
            if changed or (before.unstable_partitions < threshold) != stable:
                wrong.append(f"{check.at}: brokers went down or came back at {each.at}")
            # Each differs by less than the threshold from the check that stability is counted from.
            if elections(before, now) >= 2 * threshold:
                wrong.append(f"{check.at}: leaders moved after {each.at}")
    return wrong


def requested_late(policy: RefreshPolicy, checks: Sequence[Check], stable_from: int) -> bool:
    """Return whether no request came in time.

    The checks from index ``stable_from`` on are equal, justify a rebalance, and are at most a
    check interval apart.
    """
    first = checks[stable_from]
    before = [check.at for check in checks[:stable_from] if check.requested]
    threshold = max(policy.min_gain * PARTITIONS, policy.min_partitions)
    stable = first.observation.unstable_partitions < threshold
    required = policy.stable_seconds if stable else policy.unstable_seconds
    due = max(first.at + required, (before[-1] if before else 0) + policy.min_interval)
    return not any(
        check.requested and check.at <= due + policy.check_interval
        for check in checks[stable_from:]
    )


@st.composite
def policies(draw: st.DrawFn) -> RefreshPolicy:
    """Draw a policy with seconds up to a minute."""
    stable_seconds = draw(st.integers(0, 30))
    return RefreshPolicy(
        min_gain=draw(st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.5])),
        min_partitions=draw(st.integers(1, 4)),
        stable_seconds=stable_seconds,
        unstable_seconds=stable_seconds + draw(st.integers(0, 30)),
        min_interval=draw(st.integers(0, 60)),
        check_interval=draw(st.integers(2, 10)),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Check]:
    """Draw checks between which leaders move back and forth, with any gain."""
    leaders = [Leader("a", 0)] * PARTITIONS
    checks, at = [], 0.0
    for _ in range(draw(st.integers(0, 40))):
        at += draw(st.sampled_from([0.5, 1, 5, 10, 30]))
        moving = draw(st.lists(st.integers(0, PARTITIONS - 1), max_size=5))
        leaders = list(leaders)
        for partition in moving if draw(st.booleans()) else ():
            rack = draw(st.sampled_from(["a", "b", None]))
            leaders[partition] = Leader(rack, leaders[partition].epoch + 1)
        improvement = draw(st.sampled_from([0, 0.5, 1, 2, 3, 6, 6, 6]))
        unstable_partitions = draw(st.sampled_from([0, 0, 0, 1, 6]))
        checks.append(Check(at, observation(leaders, unstable_partitions, improvement)))
    return checks
