"""Rendering of planned changes, as text of 80 columns and as JSON."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from placement_core import TopicPartition
from placement_core.cluster import Move
from placement_core.leaders import Locality
from rackward.cli.render.plan import change_json, show_change
from rackward.reassignment import PlannedChange
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


def shown(change: PlannedChange, *, every_partition: bool = False, width: int = 80) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    show_change(change, console, every_partition=every_partition)
    return file.getvalue()


def test_a_change_fits_80_columns() -> None:
    text = shown(CHANGE)
    assert max(map(len, text.splitlines())) <= 80
    assert "31 partitions to change: 60 replicas to copy (90.0 MB), 1 preferred leader" in text
    assert "At 1.00 MB/s per broker, copying takes at least 1 min 30 s." in text
    assert "10 = 33.3 %   30 = 100.0 %" in text
    assert "... and 11 more: --every-partition lists them" in text
    whole = shown(CHANGE, every_partition=True)
    assert "... and" not in whole
    assert "3:b 1:a" in whole


def test_changes_without_copies_or_with_unknown_sizes() -> None:
    assert "no data is copied" in shown(replace(CHANGE, moves=CHANGE.moves[-1:]))
    unknown = replace(CHANGE, sizes={})
    assert "60 replicas to copy (an unknown size)" in " ".join(shown(unknown).split())
    assert "At 1.00 MB/s" not in shown(unknown)


def test_json_of_a_change() -> None:
    fields = change_json(CHANGE)
    assert (fields["copies"], fields["bytes"], fields["leader_changes"]) == (60, 90_000_000, 1)
    assert fields["min_copy_seconds"] == 90
    assert fields["partitions"][0] == {
        "topic": T,
        "partition": 0,
        "before": [0],
        "after": [0, 2, 4],
        "bytes": 1_500_000,
    }
    assert sum(each["replicas_after"] for each in fields["brokers"]) == 94
    assert fields["localities"][0] == {
        "readers": "billing",
        "partitions": 30,
        "before": 10,
        "after": 30,
    }
    assert change_json(replace(CHANGE, sizes={}))["bytes"] is None
