"""The JSON says what its documentation says."""

from __future__ import annotations

import json
import re

from rackward.demo.report_json import SCHEMA, to_json
from rackward.demo.story import told
from tests.demo.results import result


def keys_of(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in keys_of(inner)}
    if isinstance(value, list):
        return {key for inner in value for key in keys_of(inner)}
    return set()


def test_every_key_is_documented_and_every_documented_key_is_there() -> None:
    data = {"a", "b", "c", "m-a", "m-b", "m-c"}
    documented = set(re.findall(r'"(\w+)":', SCHEMA))
    assert keys_of(json.loads(to_json(result()))) - data == documented


def test_figures_are_those_of_the_result() -> None:
    document = json.loads(to_json(result()))
    assert document["bytes_counted_by"] == "brokers"
    assert document["at_optimum"] is True
    assert document["left_out"] == []
    theirs, *_, ours = document["strategies"]
    assert ours["key"] == "our-sticky"
    assert ours["local_share"] == 1.0
    assert theirs["bytes"]["a"]["b"] == 6 * 300_000
    assert theirs["price_per_month"] == 18.92
    assert [step["key"] for step in ours["steps"]] == [
        "start",
        "leaders-move",
        "member-leaves",
        "member-joins",
        "broker-dies",
        "broker-returns",
    ]


def test_an_estimate_says_so() -> None:
    document = json.loads(to_json(result(told(own_cluster=False), counted=False)))
    assert document["bytes_counted_by"] == "estimate"
    assert document["left_out"] == ["leaders-move", "broker-dies", "broker-returns"]
