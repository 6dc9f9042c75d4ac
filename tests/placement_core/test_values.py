"""Racks, cluster values and small functions of the solver."""

from __future__ import annotations

import pytest

from placement_core import (
    Broker,
    ClusterView,
    TopicPartition,
    common_levels,
    levels_crossed,
    parse_rack,
)
from placement_core.errors import MissingRacksError


def test_brokers_without_a_rack_are_named_with_what_to_do() -> None:
    error = MissingRacksError([7, 2])
    assert error.broker_ids == (2, 7)
    assert str(error) == (
        "brokers 2, 7 without a rack, while others have one: set broker.rack there, leave them out "
        "(--brokers; --drain of placement plan), or ignore racks (--ignore-racks)"
    )
    assert str(MissingRacksError([3])).startswith("broker 3 without a rack")


@pytest.mark.parametrize(
    ("rack", "path"),
    [
        ("use1-az1", ("use1-az1",)),
        ("a/b", ("a/b",)),
        ("/dc1/room2/r7", ("dc1", "room2", "r7")),
        ("//dc1//r7/", ("dc1", "r7")),
        ("", None),
        ("/", None),
        ("//", None),
        (None, None),
        (7, None),
        (b"a", None),
        ("/a", ("a",)),
    ],
)
def test_rack_ids(rack: object, path: tuple[str, ...] | None) -> None:
    assert parse_rack(rack) == path


@pytest.mark.parametrize(
    ("one", "other", "crossed"),
    [
        ("/d/r", "/d/r", 0),
        ("/d/r", "/d/s", 1),
        ("/d/r", "/e/r", 2),
        ("/d", "/d/r", 1),
        ("/d", "/d", 0),
        ("/d", "/e", 2),
        ("/d/r", None, 2),
        (None, None, 2),
    ],
)
def test_levels_crossed(one: str | None, other: str | None, crossed: int) -> None:
    for a, b in ((one, other), (other, one)):
        assert levels_crossed(parse_rack(a), parse_rack(b), depth=2) == crossed


def test_common_levels() -> None:
    assert common_levels(("d", "r"), ("d", "s")) == 1
    assert common_levels(("d",), ("d", "s")) == 1
    assert common_levels(("d",), ("e",)) == 0


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
