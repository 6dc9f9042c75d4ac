"""Options of placement, right and wrong."""

from __future__ import annotations

from typing import Any

import pytest

from placement_core import InvalidOptionError
from placement_core.placers import LikeTopicPlacer, RackAlternatingPlacer, SimplePlacer
from rackward.cli.options import broker_ids, key_values, read_placing
from rackward.rack_locators import FileLocator


def test_without_options_racks_alternate_from_a_new_seed() -> None:
    one, other = read_placing(), read_placing()
    assert isinstance(one.placer, RackAlternatingPlacer)
    assert one.placer.seed == one.seed
    assert one.seed != other.seed
    assert (one.brokers, one.like, one.ignore_racks) == (None, None, False)


def test_everything_said() -> None:
    placing = read_placing(
        placement="simple",
        placement_properties="shift=2",
        seed=7,
        brokers="0, 2-4",
        rack_locator="file",
        rack_locator_properties="path=/racks.json",
    )
    assert placing.placer == SimplePlacer(shift=2, seed=7)
    assert placing.fallback.seed == 7
    assert placing.brokers == frozenset({0, 2, 3, 4})
    assert isinstance(placing.locator, FileLocator)


def test_like_is_a_placement_by_another_name() -> None:
    placing = read_placing(like="orders")
    assert placing.placer == LikeTopicPlacer("orders")
    assert (placing.name, placing.like, placing.seed) == ("like-topic", "orders", None)
    named = read_placing(placement="like-topic", placement_properties="topic=orders")
    assert named.placer == placing.placer
    assert named.like == "orders"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"like": "a", "placement": "simple"}, "--like a and --placement simple: give one"),
        ({"like": "a", "placement_properties": "topic=b"}, "--like a and the property topic=b"),
        ({"seed": 1, "placement_properties": "seed=2"}, "--seed 1 and the property seed=2"),
        ({"like": "a", "seed": 1}, "like-topic knows no property seed"),
        ({"placement": "nope"}, "there is no placer 'nope': choose one of"),
        ({"placement_properties": "x"}, "--placement-properties: property 1 is not of the form"),
        ({"rack_locator_properties": "a=b"}, "--rack-locator-properties without --rack-locator"),
        ({"rack_locator": "static", "ignore_racks": True}, "--ignore-racks and --rack-locator st"),
        ({"rack_locator": "file"}, "file needs the property path"),
        ({"brokers": "1,,2"}, "--brokers 1,,2: '' is not a broker id"),
        ({"brokers": "3-1"}, "'3-1' is not a range of ids"),
        ({"brokers": "-1"}, "'-1' is not a broker id: write 0,1,4-6, say"),
    ],
)
def test_what_does_not_go_together_is_said(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidOptionError) as error:
        read_placing(**given)
    assert told in str(error.value)


def test_ids_and_pairs() -> None:
    assert broker_ids("5") == {5}
    assert broker_ids(" 1 , 7-9 ") == {1, 7, 8, 9}
    assert key_values("--config", ["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    for given, told in ((["a"], "--config a: write"), (["a=1", "a=2"], "given twice")):
        with pytest.raises(InvalidOptionError, match=told):
            key_values("--config", given)
