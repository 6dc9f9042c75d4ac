"""Views, moves between layouts, loads before and after a change, and texts about brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.cluster import BrokerLoad, Move, RackLoad, cluster_load, moves_between
from placement_core.errors import MissingRacksError, format_brokers

T = [TopicPartition("t", n) for n in range(2)]


def test_loads_count_preferred_leaders_and_replicas() -> None:
    before = ClusterView((Broker(1, "a"), Broker(2, "b")), {T[0]: (1, 2), T[1]: (1, 2)})
    after = ClusterView(before.brokers, {T[0]: (2, 1), T[1]: (2,)})
    load = cluster_load(before, after)
    assert load.brokers == (BrokerLoad(1, "a", 2, 0, 2, 1), BrokerLoad(2, "b", 0, 2, 2, 2))
    assert load.racks == (RackLoad("a", 2, 0, 2, 1), RackLoad("b", 0, 2, 2, 2))


def test_loads_of_a_rack_are_the_sum_of_its_brokers() -> None:
    view = ClusterView((Broker(1, "a"), Broker(2, "a")), {T[0]: (1, 2), T[1]: (2, 1)})
    assert cluster_load(view, view).racks == (RackLoad("a", 2, 2, 4, 4),)


def test_dead_brokers_count_without_a_rack_which_is_last() -> None:
    """Broker 9 is in replica lists only; broker 3 has joined with a rack, and holds nothing."""
    before = ClusterView((Broker(1, "b"),), {T[0]: (9, 1)})
    after = ClusterView((Broker(1, "z"), Broker(3, "a")), {T[0]: (1,), T[1]: ()})
    load = cluster_load(before, after)
    assert load.brokers == (
        BrokerLoad(1, "z", 0, 1, 1, 1),
        BrokerLoad(3, "a", 0, 0, 0, 0),
        BrokerLoad(9, None, 1, 0, 1, 0),
    )
    assert [each.rack for each in load.racks] == ["a", "z", None]


def test_a_broker_that_has_left_keeps_its_rack() -> None:
    before = ClusterView((Broker(1, "a"), Broker(2, "b")), {T[0]: (2, 1)})
    after = ClusterView((Broker(1, "a"),), {T[0]: (1,)})
    assert cluster_load(before, after).brokers[1] == BrokerLoad(2, "b", 1, 0, 1, 0)


def test_partitions_of_one_layout_only_move_if_they_get_replicas() -> None:
    assert moves_between({T[0]: (1,)}, {T[1]: ()}) == ()
    assert moves_between({T[0]: (1,)}, {T[1]: (2,)}) == (Move(T[1], (), (2,)),)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ((3,), "broker 3"),
        ((3, 1), "brokers 1, 3"),
        ((4, 3, 1), "brokers 1, 3, ..."),
        ((), "brokers "),
    ],
)
def test_messages_name_the_lowest_ids(ids: tuple[int, ...], expected: str) -> None:
    assert format_brokers(ids, 2) == expected


def test_a_plug_in_cannot_change_the_mappings_of_its_view() -> None:
    replicas = {TopicPartition("t", 0): (0, 1)}
    view = ClusterView((Broker(0), Broker(1)), replicas, {TopicPartition("t", 0): 0})
    for mapping in (view.replicas, view.leaders, replace(view, brokers=()).replicas):
        with pytest.raises(AttributeError):
            mapping.clear()  # type: ignore[union-attr]
    assert view.replicas == replicas


def test_brokers_without_a_rack_are_named_with_what_to_do() -> None:
    error = MissingRacksError([7, 2])
    assert error.broker_ids == (2, 7)
    assert str(error) == (
        "brokers 2, 7 without a rack, while others have one: set broker.rack there, leave them out "
        "(--brokers; --drain of placement plan), or ignore racks (--ignore-racks)"
    )
    assert str(MissingRacksError([3])).startswith("broker 3 without a rack")


def test_leader_racks_of_a_view() -> None:
    view = ClusterView(
        brokers=(Broker(1, "a"), Broker(2), Broker(3, "c")),
        replicas={TopicPartition("t", p): (1, 2) for p in (0, 1, 2, 4)},
        leaders={
            TopicPartition("t", 0): 1,
            TopicPartition("t", 1): 2,
            TopicPartition("t", 4): 9,
            TopicPartition("u", 0): 3,
        },
    )
    assert view.leader_racks() == {"t": ["a", None, None, None, None], "u": ["c"]}


@pytest.mark.parametrize(
    ("leaders", "known", "leader", "leaders_or_preferred"),
    [
        (None, {}, None, {TopicPartition("t", 0): 1}),
        ({}, {}, None, {}),
        ({TopicPartition("t", 0): 2}, {TopicPartition("t", 0): 2}, 2, {TopicPartition("t", 0): 2}),
    ],
    ids=["unknown", "no leaders", "known"],
)
def test_unknown_leaders_differ_from_partitions_without_a_leader(
    leaders: dict[TopicPartition, int] | None,
    known: dict[TopicPartition, int],
    leader: int | None,
    leaders_or_preferred: dict[TopicPartition, int],
) -> None:
    """The preferred leader of t-1, broker 9, is not live."""
    replicas = {TopicPartition("t", 0): (1, 2), TopicPartition("t", 1): (9, 2)}
    view = ClusterView((Broker(1, "a"), Broker(2, "b")), replicas, leaders)
    assert view.known_leaders == known
    assert view.leader(TopicPartition("t", 0)) == leader
    assert view.leaders_or_preferred() == leaders_or_preferred
