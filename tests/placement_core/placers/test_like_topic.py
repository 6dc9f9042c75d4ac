"""LikeTopicPlacer: the replica lists of another topic."""

from __future__ import annotations

import pytest

from placement_core import ClusterView, InvalidOptionError, PlacementSpec, TopicPartition
from placement_core.placers import LikeTopicPlacer, PlacementError
from tests.support.placement import cluster, layout

ORDERS = layout("012 120 201 021")
VIEW = cluster("abcd", orders=ORDERS)
LIKE = LikeTopicPlacer("orders")


def test_replica_lists_of_the_other_topic_are_copied() -> None:
    assert LIKE.place(PlacementSpec(4, 3), VIEW) == ORDERS
    assert LIKE.place(PlacementSpec(2, 3), VIEW) == ORDERS[:2]
    assert LIKE.place(PlacementSpec(2, 3, first_partition=2), VIEW) == ORDERS[2:]


def test_one_broker_is_enough_for_one_replica() -> None:
    assert LIKE.place(PlacementSpec(1, 1), cluster("a", orders=((0,),))) == ((0,),)


def test_present_replicas_come_first() -> None:
    spec = PlacementSpec(3, 3, present=((1,), (), (1, 0)))
    assert LIKE.place(spec, VIEW) == layout("102 120 102")


def test_racks_do_not_matter() -> None:
    view = cluster(["a", None, None, "b"], orders=ORDERS)
    assert LIKE.place(PlacementSpec(4, 3), view) == ORDERS


@pytest.mark.parametrize(
    ("spec", "brokers", "message"),
    [
        (PlacementSpec(5, 3), None, "'orders' has 4 partitions, but 5 are needed: request 4"),
        (PlacementSpec(1, 3, first_partition=4), None, "has 4 partitions, but 5 are needed"),
        (PlacementSpec(4, 2), None, r"partition 0 of 'orders' has 3 replicas \[0, 1, 2\]"),
        (PlacementSpec(4, 4), None, "that makes 3 and not 4; request replication factor 3"),
        (
            PlacementSpec(1, 3, present=((3,),)),
            None,
            r"^partition 0 of 'orders' has 3 replicas \[0, 1, 2\], and the partition to place has"
            r" \[3\] already: that makes 4 and not 3",
        ),
        (PlacementSpec(4, 3), [0, 1, 3], "partition 0 of 'orders' is on broker 2, not live or not"),
        (PlacementSpec(4, 3), [0, 9], "broker 9 requested, but the live brokers are 0, 1, 2, 3"),
    ],
)
def test_topics_or_brokers_that_do_not_match_are_rejected(
    spec: PlacementSpec, brokers: list[int] | None, message: str
) -> None:
    with pytest.raises(PlacementError, match=message):
        LIKE.place(spec, VIEW, brokers)


def test_brokers_that_are_not_live_are_named() -> None:
    with pytest.raises(PlacementError, match="is on brokers 1, 2"):
        LIKE.place(PlacementSpec(4, 3), cluster({0: "a", 3: "b"}, orders=ORDERS))


def test_an_unknown_topic_is_rejected() -> None:
    with pytest.raises(PlacementError, match="no topic 'order' to place like"):
        LikeTopicPlacer("order").place(PlacementSpec(1, 1), VIEW)
    with pytest.raises(InvalidOptionError, match="topic is empty"):
        LikeTopicPlacer.from_properties({})


def test_unknown_replicas_of_the_other_topic_are_rejected() -> None:
    view = ClusterView(VIEW.brokers, {TopicPartition("t", 1): (0,)})
    with pytest.raises(PlacementError, match="'t' partition 0 are unknown"):
        LikeTopicPlacer("t").place(PlacementSpec(2, 1), view)
