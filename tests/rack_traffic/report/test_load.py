"""The summary: sums of the pipeline's tables equal sums of the plain rows; errors are one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from rack_traffic.errors import InputError
from rack_traffic.report.load import InputTable, Period, find_tables, read_summary
from rack_traffic.report.model import Summary
from tests.support.traffic_report import (
    GAP,
    START,
    Sample,
    hourly_row,
    platform,
    ranking_row,
    what_if_rows,
)

HOURLY = ("cluster", "kind", "group", "topic", "from_rack", "to_rack", "source", "crossed_level",
    "bytes", "estimated_bytes", "unsized_offsets", "cost")  # fmt: skip


def summary_at(folder: Path, period: Period | None = None) -> Summary:
    return read_summary(find_tables(str(folder), {}), period or Period())


def test_all_bytes_and_costs_count_once(tmp_path: Path) -> None:
    sample = platform(20, 60, clusters=("main", "web"))
    summary = summary_at(sample.write(tmp_path))
    expected: dict[tuple[object, ...], list[float]] = defaultdict(lambda: [0, 0, 0, 0.0])
    for row in sample.rows["hourly"]:
        level = row["crossed_level"]
        index = 2 if level is None else min(level, 1)
        for key in (
            ("pair", row["cluster"], row["kind"], row["from_rack"], row["to_rack"]),
            ("hour", row["cluster"], row["kind"], row["hour"]),
            ("group", row["cluster"], row["group"]),
        ):
            if key[0] == "group" and row["kind"] != "consume":
                continue
            expected[key][index] += row["bytes"]
            expected[key][3] += row["cost"] or 0.0
    actual = (
        {("pair", e.cluster, e.kind, e.from_rack, e.to_rack): e.traffic for e in summary.pairs}
        | {("hour", e.cluster, e.kind, e.hour): e.traffic for e in summary.hours}
        | {("group", e.cluster, e.group): e.traffic for e in summary.groups}
    )
    assert actual.keys() == expected.keys()
    for key, traffic in actual.items():
        local, crossing, unknown, cost = expected[key]
        assert (traffic.local_bytes, traffic.crossing_bytes, traffic.unknown_bytes) == (
            local,
            crossing,
            unknown,
        ), key
        assert traffic.cost == pytest.approx(cost)
    estimated = sum(e["estimated_bytes"] for e in sample.rows["hourly"])
    assert summary.consumed.estimated_bytes == estimated
    assert {each.hours for each in summary.clusters} == {60 - len(GAP)}


def test_groups_are_sorted_by_saving(tmp_path: Path) -> None:
    summary = summary_at(platform(20, 30).write(tmp_path))
    savings = [each.change.saving_per_month for each in summary.groups if each.change]
    assert len(savings) == 20
    assert savings == sorted(savings, reverse=True)
    as_is = next(each for each in summary.scenarios if each.scenario == "as_is")
    assert summary.cost_per_month_now == pytest.approx(as_is.cost_per_month)
    assert [each.scenario for each in summary.scenarios][:2] == ["as_is", "apache_range"]


def test_a_period_selects_hours_and_overlapping_intervals(tmp_path: Path) -> None:
    folder = platform(4, 30, clusters=("main",)).write(tmp_path)
    period = Period(START + timedelta(hours=10), START + timedelta(hours=12))
    summary = summary_at(folder, period)
    assert {each.hour for each in summary.hours} == {
        START + timedelta(hours=10),
        START + timedelta(hours=11),
    }
    assert summary.scenarios
    later = summary_at(folder, Period(since=START + timedelta(hours=30)))
    assert (later.hours, later.scenarios, later.groups) == ((), (), ())


def test_an_empty_period_is_an_error() -> None:
    with pytest.raises(InputError, match=r"ends .* before it begins"):
        Period(START, START)


def test_costs_are_weighted_by_time_and_the_latest_change_counts(
    tmp_path: Path,
) -> None:
    sample = Sample()
    first = {"interval_end": START + timedelta(hours=1)}
    second = {
        "interval_start": START + timedelta(hours=1),
        "interval_end": START + timedelta(hours=4),
    }
    for more, covered, cost, changed in (
        (second, 6, 10.0, "rackward_range"),
        (first, 2, 50.0, "rackward_cooperative_sticky"),
    ):
        sample.rows["ranking"].append(
            ranking_row("main", "g", 10**9, covered, changed, cost_per_month_now=cost, **more)
        )
        sample.rows["what_if"].extend(
            {**row, "cost_per_month": cost}
            for row in what_if_rows("main", "g", 10**9, covered, changed, **more)
        )
    summary = summary_at(sample.write(tmp_path))
    (only,) = summary.groups
    assert only.change is not None
    assert only.change.cost_per_month_now == pytest.approx((50 * 2 + 10 * 6) / 8)
    assert only.change.hours == pytest.approx(8)
    assert only.change.scenario == "rackward_range"
    scenario = next(e for e in summary.scenarios if e.scenario == "rackward_range")
    assert scenario.cost_per_month == pytest.approx(20.0)
    assert scenario.local_bytes + scenario.crossing_bytes == 2 * 10**9
    assert scenario.moves == 31


def test_a_group_without_a_scenario_counts_with_its_current_cost(tmp_path: Path) -> None:
    sample = Sample()
    sample.rows["what_if"].extend(what_if_rows("main", "full", 10**12, 24, "rackward_range"))
    sample.rows["what_if"].extend(
        row
        for row in what_if_rows("main", "manual", 10**12, 24, "rackward_range")
        if row["scenario"] == "as_is"
    )
    summary = summary_at(sample.write(tmp_path))
    totals = {each.scenario: each for each in summary.scenarios}
    scenario = totals["rackward_after_leader_layout"]
    assert (scenario.groups, scenario.groups_as_is) == (1, 1)
    assert scenario.cost_per_month == pytest.approx(totals["as_is"].cost_per_month / 2)


def test_too_few_hours_give_no_cost_per_month(tmp_path: Path) -> None:
    def monthly(hours: int) -> float | None:
        sample = Sample()
        sample.rows["hourly"] = [
            hourly_row(START + timedelta(hours=hour), 10**12, "a", "b") for hour in range(hours)
        ]
        return summary_at(sample.write(tmp_path / str(hours))).groups[0].cost_per_month

    assert monthly(3) is None
    assert monthly(24) == pytest.approx(20 * 730)


def test_null_and_empty_racks_are_unknown(tmp_path: Path) -> None:
    sample = Sample()
    sample.rows["hourly"] = [
        hourly_row(START, 5, None, "b"),
        hourly_row(START, 7, "", "b", crossed_level=None, cost=None),
        hourly_row(START, 11, "a", None),
    ]
    summary = summary_at(sample.write(tmp_path))
    assert [(e.from_rack, e.to_rack, e.traffic.unknown_bytes) for e in summary.pairs] == [
        ("a", None, 11),
        (None, "b", 12),
    ]
    assert summary.consumed.cost == 0


def test_rejected_rows_are_counted_by_reason_or_unknown(
    tmp_path: Path,
) -> None:
    totals = summary_at(platform(1, 2).write(tmp_path / "with")).rejected_rows
    assert totals is not None
    assert [(each.table, each.rows) for each in totals] == [("commits", 12), ("members", 1)]
    assert summary_at(Sample().write(tmp_path / "none")).rejected_rows == ()
    without = Sample().write(tmp_path / "without", ("hourly",))
    assert summary_at(without) == Summary()


def write(path: Path, **columns: Sequence[object]) -> str:
    write_deltalake(path, pa.table(columns), mode="overwrite")
    return str(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "there is no Delta table"),
        ({"cluster": ["c"]}, "has no column kind"),
        ({"hour": ["soon"], **{name: [0] for name in HOURLY}}, "cannot read the hourly table"),
    ],
)
def test_unreadable_table_is_one_line(
    tmp_path: Path, columns: dict[str, list[object]], message: str
) -> None:
    if columns:
        write(tmp_path / "hourly", **columns)
    with pytest.raises(InputError, match=message) as caught:
        read_summary({"hourly": str(tmp_path / "hourly")}, Period())
    assert "\n" not in str(caught.value)


def test_replaced_files_of_a_table_are_not_read(tmp_path: Path) -> None:
    for reasons in (["old", "old"], ["new"]):
        write(tmp_path, table=["commits"] * len(reasons), reason=reasons)
    for path in (str(tmp_path), f"file://{tmp_path}"):
        table = InputTable("rejected_rows", path)
        assert table.sums(("reason",), {}, pc.scalar(True)) == [{"reason": "new"}]


def test_no_error_contains_the_password_of_a_url() -> None:
    with pytest.raises(InputError) as caught:
        InputTable("hourly", "nosuch://user:hunter2@host/path")
    assert "hunter2" not in str(caught.value)
    assert "nosuch://***@host/path" in str(caught.value)


def test_tables_given_by_name_override_the_folder(tmp_path: Path) -> None:
    for name in ("hourly", "ranking"):
        write(tmp_path / name, x=[1])
    assert find_tables(f"{tmp_path}/", {"ranking": "elsewhere", "what_if": None}) == {
        "hourly": f"{tmp_path}/hourly",
        "ranking": "elsewhere",
    }
    with pytest.raises(InputError, match=r"no hourly table in .*absent"):
        find_tables(str(tmp_path / "absent"), {})
    with pytest.raises(InputError, match="nothing to report on"):
        find_tables(None, {})
