"""Plan files and the JSON of kafka-reassign-partitions: writing, and strict reading."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from placement_core import TopicPartition
from rackward.config_files import ConfigError
from rackward.reassignment import Plan, PlanFileError, PlanKind
from rackward.reassignment.plan import (
    bytes_to_copy,
    format_plan,
    load_kafka_json,
    load_plan,
    parse_kafka_json,
    parse_plan,
    to_kafka_json,
    write_text,
)
from tests.support.plans import LEADERS, PLAN, tp

EMPTY = replace(PLAN, partitions=(), topic_ids={})


@pytest.mark.parametrize("plan", [PLAN, LEADERS, EMPTY], ids=["placement", "leaders", "empty"])
def test_a_plan_is_read_as_it_was_written(plan: Plan) -> None:
    text = format_plan(plan)
    assert parse_plan("plan.json", text) == plan
    assert format_plan(parse_plan("plan.json", text)) == text


def test_a_plan_is_json_with_a_line_per_partition() -> None:
    text = format_plan(PLAN)
    row = {"topic": "orders", "partition": 0, "before": [1], "after": [1, 2, 3]}
    assert json.loads(text)["partitions"][1] == {**row, "leader": 1, "bytes": 1000}
    lines = [line for line in text.splitlines() if '"partition":' in line]
    assert [json.loads(line.strip("],"))["partition"] for line in lines] == [0, 0, 1, 10]


def test_cost_of_moves() -> None:
    # The partition of unknown size only changes its order.
    assert bytes_to_copy(PLAN.moves, PLAN.sizes) == 2 * 1000 + 70
    assert bytes_to_copy(PLAN.moves, {tp(1): 70}) is None


def edited(change: Callable[[dict[str, Any]], object], plan: Plan = PLAN) -> str:
    document = json.loads(format_plan(plan))
    change(document)
    return json.dumps(document)


REMOVE = object()


def put(path: str, value: object) -> Callable[[dict[str, Any]], object]:
    """Return a change of one field, such as ``partitions.0.after``."""

    def change(document: Any) -> None:
        *parents, last = path.split(".")
        for name in parents:
            document = document[int(name) if isinstance(document, list) else name]
        if value is REMOVE:
            del document[last]
        else:
            document[int(last) if isinstance(document, list) else last] = value

    return change


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("rackward_plan", 2, "`$.rackward_plan`"),
        ("rackward_plan", REMOVE, "is not a plan of rackward"),
        ("cluster_id", REMOVE, "missing required field `cluster_id`"),
        ("surplus", 1, "unknown field `surplus`"),
        ("limits.throttle", 0, "`int` >= 1 - at `$.limits.throttle`"),
        ("racks.2", REMOVE, "größen-0 is to be on broker 2, which is not in racks"),
        ("topic_ids.orders", REMOVE, "orders-0 is of a topic that is not in topic_ids"),
        ("partitions.1.after", [1, 2, 1], "orders-0 has a broker twice: [1, 2, 1]"),
        ("partitions.1.before", [1, 1], "orders-0 has a broker twice: [1, 1]"),
        ("partitions.1.after", [1, 77], "orders-0 is to be on broker 77"),
        ("partitions.1.after", [1, 2.5], "`$.partitions[1].after[1]`"),
        ("partitions.1.after", [], "`$.partitions[1].after`"),
        ("partitions.2.partition", 0, "orders-0 is given twice: remove one of the two"),
        ("partitions.2.afer", [1], "unknown field `afer` - at `$.partitions[2]`"),
    ],
)
def test_an_invalid_field_is_named(field: str, value: object, message: str) -> None:
    with pytest.raises(PlanFileError, match=r"^plan\.json") as raised:
        parse_plan("plan.json", edited(put(field, value)))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_plan_of_leaders_keeps_the_brokers() -> None:
    with pytest.raises(PlanFileError, match=r"orders-0 is to be on \[2, 3\]: a plan of leaders"):
        parse_plan("p", edited(put("partitions.0.after", [2, 3]), LEADERS))


def test_partitions_may_be_removed_from_a_plan() -> None:
    plan = parse_plan("p", edited(lambda document: document["partitions"].pop(0)))
    assert [move.partition.topic for move in plan.moves] == ["orders"] * 3
    # The id of a topic without partitions in the plan does not matter any more.
    assert set(plan.topic_ids) == {"orders"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p is not a plan of rackward"),
        ("[1]", "p is not a plan of rackward"),
        ('{"version": 1, "partitions": []}', "--reassignment-json-file"),
        ('{"rackward_plan",}', "p is not valid: JSON is malformed"),
        ('{"rackward_plan": NaN}', "JSON is malformed"),
        ('{"rackward_plan": ' + "[" * 100_000, "p is not valid"),
        ('{"rackward_plan": ' + "9" * 5000 + "}", "p is not valid"),
    ],
)
def test_other_text_is_an_error(text: str, message: str) -> None:
    with pytest.raises(PlanFileError) as raised:
        parse_plan("p", text)
    assert message in str(raised.value)


def test_every_truncation_is_an_error() -> None:
    text = format_plan(PLAN)
    for length in range(len(text.rstrip())):
        with pytest.raises(PlanFileError, match=r"^p"):
            parse_plan("p", text[:length])


def test_files_are_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("an older plan")
    write_text(str(path), format_plan(PLAN))
    assert load_plan(str(path), PlanKind.PLACEMENT) == PLAN
    assert list(tmp_path.iterdir()) == [path]
    for verb in ("apply", "cancel"):
        with pytest.raises(PlanFileError, match=f"use rackward placement {verb}"):
            load_plan(str(path), PlanKind.LEADERS, verb)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.json cannot be read: No such file"):
        load_kafka_json(str(tmp_path / "absent.json"))
    with pytest.raises(PlanFileError, match=r"deep.plan\.json cannot be written: No such file"):
        write_text(str(tmp_path / "deep" / "plan.json"), "x")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="binary cannot be read: it is not UTF-8"):
        load_kafka_json(str(tmp_path / "binary"))


# The JSON of kafka-reassign-partitions.

LAYOUTS = st.dictionaries(
    st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 1 << 31)),
    st.lists(st.integers(0, 1 << 31), min_size=1, max_size=5, unique=True).map(tuple),
    max_size=10,
)


@given(LAYOUTS)
def test_kafka_json_round_trip(layout: dict[TopicPartition, tuple[int, ...]]) -> None:
    text = to_kafka_json(layout)
    assert parse_kafka_json("k", text) == layout
    assert list(parse_kafka_json("k", text)) == sorted(layout)
    assert json.loads(text)["version"] == 1


def test_output_of_kafka_reassign_partitions_is_read(tmp_path: Path) -> None:
    path = tmp_path / "target.json"
    path.write_text(
        '{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[3,1],'
        '"log_dirs":["any","any"]},{"topic":"orders","partition":0,"replicas":[1]}]}'
    )
    assert load_kafka_json(str(path)) == {tp(1): (3, 1), tp(0): (1,)}


ROW = {"topic": "orders", "partition": 0, "replicas": [1]}


def kafka_json(**changes: object) -> str:
    row = {"topic": "t", "partition": 0, "replicas": [1, 2], **changes}
    return json.dumps({"version": 1, "partitions": [row]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "k is not valid"),
        ("[" * 100_000, "k is not valid"),
        ('{"version": 2, "partitions": []}', "`$.version`"),
        ('{"version": 1, "partitions": [], "x": 1}', "unknown field `x`"),
        (kafka_json(replica=[1]), "unknown field `replica` - at `$.partitions[0]`"),
        (kafka_json(replicas=[]), "`$.partitions[0].replicas`"),
        (kafka_json(replicas=[1, 1]), "t-0 has a broker twice: [1, 1]"),
        (kafka_json(log_dirs=["any", "/data"]), "`$.partitions[0].log_dirs[1]`"),
        (json.dumps({"version": 1, "partitions": [ROW, ROW]}), "orders-0 is given twice"),
    ],
)
def test_invalid_kafka_json_is_an_error(text: str, message: str) -> None:
    with pytest.raises(PlanFileError) as raised:
        parse_kafka_json("k", text)
    assert message in str(raised.value)


def test_a_plan_in_place_of_kafka_json_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(format_plan(PLAN))
    with pytest.raises(PlanFileError, match="is a plan of rackward: give it without"):
        load_kafka_json(str(path))
    # Standard input can be read only once.
    stdin = io.TextIOWrapper(io.BytesIO(format_plan(PLAN).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(PlanFileError, match=r"^standard input is a plan of rackward"):
        load_kafka_json("-")
