"""The charts of the page as plain values: bars, the heat map of racks, and bytes over time.

The template draws them as HTML and SVG. Colours are classes of its style sheet, which has those for
light mode, dark mode and print. Jinja escapes the names, which come from clusters.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from placement_core import parse_rack
from rack_traffic.report import format as wording
from rack_traffic.report.format import Currency
from rack_traffic.report.model import (
    GroupTotal,
    HourTotal,
    PairTotal,
    ScenarioTotal,
    Traffic,
    share,
)

# ---- Bars with a name and a value each.


@dataclass(frozen=True, slots=True)
class Bar:
    """A name, a value, and the parts of a bar: style, and length in per cent of the longest bar."""

    name: str
    value: str
    parts: tuple[tuple[str, float], ...]


def scenario_bars(scenarios: Sequence[ScenarioTotal], currency: Currency) -> list[Bar]:
    """Return a bar per scenario: the cost per month of all groups."""
    longest = max((each.cost_per_month for each in scenarios), default=0)
    return [
        Bar(
            wording.scenario_name(each.scenario),
            f"{currency.text(each.cost_per_month)} · {wording.percent(each.crossing_share)}",
            ((_scenario_style(each.scenario), _length(each.cost_per_month, longest)),),
        )
        for each in scenarios
    ]


def _scenario_style(scenario: str) -> str:
    if scenario == "as_is":
        return "crossing"
    return "local" if scenario.startswith("rackward") else "neutral"


def group_bars(
    groups: Sequence[GroupTotal], currency: Currency, *, several_clusters: bool
) -> list[Bar]:
    """Return a bar per group: the cost per month after its change, and the saving."""
    longest = max((each.cost_per_month or 0.0 for each in groups), default=0)
    bars = []
    for each in groups:
        now = each.cost_per_month or 0.0
        saved = max(each.saving, 0.0)
        after = f" → {currency.text(now - saved)}" if saved else ""
        bars.append(
            Bar(
                wording.group_name(each.cluster, each.group, several_clusters),
                f"{currency.text(now)}{after}",
                (
                    ("crossing", _length(now - saved, longest)),
                    ("local", _length(saved, longest)),
                ),
            )
        )
    return bars


def _length(value: float, longest: float) -> float:
    return round(100 * max(value, 0.0) / longest, 3) if longest else 0.0


# ---- The heat map: traffic between racks as cells with a colour, few enough to be read.
#
# If there are too many racks, racks with levels are added up at their deepest level that gives few
# enough; other racks with the least bytes are added up as "others".

MAX_RACKS = 16


def _labels(pairs: Iterable[PairTotal]) -> tuple[dict[str, str], str | None, str]:
    """Return the label of each rack, at most MAX_RACKS, the label of the "others" or None, and an
    explanation if some labels stand for several racks."""
    sizes: dict[str, int] = {}
    for each in pairs:
        for rack in {each.from_rack, each.to_rack}:
            if rack is not None:
                sizes[rack] = sizes.get(rack, 0) + each.traffic.bytes
    if len(sizes) <= MAX_RACKS:
        return {rack: rack for rack in sizes}, None, ""
    paths = {rack: parse_rack(rack) or (rack,) for rack in sizes}
    for level in range(max(map(len, paths.values())) - 1, 0, -1):
        cut = {rack: "/" + "/".join(path[:level]) for rack, path in paths.items()}
        if 1 < len(set(cut.values())) <= MAX_RACKS:
            names = "level" if level == 1 else f"{level} levels"
            return cut, None, f"{len(sizes):,} racks, grouped by their first {names}."
    ranked = sorted(sizes, key=lambda rack: (-sizes[rack], rack))
    largest = ranked[: MAX_RACKS - 1]
    others = f"{len(sizes) - len(largest):,} others"
    labels = {rack: rack if rack in largest else others for rack in ranked}
    note = (
        f"{len(sizes):,} racks: the {len(largest)} with the most bytes, and the sum of the others."
    )
    return labels, others, note


@dataclass(frozen=True, slots=True)
class HeatCell:
    """Traffic from a rack to another.

    ``style`` is ``local``, ``crossing`` or ``unknown``. ``bytes_share`` and ``cost_share`` are in
    per cent of the largest cell; texts are of both measures, and ``description`` is all of it.
    """

    style: str
    bytes_share: float
    cost_share: float
    bytes: str
    cost: str
    description: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Rows are racks that are read from, columns those that are read in; each has a name."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell, ...]], ...]
    note: str


_MAX_LABEL = 24


def heat_map(pairs: Sequence[PairTotal], currency: Currency) -> HeatMap:
    """Return the cells of ``pairs``, all on one scale, which begins at 0."""
    labels, others, note = _labels(pairs)

    def label_of(rack: str | None) -> str | None:
        return None if rack is None else labels[rack]

    traffic_of: dict[tuple[str | None, str | None], Traffic] = {}
    for each in pairs:
        key = label_of(each.from_rack), label_of(each.to_rack)
        traffic_of[key] = traffic_of.get(key, Traffic()) + each.traffic
    racks = sorted(set(labels.values()), key=lambda label: (label == others, label))
    most_bytes = max((each.bytes for each in traffic_of.values()), default=0)
    most_cost = max((each.cost for each in traffic_of.values()), default=0.0)
    all_bytes = sum(each.bytes for each in traffic_of.values())

    def cell(one: str | None, other: str | None) -> HeatCell:
        traffic = traffic_of.get((one, other), Traffic())
        style = "unknown" if None in (one, other) else "local" if one == other else "crossing"
        size = wording.bytes_text(traffic.bytes) if traffic.bytes else "0"
        cost = currency.text(traffic.cost) if traffic.cost else "0"
        if traffic.unknown_bytes and not traffic.cost:
            cost = "?"
        return HeatCell(
            style,
            _length(traffic.bytes, most_bytes),
            _length(traffic.cost, most_cost),
            size,
            cost,
            f"from {_rack_name(one)} to {_rack_name(other)}: {size} "
            f"({wording.percent(share(traffic.bytes, all_bytes))}), "
            f"cost {'unknown' if cost == '?' else cost}",
        )

    sources = _side(racks, {one for one, _ in traffic_of})
    targets = _side(racks, {other for _, other in traffic_of})
    return HeatMap(
        tuple(map(_label, targets)),
        tuple((_label(one), tuple(cell(one, other) for other in targets)) for one in sources),
        note,
    )


def _side(racks: Sequence[str], present: set[str | None]) -> list[str | None]:
    """Return the racks of one axis: all known ones, unless none of them is present there."""
    known = racks if present - {None} else []
    return [*known, None] if None in present else [*known]


def _rack_name(rack: str | None) -> str:
    return wording.UNKNOWN_RACK if rack is None else rack


def _label(rack: str | None) -> str:
    return wording.cut_middle(_rack_name(rack), _MAX_LABEL)


# ---- Bytes over time, as stacked bars.

MAX_BARS = 180
_SPANS = (1, 3, 6, 12, 24, 7 * 24, 28 * 24)
# A Monday: bars of a week begin on Mondays.
_ORIGIN = datetime(1969, 12, 29, tzinfo=UTC)


def hours_per_bar(hours: Collection[datetime]) -> int:
    """Return the smallest number of hours per bar with which MAX_BARS cover ``hours``."""
    if not hours:
        return 1
    length = (max(hours) - min(hours)) // timedelta(hours=1) + 1
    return next((span for span in _SPANS if length <= span * MAX_BARS), _SPANS[-1])


def sum_by_bar(hours: Iterable[HourTotal], span: int) -> dict[datetime, Traffic]:
    """Return the traffic by the start of its bar, sorted; bars without measurements are absent."""
    sums: dict[datetime, Traffic] = {}
    for each in hours:
        start = each.hour - (each.hour - _ORIGIN) % timedelta(hours=span)
        sums[start] = sums.get(start, Traffic()) + each.traffic
    return dict(sorted(sums.items()))


def bar_text(hours: int) -> str:
    """Return a text such as "hour", "6 hours" or "day"."""
    if hours == 1:
        return "hour"
    if hours < 24:
        return f"{hours} hours"
    if hours == 24:
        return "day"
    return "week" if hours == 7 * 24 else f"{hours // (7 * 24)} weeks"


BAR_WIDTH, CHART_HEIGHT = 10, 1000
"""Units of the SVG: the width of a bar with its gap, and the height of the chart."""
_MAX_TICKS = 8
_GAP_BETWEEN_BARS = 1
_MAX_BARS_WITH_GAPS = 60


@dataclass(frozen=True, slots=True)
class TimeChart:
    """Bars of bytes over time.

    ``paths`` has, by style, the SVG path of its parts of all bars; ``bars`` the place and the
    description of each. ``marks`` of the vertical axis and ``times`` of the horizontal one are
    texts with their distance from the origin in per cent.
    """

    width: int
    paths: tuple[tuple[str, str], ...]
    bars: tuple[tuple[int, str], ...]
    marks: tuple[tuple[float, str], ...]
    times: tuple[tuple[float, str], ...]


def over_time(buckets: Mapping[datetime, Traffic], hours_per_bar: int) -> TimeChart | None:
    """Return bars of ``hours_per_bar`` hours, by their start; None if there are none.

    The vertical axis begins at 0. Times without measurements have no bar.
    """
    if not buckets:
        return None
    span = timedelta(hours=hours_per_bar)
    first = min(buckets)
    count = (max(buckets) - first) // span + 1
    step, top = _scale(max(each.bytes for each in buckets.values()))
    inner = BAR_WIDTH - (_GAP_BETWEEN_BARS if count <= _MAX_BARS_WITH_GAPS else 0)
    paths: dict[str, list[str]] = {"crossing": [], "local": [], "unknown": []}
    bars = []
    for start, each in sorted(buckets.items()):
        left = (start - first) // span * BAR_WIDTH
        below = 0
        for style, size in (
            ("crossing", each.crossing_bytes),
            ("local", each.local_bytes),
            ("unknown", each.unknown_bytes),
        ):
            low, high = (round(part / top * CHART_HEIGHT) for part in (below, below + size))
            if high > low:
                paths[style].append(f"M{left} {CHART_HEIGHT - low}h{inner}v{low - high}h-{inner}z")
            below += size
        bars.append((left, _bar_description(start, each)))
    ticks = range(0, count, math.ceil(count / _MAX_TICKS))
    days_only = hours_per_bar >= 24
    return TimeChart(
        count * BAR_WIDTH,
        tuple((style, "".join(parts)) for style, parts in paths.items() if parts),
        tuple(bars),
        tuple(
            (100 * number * step / top, wording.bytes_text(number * step))
            for number in range(round(top / step) + 1)
        ),
        tuple(
            (
                round(100 * number / count, 3),
                (first + number * span).strftime("%m-%d" if days_only else "%m-%d %H:%M"),
            )
            for number in ticks
        ),
    )


def _bar_description(start: datetime, traffic: Traffic) -> str:
    parts = (
        (traffic.crossing_bytes, "across racks"),
        (traffic.local_bytes, "in the same rack"),
        (traffic.unknown_bytes, "unknown"),
    )
    sizes = ", ".join(f"{wording.bytes_text(size)} {name}" for size, name in parts if size)
    measured = share(traffic.measured_bytes, traffic.bytes)
    source = f" ({wording.percent(measured)} measured)" if measured else ""
    return f"{start:%a} {wording.time_text(start)}: {sizes or 'nothing'}{source}"


def _scale(most: int) -> tuple[float, float]:
    """Return the distance of the marks of an axis that begins at 0, and its end."""
    if not most:
        return 1.0, 1.0
    unit = max(1.0, 10.0 ** math.floor(math.log10(most / 4)))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor * 5 >= most)
    return step, step * math.ceil(most / step)
