"""Loading and applying locators, validation of their results, and parsing of rack texts."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placement_core import InvalidOptionError
from placement_core.errors import LocatorError, RackParseError
from placement_core.locators import (
    KnownBrokersOnly,
    MetadataLocator,
    StaticLocator,
    apply_locator,
    load_locator,
    parse_racks,
)
from tests.support.placement import cluster

VIEW = cluster({1: "a", 2: None, 10: ""}, t=((1, 2),))


@dataclass
class FixedLocator:
    """Returns ``result``, or raises it if it is an exception."""

    result: Any = None

    def racks(self, view: object) -> Any:  # noqa: ARG002
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def test_the_metadata_locator_returns_the_racks_of_the_view() -> None:
    assert MetadataLocator().racks(VIEW) == {1: "a", 2: None, 10: None}
    assert apply_locator(MetadataLocator(), VIEW).racks() == {1: "a", 2: None, 10: None}


def test_a_locator_changes_only_racks() -> None:
    view = apply_locator(StaticLocator({10: "z", 2: "/d/r", 1: "x"}), VIEW)
    assert [(broker.id, broker.rack) for broker in view.brokers] == [
        (1, "x"),
        (2, "/d/r"),
        (10, "z"),
    ]
    assert view.replicas == VIEW.replicas


def test_results_are_not_cached() -> None:
    mapping = {1: "x", 2: "x", 10: "x"}
    locator = StaticLocator(mapping)
    apply_locator(locator, VIEW)
    mapping[2] = "y"
    assert apply_locator(locator, VIEW).racks()[2] == "y"


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({}, "the result is empty: return a rack for each of the brokers 1, 2, 10"),
        ({1: "a"}, "no rack for 2, 10: add a rack"),
        (
            {1: "a", 2: "a", 10: "a", 11: "b", 9: "c"},
            "names 9, 11, but the cluster has .* 1, 2, 10",
        ),
        ({1: "a", 2: "", 10: "/"}, "the rack of 2, 10 is empty or not a string"),
        ({1: "a", 2: 7, 10: "a"}, "the rack of 2 is empty or not a string"),
        (7, "TypeError: "),
        (ValueError("no result"), "ValueError: no result"),
        (RackParseError("line 3"), "FixedLocator: line 3"),
    ],
)
def test_an_invalid_result_names_the_locator(result: object, message: str) -> None:
    with pytest.raises(LocatorError, match=message) as error:
        apply_locator(FixedLocator(result), VIEW)
    assert error.value.locator == f"{__name__}:FixedLocator"


def test_racks_of_unknown_brokers_can_be_ignored() -> None:
    racks = {1: "a", 2: "a", 10: "a", 11: "b"}
    assert apply_locator(KnownBrokersOnly(StaticLocator(racks)), VIEW).racks() == {
        1: "a",
        2: "a",
        10: "a",
    }
    known = cluster({1: "a", 2: "b"})
    assert apply_locator(KnownBrokersOnly(MetadataLocator()), known) == known
    loaded = load_locator("static", {"ignore_unknown": "true", "1": "a", "11": "b"})
    with pytest.raises(LocatorError, match="rack locator static: no rack for 2, 10"):
        apply_locator(loaded, VIEW)


def test_locators_by_name() -> None:
    assert load_locator("metadata") == MetadataLocator()
    assert load_locator("static", {"1": "a", "2": "/d/r"}) == StaticLocator({1: "a", 2: "/d/r"})
    assert load_locator("static", {"1": "a", "ignore_unknown": "no"}) == StaticLocator({1: "a"})
    name = "placement_core.locators:StaticLocator"
    assert load_locator(name, {"1": "a"}) == StaticLocator({1: "a"})


@pytest.mark.parametrize(
    ("name", "properties", "message"),
    [
        ("zookeeper", {}, "no rack locator 'zookeeper': choose one of metadata, static, or give"),
        ("metadata", {"a": "b"}, "metadata has no property a: it accepts none"),
        ("static", {"a": "b"}, "'static' cannot be made .* 'a' is not a broker id"),
        ("static", {"1": ""}, "broker 1 has an empty rack"),
        (
            "static",
            {"1": "a", "ignore_unknown": "maybe"},
            "ignore_unknown cannot be read: write tr",
        ),
        ("placement_core.placers:SimplePlacer", {}, "has no method racks"),
    ],
)
def test_locators_that_cannot_be_loaded(
    name: str, properties: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        load_locator(name, properties)


RACKS = {0: "rack1", 12: "/dc1/r2", 3: "use1-az1"}


@pytest.mark.parametrize(
    "text",
    [
        "# racks\n! too\n\n0=rack1\n  12 : /dc1/r2  \n3\tuse1-az1\n",
        ' {"0": "rack1", "12": "/dc1/r2", "3": "use1-az1"}',
        "# racks\n0: rack1\n'12': \"/dc1/r2\"\n3: 'use1-az1'\n",
    ],
    ids=["lines", "JSON", "a mapping in YAML"],
)
def test_lines_and_json(text: str) -> None:
    assert parse_racks(text) == RACKS


@pytest.mark.parametrize("text", ["", "# none\n", "{}"])
def test_empty_mappings(text: str) -> None:
    assert parse_racks(text) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0=a\n=b", "line 2, '=b', is not of the form id=rack"),
        ("broker", "line 1, 'broker'"),
        ("0=a\n0=b", "broker 0 is named twice"),
        ("0=", "broker 0 has an empty rack, ''"),
        ("x=a", "'x' is not a broker id: write a whole number"),
        ("-1=a", "'-1' is not a broker id"),
        ("१=a", "is not a broker id"),
        ("0: a # the first", "write the comment above it"),
        ("- a", "'-' is not a broker id"),
        ("[1]", r"'\[1\]', is not of the form id=rack"),
        ("{", "this is not JSON: "),
        ("{0: a}", "this is not JSON: "),
        ('{"0": "a", "0": "b"}', "broker 0 is named twice"),
        ('{"0": "a", "00": "b"}', "broker 0 is named twice"),
        ('{"0": 7}', "the rack of broker 0 is 7: write a string"),
        ('{"0": null}', "the rack of broker 0 is None"),
        ('{"0": ["a"]}', "the rack of broker 0 is"),
        ('{"1": "/"}', "broker 1 has an empty rack, '/'"),
        ('{"0": "a", "' + "x" * 99 + '": "b"}', r"'x{39}\.\.\. is not a broker id"),
    ],
)
def test_invalid_texts_are_rejected(text: str, message: str) -> None:
    with pytest.raises(RackParseError, match=message):
        parse_racks(text)


@given(st.text() | st.dictionaries(st.text(max_size=3), st.text(max_size=3)).map(json.dumps))
@example('{"0\\u001c": "a"}')
def test_any_text_gives_racks_or_a_parse_error(text: str) -> None:
    with suppress(RackParseError):
        racks = parse_racks(text)
        assert all(isinstance(broker, int) and rack for broker, rack in racks.items())
