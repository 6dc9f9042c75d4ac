"""The groups' table as columns that are small in JSON: its script makes rows of those it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rack_traffic.report import reliability
from rack_traffic.report.model import GroupTotal

_NO_CHANGE = "Nothing to change"
_NOT_COMPUTED = "Not computed"


def group_columns(groups: Sequence[GroupTotal]) -> dict[str, Any]:
    """Columns by name, a value per group. Clusters, changes and levels are positions in
    ``clusters``, ``changes`` and ``levels``; what is not known is null."""
    clusters = sorted({each.cluster for each in groups})
    changes = sorted({_change(each) for each in groups})
    sure = [reliability.of(each.traffic) for each in groups]
    cluster_at = {name: at for at, name in enumerate(clusters)}
    change_at = {text: at for at, text in enumerate(changes)}
    levels = list(reliability.WORDS)
    return {
        "clusters": clusters,
        "changes": changes,
        "levels": [[level, *_explained(level)] for level in levels],
        "group": [each.group for each in groups],
        "cluster": [cluster_at[each.cluster] for each in groups],
        "bytes": [each.traffic.bytes for each in groups],
        "crossing": [_digits(each.traffic.crossing_share) for each in groups],
        "crossing_after": [
            None
            if each.change is None or each.change.locality_after is None
            else _digits(1 - each.change.locality_after)
            for each in groups
        ],
        "now": [_digits(each.cost_per_month) for each in groups],
        "after": [
            None if each.change is None else _digits(each.change.cost_per_month_after)
            for each in groups
        ],
        "saving": [
            None if each.change is None else _digits(each.change.saving_per_month)
            for each in groups
        ],
        "change": [change_at[_change(each)] for each in groups],
        "sure": [levels.index(each.level) for each in sure],
    }


def _change(each: GroupTotal) -> str:
    if each.change is None:
        return _NOT_COMPUTED
    return each.change.text or _NO_CHANGE


def _explained(level: reliability.Level) -> tuple[str, str]:
    return reliability.WORDS[level], reliability.EXPLAINED[level]


def _digits(value: float | None) -> float | None:
    """Enough of them to sort and to show."""
    return None if value is None else float(f"{value:.5g}")
