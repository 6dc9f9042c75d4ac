"""Groups of our Consumers: who reads what, and that nothing of it is missed or read twice.

The figures expected here are worked out by hand in the comments, not by the code under test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from integration.support.clients import Place
from integration.support.confluent_clients import Confluent
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, loads, off_rack, replicas_led_from
from integration.support.topics import Trickle, committed, create_topic, new_name
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE, wait_until

SIX = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
TWELVE = {f"{rack}{number}": rack for rack in "abc" for number in range(1, 5)}
RANGE = "leader-rack-aware-range"
COOPERATIVE = "leader-rack-aware-cooperative-sticky"


def owners(
    cluster: Cluster, racks: Sequence[str], members: Mapping[str, str], strategy: str = COOPERATIVE
) -> dict[str, frozenset[Place]]:
    """Who owns what of a topic with leaders in these racks, once all that was sent is read."""
    topic = create_topic(cluster, new_name("led"), replicas_led_from(racks))
    everything = {(topic, partition) for partition in range(len(racks))}
    with (
        Trickle(cluster, topic, len(racks)) as sent,
        ConsumerGroup(cluster, topics=[topic], client=Confluent(strategy)) as group,
    ):
        for name, rack in members.items():
            group.start(name, rack)
        owned = group.settle(everything, within=90, hold=1.0)
        wait_until(lambda: all(sent.acknowledged.values()), PATIENCE, "each partition has a record")
        sent.stop()
        wait_until(
            lambda: all(
                offsets <= group.reads_of((topic, partition)).offsets()
                for partition, offsets in sent.acknowledged.items()
            ),
            within=PATIENCE,
            what="every acknowledged record is read",
        )
    for partition, offsets in sent.acknowledged.items():
        read = [offset for _, offset, _ in group.reads_of((topic, partition)).seen]
        # Nobody died, so who gave a partition up committed what it had read: in order, once.
        assert read == sorted(offsets)
    assert committed(cluster, group.id) == {
        (topic, partition): max(offsets) + 1 for partition, offsets in sent.acknowledged.items()
    }
    return owned


@pytest.mark.everywhere
@pytest.mark.parametrize("strategy", [RANGE, COOPERATIVE])
def test_with_even_leaders_everything_is_local(cluster: Cluster, strategy: str) -> None:
    owned = owners(cluster, evenly(36), SIX, strategy)
    assert loads(owned) == [6] * 6
    assert off_rack(cluster, owned, SIX) == 0


def test_twelve_members(cluster: Cluster) -> None:
    owned = owners(cluster, evenly(36), TWELVE)
    assert loads(owned) == [3] * 12
    assert off_rack(cluster, owned, TWELVE) == 0


def test_ten_of_twelve_leaders_in_one_rack(cluster: Cluster) -> None:
    # Two each: the members in a hold 4 of the 10 led there, those in b and c the one led in
    # their rack and 3 more. 12 - 4 - 1 - 1 = 6 are off-rack.
    owned = owners(cluster, ["a", "a", "b", *"aaaaa", "c", *"aaa"], SIX)
    assert loads(owned) == [2] * 6
    assert off_rack(cluster, owned, SIX) == 6


def test_a_rack_without_members(cluster: Cluster) -> None:
    # Nine each: a and b read all 12 that are led there, the 12 led in c are read across.
    members = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}
    owned = owners(cluster, evenly(36), members)
    assert loads(owned) == [9] * 4
    assert off_rack(cluster, owned, members) == 12


def test_a_rack_without_leaders(cluster: Cluster) -> None:
    # Six each: the members in a and in b hold 12 of the 18 led in their rack; the 12 that are
    # left go to c, which leads nothing.
    owned = owners(cluster, ["a", "b"] * 18, SIX)
    assert loads(owned) == [6] * 6
    assert off_rack(cluster, owned, SIX) == 12
