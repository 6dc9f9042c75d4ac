"""The comparison in the end-to-end test detects errors of the pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.traffic_frames import Figures, counted, per_pair, unknown_bytes


def row(group: str, one: str | None, other: str | None, count: int, kind: str = "consume") -> Any:
    return {"kind": kind, "group": group, "from_rack": one, "to_rack": other, "bytes": count}


def figures(hourly: list[Any]) -> Figures:
    racks = {0: "a", 1: "b", 2: "b"}
    before = {("a", 0): 5, ("b", 0): 0, ("a", 1): 0, ("b", 1): 0, ("a", 2): 0, ("b", 2): 7}
    after = {("a", 0): 1005, ("b", 0): 1, ("a", 1): 300, ("b", 1): 0, ("a", 2): 200, ("b", 2): 507}
    return Figures(
        counted(racks, before, after),
        per_pair(hourly, {"g": "one", "h": "two"}),
        unknown_bytes(hourly),
        payload=0,
        seconds=1.0,
        snapshots=1,
    )


def test_each_pair_is_compared() -> None:
    hourly = [
        row("g", "a", "a", 600),
        row("h", "a", "a", 400),
        row("g", "b", "a", 470),
        row("g", "b", "b", 530),
        row("g", "b", None, 9),
        row("g", None, "a", 1),
        row("x", None, "a", 7, kind="produce"),
    ]
    result = figures(hourly)
    assert result.counted == {("a", "a"): 1000, ("a", "b"): 1, ("b", "a"): 500, ("b", "b"): 500}
    assert result.computed == {("a", "a"): 1000, ("b", "a"): 470, ("b", "b"): 530}
    # The pair of 1 byte is below the threshold.
    assert result.differences() == pytest.approx(
        {("a", "a"): 0.0, ("b", "a"): -0.06, ("b", "b"): 0.06}
    )
    # The errors of the pairs cancel out in the sum.
    assert abs(result.difference) < 0.001
    assert result.unknown == 10
    assert result.per_group["two"] == {("a", "a"): 400}
    assert "-6.00%" in result.as_table()


def test_a_missing_pair_has_an_error_of_100_percent() -> None:
    assert figures([row("g", "a", "a", 1000)]).differences()["b", "a"] == -1.0
