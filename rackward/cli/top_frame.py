"""What `rackward top` shows, and how keys change it: pure functions of a pass and a view."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from textwrap import wrap
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from assignors.explain import partition_ranges
from placement_core import InvalidOptionError
from rack_traffic.report.format import Currency, cut_middle
from rackward.cli.audit import (
    NO_GROUPS,
    client_text,
    cost,
    headline,
    locality,
    locality_style,
    notes,
)
from rackward.cli.explain import show_explanation
from rackward.cli.output import EscapingConsole, escape_controls, rack_name
from rackward.groups.audit_report import CrossRackReads
from rackward.groups.explain import check_explainable, explain_group
from rackward.groups.live import LiveGroup, LivePass
from rackward.groups.readers import in_sync_racks, topics_read
from rackward.groups.reading import RateSource
from rackward.units import format_bytes, format_duration, rackless_last

KEYS = "j/k select  </> sort  r reverse  / filter  Enter group  m racks  q quit"
LEVELS = "▁▂▃▄▅▆▇█"
MAX_RACKS = 8
MIN_TREND, MAX_TREND = 8, 40

CLIENT = "client, assignor"

# Title, width (negative: text on the left), and the width from which on screens have the column.
COLUMNS = (
    ("local", 7, 0),
    ("across/s", 9, 0),
    ("lag", 7, 0),
    ("a month", 8, 0),
    ("leader", -8, 0),
    ("rebal", 6, 0),
    ("read/s", 9, 120),
    ("members", 8, 120),
    ("partitions", 11, 120),
    ("off-rack", 9, 120),
    ("unknown", 8, 120),
    (CLIENT, -48, 180),
)
SORTS = ("group", *(title for title, _, _ in COLUMNS))
STATUS_FIELDS = (
    *("state", "state_seconds", "reason", "generation", "rebalances_per_hour"),
    *("last_rebalance_seconds", "missing", "withheld", "cool_down_seconds", "last_error"),
)

Statuses = Mapping[str, Mapping[str, Any]]
"""Group to its status, as ``/status`` of ``rackward lead`` has it."""


@dataclass(frozen=True, slots=True)
class View:
    """What the user has chosen.

    sort, reverse
        The column, and whether its usual order is reversed.
    filter, typing
        A part of the names, and whether it is being typed.
    selected, detail
        The selected group, and whether it alone is shown, from line ``offset`` on.
    matrix
        Whether the racks are shown.
    """

    sort: str = "across/s"
    reverse: bool = False
    filter: str = ""
    typing: bool = False
    selected: str | None = None
    detail: bool = False
    offset: int = 0
    matrix: bool = True


def press(view: View, key: str, groups: Sequence[str], page: int) -> View | None:
    """Return the view after a key; None: the user quits.

    ``groups`` are the names that are shown, in order; ``page`` is the number of lines of a page.
    """
    if view.typing:
        text = view.filter[:-1] if key == "backspace" else view.filter
        text += key if len(key) == 1 and key.isprintable() else ""
        typing = key not in ("enter", "escape")
        return replace(view, filter="" if key == "escape" else text, typing=typing)
    steps = {"j": 1, "down": 1, "k": -1, "up": -1, "pagedown": page, "pageup": -page}
    selected = view.selected if view.selected in groups else None
    match key:
        case "q":
            return None
        case _ if key in steps and view.detail:
            return replace(view, offset=max(0, view.offset + steps[key]))
        case _ if key in steps and groups:
            at = groups.index(selected) if selected else -1
            return replace(view, selected=groups[max(0, min(len(groups) - 1, at + steps[key]))])
        case "<" | "left" | ">" | "right":
            step = 1 if key in (">", "right") else -1
            sort = SORTS[(SORTS.index(view.sort) + step) % len(SORTS)]
            return replace(view, sort=sort, reverse=False)
        case "r":
            return replace(view, reverse=not view.reverse)
        case "m":
            return replace(view, matrix=not view.matrix)
        case "/":
            return replace(view, typing=True, detail=False)
        case "escape":
            return replace(view, detail=False, filter=view.filter if view.detail else "")
        case "enter" if groups:
            return replace(view, selected=selected or groups[0], detail=not view.detail, offset=0)
    return view


# ---- Groups, filtered and sorted.

Cells = Mapping[str, tuple[str, Any]]
"""Column to its text and its sort key; the least is the first."""


def rows(cluster: LivePass, view: View, statuses: Statuses) -> list[tuple[LiveGroup, Cells]]:
    """Return the groups that the view shows, in its order; those without figures are last."""
    shown = [
        (each, _cells(each, cluster, statuses.get(each.audit.group, {})))
        for each in cluster.groups
        if view.filter.lower() in each.audit.group.lower()
    ]
    shown.sort(key=lambda row: (row[1][view.sort][1], row[0].audit.group), reverse=view.reverse)
    return sorted(shown, key=lambda row: row[0].audit.now is None)


def _cells(live: LiveGroup, cluster: LivePass, status: Mapping[str, Any]) -> Cells:
    group, now = live.audit, live.audit.now or CrossRackReads()
    led_at = status.get("last_rebalance")
    times = [live.rebalanced, None if led_at is None else datetime.fromisoformat(led_at)]
    at = max((each for each in times if each), default=None)
    age = float("inf") if at is None else max(0.0, (cluster.at - at).total_seconds())
    # "rackward's assignor" is in the client's column.
    leader = "" if group.led_by is None else group.led_by.value.split()[-1]
    if status.get("state", "leading") != "leading":
        leader = status["state"]
    assumed = "~" if group.rate_source is RateSource.WRITTEN else ""
    shown_cost = cost(group.now, Currency(cluster.report.currency))

    def rate(value: float) -> str:
        return f"{assumed if value else ''}{format_bytes(value)}" if cluster.measured else ""

    def count(value: int | None) -> str:
        if value is None:
            return ""
        return f"{value:,}" if value < 1e6 else format_bytes(value).removesuffix("B")

    return {
        "group": (group.group, group.group),
        "local": (locality(group, group.now), group.local / (group.partitions or 1)),
        "across/s": (rate(now.crossing), -now.crossing),
        "lag": (count(live.lag), -(live.lag or 0)),
        "a month": (shown_cost if cluster.measured else "", -now.cost),
        "leader": (leader, leader),
        "rebal": ("" if at is None else _age(age), age),
        "read/s": (rate(group.rate), -group.rate),
        "members": (count(group.members), -(group.members or 0)),
        "partitions": (count(group.partitions), -group.partitions),
        "off-rack": (count(now.off_rack), -now.off_rack),
        "unknown": (count(now.unknown_partitions), -now.unknown_partitions),
        CLIENT: (client_text(group), client_text(group)),
    }


def _age(seconds: float) -> str:
    return " ".join(format_duration(seconds).split()[:2])


# ---- Frames.


def frame(
    cluster: LivePass,
    view: View,
    width: int,
    height: int | None = None,
    statuses: Statuses | None = None,
    fault: str = "",
) -> list[Text]:
    """Return the lines of a screen; without ``height``, those of all groups, and no keys.

    ``fault`` is what has failed since the pass.
    """
    statuses = statuses or {}
    lines = list(_summary(cluster, [*filter(None, [fault]), *cluster.report.faults], width))
    if view.detail and view.selected is not None:
        body = _detail(cluster, view.selected, statuses.get(view.selected, {}), width)
        lines += body[min(view.offset, len(body) - 1) :]
    else:
        lines += _matrix(cluster, width) if view.matrix and cluster.measured else []
        room = None if height is None else height - len(lines) - 2
        lines += _table(cluster, view, statuses, width, room)
    if height is not None:
        lines = [*lines, *[Text()] * height][: height - 1]
        prompt = f"/{view.filter}" if view.filter or view.typing else ""
        lines.append(Text(f"{prompt}_" if view.typing else f"{KEYS}  {prompt}", style="dim"))
    for line in lines:
        line.truncate(width)
    return lines


def _summary(cluster: LivePass, faults: Sequence[str], width: int) -> Iterator[Text]:
    report = cluster.report
    yield Text(escape_controls(headline(report)), style="bold")
    now, rate = report.totals.now, sum(group.rate for group in report.groups)
    text = "measuring rates"
    if cluster.measured:
        text = f"across racks {format_bytes(now.crossing)}/s of {format_bytes(rate)}/s"
        text += f", unknown {format_bytes(now.unknown)}/s" if now.unknown else ""
        text += f", {Currency(report.currency).text(now.cost)} a month"
    clock = f"  {cluster.at:%H:%M:%S} UTC, {cluster.seconds:.1f} s"
    yield Text(_fit(text, -max(len(text), min(width, 200) - len(clock))) + clock)
    if faults:
        more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
        yield Text(escape_controls(f"! {faults[0]}{more}"), style="yellow")


def _matrix(cluster: LivePass, width: int) -> Iterator[Text]:
    """Yield bytes a second by the rack that is read from and the rack of the reader."""
    racks = {each.rack for each in cluster.report.racks}
    sources, readers = (
        sorted(racks.union(names), key=rackless_last)[:MAX_RACKS]
        for names in ({source for source, _ in cluster.flows}, {r for _, r in cluster.flows})
    )
    size = max(9, min(16, (width - 16) // (len(readers) or 1) - 1))
    names = [escape_controls(rack_name(rack)) for rack in readers]
    yield Text(f"{'B/s from / in':16}" + "".join(f" {_fit(name, size)}" for name in names), "dim")
    for source in sources:
        line = Text(_fit(escape_controls(rack_name(source)), -16))
        for reader in readers:
            rate = cluster.flows.get((source, reader), 0.0)
            local, unknown = source == reader, None in (source, reader)
            style = "dim" if unknown or not rate else "green" if local else "red"
            line.append(f" {_fit(format_bytes(rate) if rate else '-', size)}", style=style)
        yield line


def _table(
    cluster: LivePass, view: View, statuses: Statuses, width: int, room: int | None
) -> Iterator[Text]:
    shown = rows(cluster, view, statuses)
    columns = [(title, size) for title, size, at_least in COLUMNS if width >= at_least]
    used = sum(abs(size) + 1 for _, size in columns) + 1
    longest = max((cell_len(escape_controls(each.audit.group)) for each, _ in shown), default=0)
    if columns[-1][0] == CLIENT:
        # As wide as its texts, if names leave that much.
        most = max((cell_len(escape_controls(cells[CLIENT][0])) for _, cells in shown), default=0)
        least = -columns[-1][1]
        size = min(most, max(least, width - (used - least) - longest - MIN_TREND))
        columns[-1] = CLIENT, -max(len(CLIENT) + 1, size)
        used += -columns[-1][1] - least
    name_size = max(8, min(longest, width - used - MIN_TREND))
    trend = max(MIN_TREND, min(MAX_TREND, width - used - name_size))
    head = ""
    for title, size in (("group", -name_size), *columns):
        mark = {view.sort: "▲" if view.reverse else "▼"}.get(title, "")
        head += f"{_fit(title + mark, size)} "
    yield Text(f"{head}trend", style="reverse")
    # A name that does not fit has a line of its own, above its figures.
    lines: list[tuple[LiveGroup, str, Cells | None]] = []
    for live, cells in shown:
        name = escape_controls(live.audit.group)
        if cell_len(name) > name_size:
            lines.append((live, cut_middle(name, width), None))
            name = ""
        lines.append((live, _fit(name, -name_size), cells))
    if room is not None:
        names = [live.audit.group for live, _, _ in lines]
        at = names.index(view.selected) if view.selected in names else 0
        first = max(0, min(at - room // 2, len(lines) - room))
        lines = lines[first : first + max(1, room)]
    for live, name, figures in lines:
        line = Text(name)
        if figures is not None and live.audit.now is None:
            line.append(f" {escape_controls('; '.join(notes(live.audit)))}", style="yellow")
        elif figures is not None and live.audit.now is not None:
            for title, size in columns:
                style = locality_style(live.audit.now) if title == "local" else ""
                cell = cut_middle(escape_controls(figures[title][0]), abs(size))
                line.append(f" {_fit(cell, size)}", style=style)
        if room is not None and live.audit.group == view.selected:
            line.stylize("reverse")
        if figures is not None and live.audit.now is not None:
            line.append(f" {sparkline(live.history[-trend:])}", style="cyan")
        if live.stale:
            line.stylize("dim italic")
        yield line
    if not cluster.groups:
        yield Text(NO_GROUPS)


def sparkline(values: Sequence[float | None]) -> str:
    """Return a character per value, relative to the largest; a space for None."""
    top = max((each for each in values if each is not None), default=0.0) or 1.0
    return "".join(" " if each is None else LEVELS[round(each / top * 7)] for each in values)


def _detail(cluster: LivePass, name: str, status: Mapping[str, Any], width: int) -> list[Text]:
    """Return the figures of one group, its members with their partitions, and the explanation."""
    live = next((each for each in cluster.groups if each.audit.group == name), None)
    if live is None:
        return [Text(f"{escape_controls(name)} is gone", style="yellow")]
    cells = _cells(live, cluster, status)
    figures = [f"{title} {cells[title][0]}" for title in SORTS[:-1] if cells[title][0]]
    told = [f"{key.replace('_', ' ')} {status[key]}" for key in STATUS_FIELDS if status.get(key)]
    texts = [", ".join(figures), *([f"rackward lead: {', '.join(told)}"] if status else [])]
    lines = [Text(each) for text in texts for each in wrap(escape_controls(text), width)]
    trend = Text(sparkline(live.history[-width:]), style="cyan")
    return [*lines, trend, *_explanation(cluster, name, width)]


@lru_cache(maxsize=1)
def _explanation(cluster: LivePass, name: str, width: int) -> list[Text]:
    """Return the members of a group and why they read from other racks."""
    reading = next((each for each in cluster.reading.groups if each.listed.id == name), None)
    try:
        group = check_explainable(name, None if reading is None else reading.group)
    except InvalidOptionError as error:
        reason = reading and reading.error
        return [Text(escape_controls(reason or str(error)), style="yellow")]
    state = cluster.reading.state.only(topics_read(group))
    in_sync = in_sync_racks(state, cluster.reading.selectors)
    explained = explain_group(group, state.view, cluster.host_racks, in_sync).summary()
    lines = [Text(f"{'member':30} {'rack':10} {'local':>9}  partitions", style="reverse")]
    assigned = {member.id: member.assignment for member in group.members}
    for member in explained.members:
        owned = [f"{t} {partition_ranges(n)}" for t, n in sorted(assigned[member.id].items())]
        label = f"{member.instance_id or member.client_id} {member.host}"
        cells = (
            _fit(cut_middle(escape_controls(label), 30), -30),
            _fit(cut_middle(escape_controls(member.rack or "-"), 10), -10),
        )
        counts = f"{member.local:,}/{member.partitions:,}"
        text = f"{cells[0]} {cells[1]} {counts:>9}  {escape_controls('; '.join(owned))}"
        lines.append(Text(text, style="" if member.local == member.partitions else "red"))
    console = EscapingConsole(
        file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False
    )
    with console.capture() as explanation:
        show_explanation(explained, console, None)
    return [*lines, Text(), *map(Text, explanation.get().splitlines())]


def _fit(text: str, size: int) -> str:
    """Return ``text`` in ``size`` columns, on the left if it is negative."""
    if size < 0:
        return set_cell_size(text, -size)
    return " " * max(0, size - cell_len(text)) + set_cell_size(text, min(size, cell_len(text)))
