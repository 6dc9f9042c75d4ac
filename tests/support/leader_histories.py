"""Histories of looks, and what must hold of whatever a policy makes of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import strategies as st

from assignors.leader_moves import Gain, Observation, RefreshPolicy, RefreshState

PARTITIONS = 12
TOPIC = "t"


class Leader(NamedTuple):
    """Where a partition is led from, and how often its leader was elected."""

    rack: str | None
    epoch: int


@dataclass(frozen=True)
class Look:
    """What was seen when, and whether the policy then asked."""

    at: float
    seen: Observation
    asked: bool = False


def seen(leaders: Sequence[Leader], unwell: int = 0, worth: float = 0.0) -> Observation:
    racks, epochs = [leader.rack for leader in leaders], [leader.epoch for leader in leaders]
    return Observation({TOPIC: racks}, {TOPIC: epochs}, unwell, Gain(worth, round(worth), 0))


def elected(one: Observation, other: Observation) -> int:
    """Partitions with an election between two looks."""
    rows = [zip(look.racks[TOPIC], look.epochs[TOPIC], strict=True) for look in (one, other)]
    return sum(a != b for a, b in zip(*rows, strict=True))


def played(policy: RefreshPolicy, looks: Sequence[Look]) -> list[Look]:
    """The same looks with what the policy said to each."""
    state, told = RefreshState(), []
    for look in looks:
        state, asks = policy.step(state, look.seen, look.at)
        told.append(Look(look.at, look.seen, asks))
    return told


def asked_wrongly(policy: RefreshPolicy, looks: Sequence[Look]) -> list[str]:
    """What is wrong with when it asked; nothing of a sound policy."""
    wrong, last = [], None
    for index, look in enumerate(looks):
        if not look.asked:
            continue
        enough = max(policy.min_gain * look.seen.partitions, policy.min_partitions)
        if look.seen.gain.worth < enough - 1e-6:
            wrong.append(f"{look.at}: for too little")
        if last is not None and look.at - last < policy.cool_down:
            wrong.append(f"{look.at}: {look.at - last} s after the last time")
        last = look.at
        whole = look.seen.unwell < enough
        rest = policy.settling if whole else policy.patience
        before = [each for each in looks[: index + 1] if each.at >= look.at - rest]
        # The rest begins with a look, so one is as old as that.
        earlier = [each for each in looks[:index] if each.at <= look.at - rest]
        window = [*earlier[-1:], *before] if rest else [look]
        if rest and not earlier:
            wrong.append(f"{look.at}: nothing was seen {rest} s before")
        for each in window:
            if each.seen.gain.worth < enough - 1e-6:
                wrong.append(f"{look.at}: not worth it at {each.at}")
            came = abs(each.seen.unwell - look.seen.unwell) >= 2 * enough
            if came or (each.seen.unwell < enough) != whole:
                wrong.append(f"{look.at}: brokers came or went at {each.at}")
            # Each is less than enough away from where the rest began.
            if elected(each.seen, look.seen) >= 2 * enough:
                wrong.append(f"{look.at}: leaders moved after {each.at}")
    return wrong


def asked_late(policy: RefreshPolicy, looks: Sequence[Look], still_since: int) -> bool:
    """Whether nobody asked in time, where looks from ``still_since`` on are all alike.

    They are worth a rebalance, and at most a check interval apart.
    """
    before = [look.at for look in looks[:still_since] if look.asked]
    enough = max(policy.min_gain * PARTITIONS, policy.min_partitions)
    rest = policy.settling if looks[still_since].seen.unwell < enough else policy.patience
    due = max(looks[still_since].at + rest, (before[-1] if before else 0) + policy.cool_down)
    return not any(
        look.asked and look.at <= due + policy.check_interval for look in looks[still_since:]
    )


@st.composite
def policies(draw: st.DrawFn) -> RefreshPolicy:
    settling = draw(st.integers(0, 30))
    return RefreshPolicy(
        min_gain=draw(st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.5])),
        min_partitions=draw(st.integers(1, 4)),
        settling=settling,
        patience=settling + draw(st.integers(0, 30)),
        cool_down=draw(st.integers(0, 60)),
        check_interval=draw(st.integers(2, 10)),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Look]:
    """Looks at leaders that move back and forth, of a plan that is worth more or less."""
    leaders = [Leader("a", 0)] * PARTITIONS
    looks, at = [], 0.0
    for _ in range(draw(st.integers(0, 40))):
        at += draw(st.sampled_from([0.5, 1, 5, 10, 30]))
        movers = draw(st.lists(st.integers(0, PARTITIONS - 1), max_size=5))
        leaders = list(leaders)
        for partition in movers if draw(st.booleans()) else ():
            rack = draw(st.sampled_from(["a", "b", None]))
            leaders[partition] = Leader(rack, leaders[partition].epoch + 1)
        worth = draw(st.sampled_from([0, 0.5, 1, 2, 3, 6, 6, 6]))
        unwell = draw(st.sampled_from([0, 0, 0, 1, 6]))
        looks.append(Look(at, seen(leaders, unwell, worth)))
    return looks
