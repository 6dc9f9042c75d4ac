"""The charts and tables of the page for each choice of cluster and kind of traffic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rack_traffic.output_tables import KINDS
from rack_traffic.report import format as wording
from rack_traffic.report.charts import heat_map, over_time, rack_grid
from rack_traffic.report.format import Currency
from rack_traffic.report.model import HourTotal, Summary, Traffic, share, total

MAX_CLUSTERS = 12
ALL_CLUSTERS = "All clusters"
_MAX_PAIR_ROWS = 200


@dataclass(frozen=True, slots=True)
class Views:
    """The choices of the reader, and what the page shows for each.

    ``names`` are the choices of clusters and ``kinds`` those of kinds of traffic (key and name).
    ``views`` has, for each name, a dict of kind to charts and tables. Bars cover ``hours_per_bar``
    hours. ``left_out`` is the number of clusters without a view of their own.
    """

    names: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]
    views: list[dict[str, Any]]
    hours_per_bar: int
    left_out: int


def make_views(summary: Summary, currency: Currency) -> Views:
    """Return the views of all clusters together, and of each of the largest."""
    sizes = {each.cluster: 0 for each in summary.clusters}
    for pair in summary.pairs:
        sizes[pair.cluster] = sizes.get(pair.cluster, 0) + pair.traffic.bytes
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))
    shown = sorted(ranked[:MAX_CLUSTERS])
    chosen: list[Sequence[str]] = [[name] for name in shown]
    names = tuple(shown)
    if len(sizes) != 1:
        chosen.insert(0, ranked)
        names = (ALL_CLUSTERS, *names)
    kinds = [kind for kind in KINDS if summary.of_kind(kind).bytes] or [KINDS[0]]
    span = hours_per_bar({each.hour for each in summary.hours})
    return Views(
        names=names,
        kinds=tuple((kind, wording.KIND_NAMES[kind]) for kind in kinds),
        views=[
            {kind: _view(summary, frozenset(clusters), kind, span, currency) for kind in kinds}
            for clusters in chosen
        ],
        hours_per_bar=span,
        left_out=len(ranked) - len(shown),
    )


def _view(
    summary: Summary, clusters: frozenset[str], kind: str, span: int, currency: Currency
) -> dict[str, Any]:
    pairs = [each for each in summary.pairs if each.kind == kind and each.cluster in clusters]
    hours = [each for each in summary.hours if each.kind == kind and each.cluster in clusters]
    grid = rack_grid(pairs)
    buckets = sum_by_bar(hours, span)
    traffic = total(each.traffic for each in pairs)
    cells = sorted(
        ((key, each) for key, each in grid.cells.items() if each.bytes),
        key=lambda cell: (-cell[1].bytes, str(cell[0])),
    )
    return {
        "bytes": heat_map(grid, "bytes", currency),
        "cost": heat_map(grid, "cost", currency),
        "time": over_time(buckets, span),
        "note": grid.note or "",
        "description": (
            f"{wording.bytes_text(traffic.bytes)}: "
            f"{wording.bytes_text(traffic.local_bytes)} in the same rack, "
            f"{wording.bytes_text(traffic.crossing_bytes)} across racks, "
            f"{wording.bytes_text(traffic.unknown_bytes)} with an unknown rack"
        ),
        "pairs": [
            [
                wording.UNKNOWN_RACK if one is None else one,
                wording.UNKNOWN_RACK if other is None else other,
                wording.bytes_text(each.bytes),
                wording.percent(share(each.bytes, traffic.bytes)),
                "unknown" if None in (one, other) else currency.text(each.cost),
            ]
            for (one, other), each in cells[:_MAX_PAIR_ROWS]
        ],
        "spans": [
            [
                wording.time_text(start),
                wording.bytes_text(each.local_bytes),
                wording.bytes_text(each.crossing_bytes),
                wording.bytes_text(each.unknown_bytes),
            ]
            for start, each in buckets.items()
        ],
    }


MAX_BARS = 180
_SPANS = (1, 3, 6, 12, 24, 7 * 24, 28 * 24)
# A Monday: bars of a week begin on Mondays.
_ORIGIN = datetime(1969, 12, 29, tzinfo=UTC)


def hours_per_bar(hours: Iterable[datetime], max_bars: int = MAX_BARS) -> int:
    """Return the smallest number of hours per bar with which ``max_bars`` cover ``hours``."""
    times = list(hours)
    if not times:
        return 1
    length = (max(times) - min(times)) // timedelta(hours=1) + 1
    return next((span for span in _SPANS if length <= span * max_bars), _SPANS[-1])


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
