"""The front door to locators: by name, asked afresh, answers checked, failures named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from placement_core import InvalidOptionError
from placement_core.locators import (
    KnownBrokersOnly,
    LocatorError,
    MetadataLocator,
    RackTextError,
    StaticLocator,
    TextLocator,
    load_locator,
    locate,
)
from tests.placement_core.placers.views import cluster

VIEW = cluster({1: "a", 2: None, 10: ""}, t=((1, 2),))


@dataclass
class Answering:
    """Answers what it is told to, or raises it."""

    answer: Any = None

    def racks(self, view: object) -> Any:  # noqa: ARG002
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_metadata_says_what_the_view_says() -> None:
    assert MetadataLocator().racks(VIEW) == {1: "a", 2: None, 10: None}
    assert locate(MetadataLocator(), VIEW).racks() == {1: "a", 2: None, 10: None}


def test_a_located_view_keeps_everything_else() -> None:
    found = locate(StaticLocator({10: "z", 2: "/d/r", 1: "x"}), VIEW)
    assert [(broker.id, broker.rack) for broker in found.brokers] == [
        (1, "x"),
        (2, "/d/r"),
        (10, "z"),
    ]
    assert found.replicas == VIEW.replicas


def test_each_question_is_answered_afresh() -> None:
    mapping = {1: "x", 2: "x", 10: "x"}
    locator = StaticLocator(mapping)
    locate(locator, VIEW)
    mapping[2] = "y"
    assert locate(locator, VIEW).racks()[2] == "y"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({}, "the answer is empty; it should name the brokers 1, 2, 10"),
        ({1: "a"}, "no rack for 2, 10: add a rack"),
        (
            {1: "a", 2: "a", 10: "a", 11: "b", 9: "c"},
            "names 9, 11, and the cluster has .* 1, 2, 10",
        ),
        ({1: "a", 2: "", 10: "/"}, "the rack of 2, 10 is empty or not a text"),
        ({1: "a", 2: 7, 10: "a"}, "the rack of 2 is empty or not a text"),
        (7, "TypeError: "),
        (ValueError("no answer"), "ValueError: no answer"),
        (RackTextError("line 3"), "Answering: line 3"),
    ],
)
def test_answers_that_cannot_be_used_name_the_locator(answer: object, told: str) -> None:
    with pytest.raises(LocatorError, match=told) as error:
        locate(Answering(answer), VIEW)
    assert error.value.locator == f"{__name__}:Answering"


def test_brokers_that_are_down_can_be_let_pass() -> None:
    racks = {1: "a", 2: "a", 10: "a", 11: "b"}
    assert locate(KnownBrokersOnly(StaticLocator(racks)), VIEW).racks() == {1: "a", 2: "a", 10: "a"}
    loaded = load_locator("static", {"ignore_unknown": "true", "1": "a", "11": "b"})
    with pytest.raises(LocatorError, match="rack locator static: no rack for 2, 10"):
        locate(loaded, VIEW)


def test_locators_by_name() -> None:
    assert load_locator("metadata") == MetadataLocator()
    assert load_locator("static", {"1": "a", "2": "/d/r"}) == StaticLocator({1: "a", 2: "/d/r"})
    assert load_locator("static", {"1": "a", "ignore_unknown": "no"}) == StaticLocator({1: "a"})
    name = "placement_core.locators:TextLocator"
    assert load_locator(name, {"text": "1=a", "format": "properties"}) == TextLocator("1=a")


@pytest.mark.parametrize(
    ("name", "properties", "told"),
    [
        ("zookeeper", {}, "no rack locator 'zookeeper': choose one of metadata, static, or give"),
        ("metadata", {"a": "b"}, "metadata knows no property a: it takes none"),
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
def test_locators_that_cannot_be_had(name: str, properties: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidOptionError, match=told):
        load_locator(name, properties)
