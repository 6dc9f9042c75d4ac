"""The charts and tables that the reader chooses by cluster and kind of traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rack_traffic.report import charts, wording
from rack_traffic.report.model import KINDS, Summary, share, total
from rack_traffic.report.rack_grid import rack_grid
from rack_traffic.report.time_buckets import bucketed, span_hours
from rack_traffic.report.wording import Currency

MOST_CLUSTERS = 12
ALL_CLUSTERS = "All clusters"
_PAIR_ROWS = 200


@dataclass(frozen=True, slots=True)
class Scopes:
    """``names`` of the choices of clusters, ``kinds`` (key and name), and ``views`` for the page's
    script: by position of the name, then by kind. ``left_out`` clusters have no view of their own.
    """

    names: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]
    views: list[dict[str, Any]]
    span: int
    left_out: int


def scopes(summary: Summary, currency: Currency) -> Scopes:
    """All views of ``summary``: for all clusters, and for each of the largest."""
    sizes = {each.cluster: 0 for each in summary.clusters}
    for pair in summary.pairs:
        sizes[pair.cluster] = sizes.get(pair.cluster, 0) + pair.traffic.bytes
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))
    shown = sorted(ranked[:MOST_CLUSTERS])
    chosen: list[Sequence[str]] = [[name] for name in shown]
    names = tuple(shown)
    if len(sizes) != 1:
        chosen.insert(0, ranked)
        names = (ALL_CLUSTERS, *names)
    kinds = [kind for kind in KINDS if summary.of_kind(kind).bytes] or [KINDS[0]]
    span = span_hours({each.hour for each in summary.hours})
    return Scopes(
        names=names,
        kinds=tuple((kind, wording.KIND_NAMES[kind]) for kind in kinds),
        views=[
            {kind: _view(summary, frozenset(clusters), kind, span, currency) for kind in kinds}
            for clusters in chosen
        ],
        span=span,
        left_out=len(ranked) - len(shown),
    )


def _view(
    summary: Summary, clusters: frozenset[str], kind: str, span: int, currency: Currency
) -> dict[str, Any]:
    pairs = [each for each in summary.pairs if each.kind == kind and each.cluster in clusters]
    hours = [each for each in summary.hours if each.kind == kind and each.cluster in clusters]
    grid = rack_grid(pairs)
    buckets = bucketed(hours, span)
    traffic = total(each.traffic for each in pairs)
    cells = sorted(
        ((key, each) for key, each in grid.cells.items() if each.bytes),
        key=lambda cell: (-cell[1].bytes, str(cell[0])),
    )
    return {
        "bytes": charts.heat_map(grid, "bytes", currency),
        "cost": charts.heat_map(grid, "cost", currency),
        "time": charts.over_time(buckets, span),
        "note": grid.note or "",
        "said": (
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
                "not known" if None in (one, other) else currency.text(each.cost),
            ]
            for (one, other), each in cells[:_PAIR_ROWS]
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
