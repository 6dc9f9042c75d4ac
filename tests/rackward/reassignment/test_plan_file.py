from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rackward.reassignment import PlanFileError, from_text, to_text
from rackward.reassignment.plan_file import read_text, write_text
from tests.support.plans import LEADERS, PLAN


@pytest.mark.parametrize("plan", [PLAN, LEADERS, replace(PLAN, moves=(), topic_ids={})])
def test_a_plan_is_read_as_it_was_written(plan: Any) -> None:
    text = to_text(plan)
    assert from_text("plan.json", text) == plan
    assert to_text(from_text("plan.json", text)) == text


def test_a_plan_is_json_with_a_line_per_partition_in_order() -> None:
    shuffled = replace(PLAN, moves=PLAN.moves[::-1])
    text = to_text(shuffled)
    assert text == to_text(PLAN)
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


def test_figures_are_of_what_is_carried_out() -> None:
    assert (PLAN.copies, PLAN.leader_changes) == (3, 2)
    # The partition of unknown size only changes its order.
    assert PLAN.bytes_to_copy == 2 * 1000 + 70
    assert replace(PLAN, moves=(replace(PLAN.moves[1], bytes=None),)).bytes_to_copy is None


def edited(change: Callable[[dict[str, Any]], object], plan: Any = PLAN) -> str:
    found = json.loads(to_text(plan))
    change(found)
    return json.dumps(found)


def put(path: str, value: object) -> Callable[[dict[str, Any]], object]:
    """A change of one field, such as ``partitions.0.after``."""

    def change(found: Any) -> None:
        *above, last = path.split(".")
        for name in above:
            found = found[int(name) if isinstance(found, list) else name]
        if value is DROP:
            del found[last]
        else:
            found[int(last) if isinstance(found, list) else last] = value

    return change


DROP = object()

FAULTS: list[tuple[str, object, str]] = [
    ("rackward_plan", 2, "rackward_plan is 2, and only version 1"),
    ("rackward_plan", True, "rackward_plan is true, and only version 1"),
    ("rackward_plan", DROP, "no plan of rackward's"),
    ("kind", "both", 'kind is "both": one of placement, leaders'),
    ("cluster", "", 'cluster is "": a text or null'),
    ("cluster", DROP, "cluster is missing"),
    ("made", 3, "made is 3: a text"),
    ("asked", [], "asked is []: an object"),
    ("surplus", 1, "surplus is not known"),
    ("pace.throttle", 0, "pace.throttle is 0: a whole number from 1, or null"),
    ("pace.partitions", True, "pace.partitions is true"),
    ("pace.spare", None, "pace.spare is not known"),
    ("expected.copies", -1, "expected.copies is -1"),
    ("brokers.1.broker", 1, "brokers[1].broker is 1 again"),
    ("brokers.1.broker", "2", 'brokers[1].broker is "2": a whole number'),
    ("brokers.1.rack", 7, "brokers[1].rack is 7"),
    ("brokers.1.live", "yes", 'brokers[1].live is "yes": true or false'),
    ("brokers.1.live", False, "partitions[0].after names broker 2, which brokers does not list"),
    ("brokers.0.replicas", [1], "brokers[0].replicas is [1]: a pair"),
    ("brokers.0", 5, "brokers[0] is 5: an object"),
    ("topics.1.topic", "größen", "topics[1].topic is größen again"),
    ("topics.1.topic", "other", "partitions[1].topic is orders, which topics does not list"),
    ("partitions", {}, "partitions is {}: a list"),
    ("partitions.1.after", [1, 2, 1], "partitions[1].after names a broker twice: [1, 2, 1]"),
    ("partitions.1.after", [1, 77], "partitions[1].after names broker 77"),
    ("partitions.1.after", [1, 9], "partitions[1].after names broker 9"),
    ("partitions.1.after", [1, -2], "partitions[1].after is [1, -2]: a list of broker ids"),
    ("partitions.1.after", [1, 2.0], "partitions[1].after is [1, 2.0]: a list of broker ids"),
    ("partitions.1.after", [], "partitions[1].after is []: a list of broker ids"),
    ("partitions.1.after", DROP, "partitions[1].after is missing"),
    ("partitions.1.before", None, "partitions[1].before is null"),
    ("partitions.1.partition", 1.5, "partitions[1].partition is 1.5"),
    ("partitions.2.partition", 0, "partitions[2].partition is orders-0 again"),
    ("partitions.2.leader", "x", 'partitions[2].leader is "x"'),
    ("partitions.2.afer", [1], "partitions[2].afer is not known"),
    ("localities.0.after", None, "localities[0].after is null"),
]


@pytest.mark.parametrize(("field", "value", "problem"), FAULTS)
def test_an_edited_plan_is_refused_with_the_file_and_the_field(
    field: str, value: object, problem: str
) -> None:
    with pytest.raises(PlanFileError, match=r"^plan\.json") as caught:
        from_text("plan.json", edited(put(field, value)))
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plan_of_leaders_keeps_the_brokers() -> None:
    with pytest.raises(PlanFileError, match=r"partitions\[0\]\.after is \[2, 3\], and a plan of"):
        from_text("p", edited(put("partitions.0.after", [2, 3]), LEADERS))


def test_lines_may_be_taken_out_of_a_plan() -> None:
    found = from_text("p", edited(lambda plan: plan["partitions"].pop(0)))
    assert [each.move.partition.topic for each in found.moves] == ["orders"] * 3
    # A topic without lines left is no concern of the plan's any more.
    assert set(found.topic_ids) == {"orders"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "p is empty"),
        ("[1]", "p: the plan is [1]: an object is needed"),
        ("{,}", "p is not JSON: "),
        ('{"rackward_plan": 1, "rackward_plan": 1}', "the field rackward_plan comes twice"),
        ('{"rackward_plan": NaN}', "NaN is no number"),
        ("[" * 100_000, "nested too deeply"),
        ('{"version": 1, "partitions": []}', "--reassignment-json-file"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, problem: str) -> None:
    with pytest.raises(PlanFileError) as caught:
        from_text("p", text)
    assert problem in str(caught.value)


def test_every_truncation_is_refused() -> None:
    text = to_text(PLAN)
    for length in range(len(text.rstrip())):
        with pytest.raises(PlanFileError, match=r"^p"):
            from_text("p", text[:length])
    with pytest.raises(PlanFileError, match="it was cut off"):
        from_text("p", text[:200])


def test_files_are_written_whole_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("an older plan")
    write_text(path, to_text(PLAN))
    assert from_text(str(path), read_text(str(path))) == PLAN
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(PlanFileError, match=r"absent\.json cannot be read: No such file"):
        read_text(str(tmp_path / "absent.json"))
    with pytest.raises(PlanFileError, match=r"deep.plan\.json cannot be written: No such file"):
        write_text(tmp_path / "deep" / "plan.json", "x")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanFileError, match="binary is not UTF-8"):
        read_text(str(tmp_path / "binary"))
