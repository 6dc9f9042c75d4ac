"""Racks out of text."""

from __future__ import annotations

import importlib
import json
import sys
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placement_core import ClusterView, InvalidOptionError
from placement_core.locators import RackTextError, TextFormat, TextLocator, parse_racks

RACKS = {0: "rack1", 12: "/dc1/r2", 3: "use1-az1"}
TEXTS: dict[TextFormat, str] = {
    "properties": "# racks\n! too\n\n0=rack1\n  12 : /dc1/r2  \n3\tuse1-az1\n",
    "json": '{"0": "rack1", "12": "/dc1/r2", "3": "use1-az1"}',
    "yaml": "# racks\n0: rack1\n'12': /dc1/r2\n3: use1-az1\n",
}


@pytest.fixture(autouse=True)
def _pyyaml() -> None:
    importlib.import_module("yaml")


@pytest.mark.parametrize("form", TEXTS)
def test_one_mapping_in_each_format(form: TextFormat) -> None:
    assert parse_racks(TEXTS[form], form) == RACKS
    assert TextLocator(TEXTS[form], form).racks(ClusterView(())) == RACKS


def test_yaml_racks_are_the_text_that_was_written() -> None:
    assert parse_racks('0: 01\n1: no\n2: 1.50\n3: "a b"', "yaml") == {
        0: "01",
        1: "no",
        2: "1.50",
        3: "a b",
    }


@pytest.mark.parametrize(
    ("form", "text"),
    [("properties", "# none\n"), ("json", "{}"), ("yaml", ""), ("yaml", "{}"), ("yaml", "# none")],
)
def test_no_racks_at_all(form: TextFormat, text: str) -> None:
    assert parse_racks(text, form) == {}


@pytest.mark.parametrize(
    ("form", "text", "told"),
    [
        ("properties", "0=a\n=b", "line 2, '=b', is not of the form id=rack"),
        ("properties", "broker", "line 1, 'broker'"),
        ("properties", "0=a\n0=b", "broker 0 is named twice"),
        ("properties", "0=", "broker 0 has an empty rack, ''"),
        ("properties", "x=a", "'x' is not a broker id: write a whole number"),
        ("properties", "-1=a", "'-1' is not a broker id"),
        ("properties", "१=a", "is not a broker id"),
        ("json", "{", "this is not JSON: "),
        ("json", "[1]", "the JSON is not an object"),
        ("json", '[["0", "a"]]', "the JSON is not an object"),
        ("json", '{"0": "a", "0": "b"}', "broker 0 is named twice"),
        ("json", '{"0": "a", "00": "b"}', "broker 0 is named twice"),
        ("json", '{"0": 7}', "the rack of broker 0 is 7: write a text"),
        ("json", '{"0": null}', "the rack of broker 0 is None"),
        ("json", '{"0": ["a"]}', "the rack of broker 0 is"),
        ("json", '{"1": "/"}', "broker 1 has an empty rack, '/'"),
        ("json", '{"0": "a", "' + "x" * 99 + '": "b"}', r"'x{39}\.\.\. is not a broker id"),
        ("yaml", "- a", "the YAML is not a mapping"),
        ("yaml", "{", "this is not YAML: while parsing"),
        ("yaml", "0: a\n0: b", "broker 0 is named twice"),
        ("yaml", "0:", "the rack of broker 0 is None"),
        ("yaml", "0: [a]", "the rack of broker 0 is"),
        ("yaml", "a: 0", "'a' is not a broker id"),
        ("yaml", "[0]: a", "is not a broker id"),
    ],
)
def test_texts_that_cannot_be_taken_at_their_word(form: TextFormat, text: str, told: str) -> None:
    with pytest.raises(RackTextError, match=told):
        parse_racks(text, form)


@given(st.text() | st.dictionaries(st.text(max_size=3), st.text(max_size=3)).map(json.dumps))
@example('{"0\\u001c": "a"}')
def test_any_text_is_racks_or_one_error(text: str) -> None:
    for form in TEXTS:
        with suppress(RackTextError):
            racks = parse_racks(text, form)
            assert all(isinstance(broker, int) and rack for broker, rack in racks.items())


def test_yaml_without_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(RackTextError, match=r"pip install 'rackward\[yaml\]'"):
        parse_racks(TEXTS["yaml"], "yaml")


def test_unknown_format() -> None:
    with pytest.raises(InvalidOptionError, match="no format 'xml': choose one of properties, json"):
        TextLocator("", "xml")  # type: ignore[arg-type]
