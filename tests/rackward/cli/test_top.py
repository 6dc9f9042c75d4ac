"""Frames of rackward top and what keys do; the command is tested in integration/cli/test_top.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Group

from placement_core import InvalidOptionError
from rack_traffic.prices import PriceTable
from rackward.cli.top import app, picture
from rackward.cli.top_frame import KEYS, SORTS, View, frame, press, rows, sparkline
from rackward.groups.audit import Auditor
from rackward.groups.host_racks import HostRacks
from rackward.groups.live import LivePass, live_groups
from rackward.groups.reading import ClusterReading, ReadRates, Sample
from rackward.kafka.tolerant_reader import Logs
from tests.support.group_audits import STATE, audit_report, audited_cluster

PARTITIONS = list(STATE.view.replicas)
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RATES = ReadRates(
    written=dict.fromkeys(PARTITIONS, 1e6),
    committed={"billing": {PARTITIONS[0]: 5e6, PARTITIONS[8]: 1e6}},
    measured_seconds=30.0,
)
SAMPLE = Sample(
    Logs(ends=dict.fromkeys(PARTITIONS, 1000)),
    {"billing": {PARTITIONS[0]: 100, PARTITIONS[8]: 2000}, "fraud": {}},
    0.0,
    0.0,
)


def a_pass(
    previous: LivePass | None = None, at: datetime = AT, reading: ClusterReading | None = None
) -> LivePass:
    reading = reading or audited_cluster()
    report = audit_report(RATES, best=False)
    known = {each.listed.id for each in reading.groups}
    rows = tuple(row for row in report.groups if row.group in known)
    shown = msgspec.structs.replace(report, groups=rows)
    groups = live_groups(previous, reading, shown, SAMPLE, at, measured=True)
    flows = Auditor(reading, RATES, PriceTable(), HostRacks()).flows()
    return LivePass(at, 0.4, reading, report, groups, True, flows, HostRacks())


def shown(view: View, width: int = 80, height: int | None = 24, **settings: Any) -> list[str]:
    return [line.plain for line in frame(a_pass(), view, width, height, **settings)]


def names(view: View, statuses: Any = None) -> list[str]:
    return [live.audit.group for live, _ in rows(a_pass(), view, statuses or {})]


@pytest.mark.parametrize(("width", "height"), [(40, 10), (80, 24), (200, 50)])
@pytest.mark.parametrize("view", [View(), View(detail=True, selected="billing")])
def test_a_frame_fills_the_screen_and_no_more(width: int, height: int, view: View) -> None:
    lines = shown(view, width, height)
    assert len(lines) == height
    assert max(map(cell_len, lines)) <= width
    assert lines[-1].startswith(KEYS[:width])
    assert all(line.isprintable() for line in lines)


def test_a_row_has_the_figures_of_its_group() -> None:
    lines = shown(View(), width=200, height=None)
    (billing,) = [line for line in lines if line.startswith("billing")]
    # Six of six million bytes, which are read in other racks, and 900 records behind.
    assert billing.split()[1:6] == ["0", "%", "6.00", "MB", "900"]
    assert "$315" in billing
    assert "Java, range" in billing
    # It has committed nothing.
    assert any(line.startswith("fraud") and "~12.0 MB" in line for line in lines)
    (secret,) = [line for line in lines if line.startswith("secret")]
    assert "grant this user Describe on group secret" in secret
    assert lines[2].startswith("! broker 5 cannot be reached")


NAME = "team-payments.orders-settlement.production.eu-central-1.group-{}"
CLIENT = "a client whose name is longer than the forty-eight characters of its column"


def renamed() -> LivePass:
    """A pass in which billing and search have long names, and an assignor of many characters."""
    cluster = a_pass()
    names = {"billing": NAME.format(1), "search": NAME.format(2)}
    groups = tuple(
        replace(
            live,
            audit=msgspec.structs.replace(
                live.audit, group=names[live.audit.group], protocol=CLIENT
            ),
        )
        if live.audit.group in names
        else live
        for live in cluster.groups
    )
    return replace(cluster, groups=groups)


@pytest.mark.parametrize("width", [80, 100, 130, 200, 100_000])
def test_names_of_groups_are_whole(width: int) -> None:
    lines = [line.plain for line in frame(renamed(), View(), width)]
    assert max(map(cell_len, lines)) <= width
    for name in (NAME.format(1), NAME.format(2)):
        ((at, line),) = [(n, line) for n, line in enumerate(lines) if line.startswith(name)]
        # The figures are beside the name, or below it.
        figures = line.removeprefix(name) if line != name else lines[at + 1]
        assert "%" in figures
    assert any(CLIENT in line for line in lines) == (width == 100_000)


def test_a_name_wider_than_the_screen_keeps_both_ends() -> None:
    lines = [line.plain for line in frame(renamed(), View(selected=NAME.format(2)), 40, 20)]
    assert sum(line.startswith("team-payments") for line in lines) == 2
    assert any(line.endswith("group-1") and line.count("…") == 1 for line in lines)
    view = View(detail=True, selected=NAME.format(1))
    assert NAME.format(1) in "".join(line.plain for line in frame(renamed(), view, 40, 60))


def test_the_matrix_adds_up_to_what_groups_read() -> None:
    flows = a_pass().flows
    assert sum(flows.values()) == pytest.approx(6e6 + 6 * 12e6)
    # Rackless members read from all racks; the others from each but their own.
    assert all(source != reader for source, reader in flows)
    lines = shown(View())
    start = next(n for n, line in enumerate(lines) if line.startswith("B/s from / in"))
    assert [line.split()[0] for line in lines[start : start + 4]] == ["B/s", "a", "b", "c"]
    assert not any(line.startswith("B/s from") for line in shown(View(matrix=False)))


@pytest.mark.parametrize("column", SORTS)
def test_each_column_can_be_sorted(column: str) -> None:
    order = rows(a_pass(), View(sort=column), {})
    known = [cells[column][1] for live, cells in order if live.audit.now is not None]
    assert known == sorted(known)
    # Groups without figures are last, in either order.
    assert {live.audit.group for live, _ in order[-2:]} == {"empty", "secret"}
    reverse = rows(a_pass(), View(sort=column, reverse=True), {})
    assert [cells[column][1] for live, cells in reverse if live.audit.now] == known[::-1]
    assert {live.audit.group for live, _ in reverse[-2:]} == {"empty", "secret"}


def typed(view: View | None, *keys: str) -> View | None:
    for key in keys:
        assert view is not None
        view = press(view, key, names(view), page=5)
    return view


def test_keys_select_sort_filter_and_open_a_group() -> None:
    start = View()
    first, second = names(start)[:2]
    selected = typed(start, "down", "j")
    assert selected is not None
    assert selected.selected == second
    assert typed(selected, "k", "up", "up") == replace(start, selected=first)
    assert typed(start, ">", "right") == replace(start, sort="a month")
    assert typed(start, "<", "<", "r") == replace(start, sort="group", reverse=True)
    typing = typed(start, "/", "b", "x", "backspace", "q", "backspace", "i")
    assert typing is not None
    assert (typing.filter, typing.typing) == ("bi", True)
    assert names(typing) == ["billing"]
    detail = typed(typing, "enter", "enter", "j", "pagedown")
    assert detail == replace(start, filter="bi", selected="billing", detail=True, offset=6)
    assert typed(detail, "escape", "escape") == replace(start, selected="billing", offset=6)
    assert typed(start, "m", "x") == replace(start, matrix=False)
    assert typed(start, "q") is None


def test_a_group_in_detail() -> None:
    status = {
        "state": "leading", "state_seconds": 75.0, "reason": "", "generation": 7,
        "rebalances_per_hour": 2, "last_rebalance": (AT - timedelta(seconds=62)).isoformat(),
        "last_rebalance_seconds": 1.25, "missing": ["c1"], "last_error": "",
    }  # fmt: skip
    view = View(detail=True, selected="billing")
    text = "\n".join(shown(view, 120, 60, statuses={"billing": status}))
    assert "rebal 1 min" in text
    assert "rackward lead: state leading, state seconds 75.0, generation 7, rebalances per" in text
    assert "missing ['c1']" in text
    assert "orders 6-9" in text
    assert "0/4" in text
    assert "Other members could read them locally" in text
    assert "grant this user Describe" in "\n".join(shown(View(detail=True, selected="secret")))
    assert "is gone" in "\n".join(shown(View(detail=True, selected="absent")))
    # Where another process of rackward waits.
    waiting = {"fraud": {**status, "state": "waiting"}}
    (row,) = rows(a_pass(), View(filter="fraud"), waiting)
    assert row[1]["leader"] == ("waiting", "waiting")


def test_passes_notice_rebalances_and_keep_what_was_not_read() -> None:
    first = a_pass()
    groups = {each.audit.group: each for each in first.groups}
    assert groups["billing"].rebalanced is None
    readings = {each.listed.id: each for each in first.reading.groups}
    billing = readings["billing"].group
    assert billing is not None
    fewer = replace(readings["billing"], group=replace(billing, members=billing.members[:2]))
    later = AT + timedelta(seconds=9)
    left = tuple({**readings, "billing": fewer}[n] for n in readings if n != "fraud")
    second = a_pass(first, later, replace(first.reading, groups=left))
    groups = {each.audit.group: each for each in second.groups}
    assert groups["billing"].rebalanced == later
    assert groups["search"].rebalanced is None
    assert (groups["fraud"].stale, groups["fraud"].history[-1]) == (True, None)
    third = a_pass(second, later, replace(first.reading, groups=left, faults=()))
    assert "fraud" not in {each.audit.group for each in third.groups}


def test_sparklines() -> None:
    assert sparkline([None, 0.0, 5.0, 10.0]) == " ▁▅█"
    assert sparkline([0.0, 0.0]) == "▁▁"


def test_a_picture_loads_nothing() -> None:
    svg = picture(Group(*frame(a_pass(), View(), 100)), 100)
    assert "billing" in svg
    assert "url(" not in svg.replace("url(#", "")


def test_without_a_terminal_it_needs_once() -> None:
    with pytest.raises(InvalidOptionError, match="top needs a terminal: without one, use --once"):
        app(["--bootstrap-server", "127.0.0.1:1"], standalone_mode=False)
