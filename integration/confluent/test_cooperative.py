"""A member joins a cooperative group of our Consumers: what moves, and what pauses meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

from integration.support.clients import Place
from integration.support.confluent_clients import Confluent
from integration.support.drip import drip
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, loads, replicas_led_from
from integration.support.topics import create_topic, new_name
from rackward.clusters import Cluster

SIX = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
LONGEST_PAUSE = 0.2
"""Seconds for which a partition that stays where it is may give no record in a rebalance, or, where
a busy machine makes longer pauses by itself, twice what it makes."""
STEADY = 1.0
"""Seconds of pause without a rebalance with which a measurement still says something."""
ATTEMPTS = 5
"""A pause that the rebalance makes is there each time; one that a busy machine makes is not."""
PATIENCE = 180.0


def longest_pause(group: ConsumerGroup, kept: set[Place], since: float, until: float) -> float:
    return max(group.reads_of(place).longest_gap(since, until) for place in kept)


def steady_pause(group: ConsumerGroup, everything: set[Place]) -> float:
    """The longest pause in two seconds without a rebalance, once records flow steadily."""
    deadline = time.monotonic() + PATIENCE
    while True:
        since = time.monotonic()
        time.sleep(2.0)
        pause = longest_pause(group, everything, since, time.monotonic())
        if pause < STEADY:
            return pause
        assert since < deadline, f"without a rebalance, records pause for {pause:.3f} s"


def pauses_when_a_seventh_joins(
    group: ConsumerGroup, everything: set[Place]
) -> tuple[float, float]:
    """The longest pause of a partition that stays, and of one just before the rebalance."""
    before = group.settle(everything, within=PATIENCE)
    usual = steady_pause(group, everything)
    generation, started = group.generation, time.monotonic()
    group.start("a3", "a")
    now = group.settle(everything, within=PATIENCE, after=generation)
    ended = time.monotonic()
    assert loads(now) == [5, 5, 5, 5, 5, 5, 6]
    assert group.generation - generation <= 2
    assert group.handed_back(since=started) == []
    kept = {place for name in before for place in before[name] & now[name]}
    # The seventh is given five, one of each member but one, and nothing else moves.
    assert len(kept) == 31
    moved = {place for change in group.history if change.when > started for place in change.places}
    assert not moved & kept
    return longest_pause(group, kept, started, ended), usual


def test_kept_partitions_are_read_while_a_member_joins(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    topic = create_topic(cluster, new_name("joined"), replicas_led_from(evenly(36)))
    everything = {(topic, partition) for partition in range(36)}
    measured: list[str] = []
    good = False
    with (
        drip(cluster, topic, 36, every=0.03),
        ConsumerGroup(cluster, topics=[topic], client=Confluent()) as group,
    ):
        for name, rack in SIX.items():
            group.start(name, rack)
        while not good and len(measured) < ATTEMPTS:
            if measured:
                group.stop("a3")
            pause, usual = pauses_when_a_seventh_joins(group, everything)
            measured.append(f"{pause * 1000:.0f} ms (without a rebalance {usual * 1000:.0f})")
            good = pause < max(LONGEST_PAUSE, 2 * usual)
    print("longest pause of a kept partition:", ", ".join(measured))
    record_property("longest pause of a kept partition", measured[-1])
    assert good, measured
