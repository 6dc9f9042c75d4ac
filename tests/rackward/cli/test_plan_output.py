"""Rendering of planned changes, as text of 80 columns and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from msgspec import structs

from placement_core import TopicPartition
from placement_core.cluster import Move
from placement_core.leaders import Locality
from rackward.cli.output import format_json
from rackward.cli.plan_output import PlanOutput, change_result, show_change, write_plan
from rackward.reassignment import PlannedChange
from tests.support.consoles import rendered
from tests.support.plans import PLAN
from tests.support.simulated_cluster import cluster_state

T = "orders.of-a-rather-long-name-as-they-come.in-production"
VIEW = cluster_state({T: [(0,)] * 30, "u": [(1, 3), (2, 4)]}).view
MOVES = tuple(Move(TopicPartition(T, n), (0,), (0, 2, 4)) for n in range(30))
CHANGE = PlannedChange(
    VIEW,
    (*MOVES, Move(TopicPartition("u", 0), (1, 3), (3, 1))),
    {TopicPartition(T, n): 1_500_000 for n in range(30)},
    throttle=1_000_000,
    localities=(Locality("billing", 30, 10, 30), Locality("empty", 0, 0, 0)),
)


def shown(change: PlannedChange, *, all_partitions: bool = False, width: int = 80) -> str:
    result, racks = change_result(change), change.view.racks()
    return rendered(
        lambda console: show_change(result, racks, console, all_partitions=all_partitions), width
    )


def test_a_change_fits_80_columns() -> None:
    text = shown(CHANGE)
    assert max(map(len, text.splitlines())) <= 80
    assert "31 partitions to change: 60 replicas to copy (90.0 MB), 1 preferred leader" in text
    assert "At 1.00 MB/s per broker, copying takes at least 1 min 30 s." in text
    assert "10 = 33.3 %   30 = 100.0 %" in text
    assert "... and 11 more: --all-partitions lists them" in text
    whole = shown(CHANGE, all_partitions=True)
    assert "... and" not in whole
    assert "3:b 1:a" in whole


def test_changes_without_copies_or_with_unknown_sizes() -> None:
    assert "no data is copied" in shown(replace(CHANGE, moves=CHANGE.moves[-1:]))
    unknown = replace(CHANGE, sizes={})
    assert "60 replicas to copy (an unknown size)" in " ".join(shown(unknown).split())
    assert "At 1.00 MB/s" not in shown(unknown)


def test_json_of_a_change() -> None:
    fields = json.loads(format_json("placement plan", change_result(CHANGE)))
    assert (fields["copies"], fields["bytes"], fields["leader_changes"]) == (60, 90_000_000, 1)
    assert fields["min_copy_seconds"] == 90
    assert fields["partitions"][0] == {
        "topic": T,
        "partition": 0,
        "before": [0],
        "after": [0, 2, 4],
        "leader": 0,
        "bytes": 1_500_000,
    }
    assert sum(each["replicas_after"] for each in fields["brokers"]) == 94
    assert fields["localities"][0] == {
        "name": "billing",
        "partitions": 30,
        "before": 10,
        "after": 30,
    }
    assert change_result(replace(CHANGE, sizes={})).bytes is None


def test_rack_rules_count_topics_of_the_plan_only() -> None:
    view = cluster_state({"t": [(0, 1)], "u": [(2, 3)] * 5}).view
    move = Move(TopicPartition("t", 0), (0, 1), (0, 2))
    assert PlannedChange(view, (move,), {}).rack_rule_violations() == (6, 5)
    of_t = PlannedChange(view, (move,), {}, topics=frozenset({"t"}))
    assert of_t.rack_rule_violations() == (1, 0)
    assert "as possible: 1 before, 0 after." in shown(of_t)


def test_removed_replicas_are_announced() -> None:
    move = Move(TopicPartition("u", 0), (1, 3), (3,))
    text = " ".join(shown(replace(CHANGE, moves=(move,))).split())
    assert "no data is copied, 1 replica to remove without a replacement" in text
    assert "to remove" not in shown(CHANGE)


def test_notes_are_shown_also_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (False, True):
        options = PlanOutput(as_json=as_json)
        plan = structs.replace(PLAN, partitions=())
        write_plan("placement plan", plan, VIEW, options, notes=["A note."])
    text, _, fields = capsys.readouterr().out.partition("{")
    assert "A note." in text
    assert json.loads("{" + fields)["notes"] == ["A note."]
