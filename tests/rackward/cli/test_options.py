"""Parsing of shared options: placement, broker ids, key-value pairs, topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placement_core import InvalidOptionError
from placement_core.locators import MetadataLocator
from placement_core.placers import LikeTopicPlacer, RackAlternatingPlacer, SimplePlacer
from rackward.cli.options import ClusterOptions, PlacingOptions, TopicOptions
from rackward.cli.topics import parse_key_values
from rackward.rack_locators import FileLocator


def test_the_default_is_rack_alternating_with_a_random_seed() -> None:
    first, second = PlacingOptions().parse(), PlacingOptions().parse()
    assert isinstance(first.placer, RackAlternatingPlacer)
    assert first.placer.seed == first.seed
    assert first.seed != second.seed
    assert (first.brokers, first.like, first.ignore_racks) == (None, None, False)


def test_all_options() -> None:
    options = PlacingOptions(
        "file", "path=/racks.json", placement="simple", placement_properties="shift=2", seed=7
    ).parse(brokers="0, 2-4")
    assert options.placer == SimplePlacer(shift=2, seed=7)
    assert options.fallback.seed == 7
    assert options.brokers == frozenset({0, 2, 3, 4})
    assert isinstance(options.locator, FileLocator)


def test_like_is_short_for_the_placement_like_topic() -> None:
    options = PlacingOptions().parse(like="orders")
    assert options.placer == LikeTopicPlacer("orders")
    assert (options.name, options.like, options.seed) == ("like-topic", "orders", None)
    named = PlacingOptions(placement="like-topic", placement_properties="topic=orders").parse()
    assert named.placer == options.placer
    assert named.like == "orders"


def test_ignored_racks_need_no_locator() -> None:
    options = PlacingOptions("file", "path=/racks.json", ignore_racks=True).parse()
    assert isinstance(options.locator, MetadataLocator)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"like": "a", "placement": "simple"}, "--like a and --placement simple: give one"),
        ({"like": "a", "placement_properties": "topic=b"}, "--like a and the property topic=b"),
        ({"seed": 1, "placement_properties": "seed=2"}, "--seed 1 and the property seed=2"),
        ({"like": "a", "seed": 1}, "like-topic has no property seed"),
        ({"placement": "nope"}, "there is no placer 'nope': choose one of"),
        ({"placement_properties": "x"}, "--placement-properties: property 1 is not of the form"),
        (
            {"rack_locator_properties": "a=b"},
            "--rack-locator-properties without",
        ),
        ({"rack_locator": "file"}, "file needs the property path"),
        ({"brokers": "1,,2"}, "--brokers 1,,2: '' is not a broker id"),
        ({"brokers": "3-1"}, "'3-1' is not a range of broker ids"),
        ({"brokers": "-1"}, "'-1' is not a broker id: write, for example, 0,1,4-6"),
    ],
)
def test_contradicting_options_are_errors(given: dict[str, Any], message: str) -> None:
    of_topics = {name: given[name] for name in ("like", "brokers") if name in given}
    options = {name: value for name, value in given.items() if name not in of_topics}
    with pytest.raises(InvalidOptionError) as error:
        PlacingOptions(**options).parse(**of_topics)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "content",
    [b"security.protocol=SSL\x07", bytes(range(1, 256)), b"HTTP/1.1 200 OK\r\n\r\n<html>"],
)
def test_a_config_file_that_is_no_text_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "client.properties").write_bytes(content)
    options = ClusterOptions("127.0.0.1:1", tmp_path / "client.properties")
    with pytest.raises(InvalidOptionError, match=r"client.properties: it is not a properties file"):
        options.properties()


def test_no_cluster_names_all_ways_to_give_one() -> None:
    ways = (
        "--bootstrap-server .* RACKWARD_BOOTSTRAP_SERVER, .*--command-config, .* in .*config.toml$"
    )
    with pytest.raises(InvalidOptionError, match=ways):
        ClusterOptions().connect()


def test_key_value_pairs() -> None:
    pairs = ["a=1", "b=x=y", "c="]
    assert parse_key_values("--config", pairs) == {"a": "1", "b": "x=y", "c": ""}
    for given, message in (
        (["a"], "--config a: write"),
        (["a=1", "a=2"], "--config a is repeated"),
    ):
        with pytest.raises(InvalidOptionError, match=message):
            parse_key_values("--config", given)


TOPICS = ("orders", "orders-eu", "payments", "__consumer_offsets")


@pytest.mark.parametrize(
    ("topics", "exclude", "chosen"),
    [
        (None, None, TOPICS),
        ("orders", None, ("orders",)),
        ("orders*, payments", None, ("orders", "orders-eu", "payments")),
        (None, "__*", ("orders", "orders-eu", "payments")),
        ("orders*", "*-eu,absent", ("orders",)),
    ],
)
def test_topics_match_names_and_patterns(
    topics: str | None, exclude: str | None, chosen: tuple[str, ...]
) -> None:
    assert TopicOptions(topics, exclude).match(TOPICS) == set(chosen)


@pytest.mark.parametrize(
    ("topics", "exclude", "problem"),
    [
        ("order", None, "--topics order: the cluster has no such topic"),
        ("orders,x*", None, r"--topics x\*: the cluster has no such topic"),
        ("orders,,", None, "--topics 'orders,,': write names separated by"),
        ("orders", "ord*", r"--exclude ord\*: no topic is left"),
    ],
)
def test_options_that_match_no_topic_are_errors(
    topics: str, exclude: str | None, problem: str
) -> None:
    with pytest.raises(InvalidOptionError, match=problem):
        TopicOptions(topics, exclude).match(TOPICS)
