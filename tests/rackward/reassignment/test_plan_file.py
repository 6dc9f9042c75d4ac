"""Plan files: writing, strict parsing, and reading kafka-reassign-partitions JSON."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rackward.reassignment import Plan, PlanFileError, PlanKind
from rackward.reassignment.plan import bytes_to_copy, count_copies, count_leader_changes
from rackward.reassignment.plan_file import (
    format_plan,
    load_kafka_json,
    load_plan,
    parse_plan,
    read_text,
    write_text,
)
from tests.support.plans import LEADERS, PLAN, tp

EMPTY = replace(PLAN, moves=(), topic_ids={}, leaders={}, sizes={})


@pytest.mark.parametrize("plan", [PLAN, LEADERS, EMPTY], ids=["placement", "leaders", "empty"])
def test_a_plan_is_read_as_it_was_written(plan: Plan) -> None:
    text = format_plan(plan)
    assert parse_plan("plan.json", text) == plan
    assert format_plan(parse_plan("plan.json", text)) == text


def test_a_plan_is_json_with_a_line_per_partition_in_order() -> None:
    text = format_plan(replace(PLAN, moves=PLAN.moves[::-1]))
    assert text == format_plan(PLAN)
    assert json.loads(text)["partitions"][1] == {
        "topic": "orders",
        "partition": 0,
        "before": [1],
        "after": [1, 2, 3],
        "leader": 1,
        "bytes": 1000,
    }
    lines = [line for line in text.splitlines() if '"partition":' in line]
    assert [re.findall(r'"partition": (\d+)', line) for line in lines] == [
        ["0"],
        ["0"],
        ["1"],
        ["10"],
    ]


def test_expected_figures_are_those_of_the_moves() -> None:
    expected = json.loads(format_plan(PLAN))["expected"]
    # The partition of unknown size only changes its order.
    assert expected == {"copies": 3, "bytes": 2 * 1000 + 70, "leader_changes": 2}
    assert count_copies(PLAN.moves) == 3
    assert count_leader_changes(PLAN.moves) == 2
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
        ("rackward_plan", 2, "rackward_plan is 2, and this rackward reads version 1"),
        ("rackward_plan", True, "rackward_plan is true, and this rackward reads version 1"),
        ("rackward_plan", REMOVE, "is not a plan of rackward"),
        ("kind", "both", 'kind is "both": expected one of placement, leaders'),
        ("rack_source", 3, "rack_source is 3: expected one of metadata, locator, ignored"),
        ("cluster_id", "", 'cluster_id is "": expected a string of length >= 1'),
        ("cluster_id", REMOVE, "cluster_id is missing"),
        ("created_at", 3, "created_at is 3: expected a string"),
        ("options", [], "options is []: expected an object"),
        ("surplus", 1, "surplus is not a field of a plan: remove or correct it"),
        ("limits.throttle", 0, "limits.throttle is 0: expected an integer >= 1"),
        ("limits.partitions", True, "limits.partitions is true: expected an integer or null"),
        ("limits.spare", None, "limits.spare is not a field of a plan"),
        ("expected.copies", -1, "expected.copies is -1: expected an integer >= 0"),
        ("brokers.1.broker", 1, "brokers[1].broker is 1 again"),
        ("brokers.1.broker", "2", 'brokers[1].broker is "2": expected an integer'),
        ("brokers.1.rack", 7, "brokers[1].rack is 7: expected a string or null"),
        ("brokers.1.live", "yes", 'brokers[1].live is "yes": expected true or false'),
        ("brokers.1.live", False, "partitions[0].after has broker 2, which is not a live broker"),
        ("brokers.0.replicas", [1], "brokers[0].replicas is [1]: expected a list of length 2"),
        ("brokers.0", 5, "brokers[0] is 5: expected an object"),
        ("topics.1.topic", "größen", "topics[1].topic is größen again"),
        ("topics.1.topic", "other", "partitions[1].topic is orders, which is not in topics"),
        ("partitions", {}, "partitions is {}: expected a list"),
        (
            "partitions.1.after",
            [1, 2, 1],
            "partitions[1].after is [1, 2, 1]: a broker is repeated",
        ),
        ("partitions.1.after", [1, 77], "partitions[1].after has broker 77"),
        ("partitions.1.after", [1, 9], "partitions[1].after has broker 9"),
        ("partitions.1.after", [1, -2], "partitions[1].after[1] is -2: expected an integer >= 0"),
        ("partitions.1.after", [1, 2.0], "partitions[1].after[1] is 2.0: expected an integer"),
        ("partitions.1.after", [], "partitions[1].after is []: expected a list of length >= 1"),
        ("partitions.1.after", REMOVE, "partitions[1].after is missing"),
        ("partitions.1.before", None, "partitions[1].before is null: expected a list"),
        ("partitions.1.partition", 1.5, "partitions[1].partition is 1.5: expected an integer"),
        ("partitions.2.partition", 0, "partitions[2].partition is orders-0 again"),
        ("partitions.2.leader", "x", 'partitions[2].leader is "x": expected an integer or null'),
        ("partitions.2.afer", [1], "partitions[2].afer is not a field of a plan"),
        ("localities.0.after", None, "localities[0].after is null: expected an integer"),
    ],
)
def test_an_invalid_field_is_an_error_with_the_file_and_the_path(
    field: str, value: object, message: str
) -> None:
    with pytest.raises(PlanFileError, match=r"^plan\.json") as raised:
        parse_plan("plan.json", edited(put(field, value)))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_plan_of_leaders_keeps_the_brokers() -> None:
    with pytest.raises(PlanFileError, match=r"partitions\[0\]\.after is \[2, 3\]: a plan of lead"):
        parse_plan("p", edited(put("partitions.0.after", [2, 3]), LEADERS))


def test_partitions_may_be_removed_from_a_plan() -> None:
    plan = parse_plan("p", edited(lambda document: document["partitions"].pop(0)))
    assert [move.partition.topic for move in plan.moves] == ["orders"] * 3
    # The id of a topic without partitions in the plan does not matter any more.
    assert set(plan.topic_ids) == {"orders"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p is empty"),
        ("[1]", "p is [1]: expected an object"),
        ("{,}", "p is not JSON: "),
        ('{"rackward_plan": 1, "rackward_plan": 1}', "the field rackward_plan is repeated"),
        ('{"rackward_plan": NaN}', "NaN is not a number"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "a number that is too long"),
        ('{"version": 1, "partitions": []}', "--reassignment-json-file"),
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
    for length in (200, text.index("billing") + 2):
        with pytest.raises(PlanFileError, match="it is truncated"):
            parse_plan("p", text[:length])


def test_files_are_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("an older plan")
    write_text(str(path), format_plan(PLAN))
    assert load_plan(str(path), PlanKind.PLACEMENT) == PLAN
    assert list(tmp_path.iterdir()) == [path]
    for verb in ("apply", "cancel"):
        with pytest.raises(
            PlanFileError, match=f"of kind placement: use rackward placement {verb}"
        ):
            load_plan(str(path), PlanKind.LEADERS, verb)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(PlanFileError, match=r"absent\.json cannot be read: No such file"):
        read_text(str(tmp_path / "absent.json"))
    with pytest.raises(PlanFileError, match=r"deep.plan\.json cannot be written: No such file"):
        write_text(str(tmp_path / "deep" / "plan.json"), "x")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanFileError, match="binary is not UTF-8"):
        read_text(str(tmp_path / "binary"))


def test_kafka_json_is_read(tmp_path: Path) -> None:
    path = tmp_path / "target.json"
    row = {"topic": "orders", "partition": 0, "replicas": [1, 2]}
    path.write_text(json.dumps({"version": 1, "partitions": [row]}))
    assert load_kafka_json(str(path)) == {tp(0): (1, 2)}


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
