"""The page: one HTML file that contains everything, and makes no network request.

Names from clusters are untrusted input. Jinja2 escapes them in text; in the page's data ``<``,
``>``, ``&`` and ``'`` are JSON escapes; the script sets text only; and a content security policy
permits the script of the page only, by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rack_traffic.prices import KINDS
from rack_traffic.report import format as wording
from rack_traffic.report.bill import NO_TEAM, cents_text, team_cents
from rack_traffic.report.charts import (
    BAR_WIDTH,
    CHART_HEIGHT,
    HeatMap,
    TimeChart,
    bar_text,
    group_bars,
    heat_map,
    hours_per_bar,
    over_time,
    scenario_bars,
    sum_by_bar,
)
from rack_traffic.report.findings import (
    FIRST_CHANGES,
    LEVEL_MEANINGS,
    LEVEL_NAMES,
    Finding,
    PlannedChange,
    headline,
    planned_changes,
    reliability_of,
)
from rack_traffic.report.format import Currency
from rack_traffic.report.model import (
    MIN_HOURS_TO_EXTRAPOLATE,
    GroupTotal,
    Summary,
    Traffic,
    share,
    total,
)
from rack_traffic.tables import HOURS_PER_MONTH

# ---- The charts and tables of the page for each choice of cluster and kind of traffic.

MAX_CLUSTERS = 12
ALL_CLUSTERS = "All clusters"


@dataclass(frozen=True, slots=True)
class View:
    """What the page shows for a choice: the index of ``Views.names``, and a kind of traffic.

    ``bars`` have the traffic of the chart over time by the start of its bar.
    """

    scope: int
    kind: str
    description: str
    heat: HeatMap
    time: TimeChart | None
    bars: Mapping[datetime, Traffic]


@dataclass(frozen=True, slots=True)
class Views:
    """The choices of the reader, and what the page shows for each.

    ``names`` are the choices of clusters and ``kinds`` those of kinds of traffic (key and name).
    ``views`` has all pairs of them, the one that is shown first at the beginning. Bars cover
    ``hours_per_bar`` hours. ``left_out`` is the number of clusters without a view of their own.
    """

    names: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]
    views: tuple[View, ...]
    hours_per_bar: int
    left_out: int


def make_views(summary: Summary, currency: Currency) -> Views:
    """Return the views of all clusters together, and of each of the largest."""
    sizes = {each.cluster: 0 for each in summary.clusters}
    for pair in summary.pairs:
        sizes[pair.cluster] = sizes.get(pair.cluster, 0) + pair.traffic.bytes
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))
    shown = sorted(ranked[:MAX_CLUSTERS])
    choices = {name: [name] for name in shown}
    if len(sizes) != 1:
        choices = {ALL_CLUSTERS: ranked} | choices
    kinds = [kind for kind in KINDS if summary.of_kind(kind).bytes] or [KINDS[0]]
    span = hours_per_bar({each.hour for each in summary.hours})
    return Views(
        names=tuple(choices),
        kinds=tuple((kind, wording.KIND_NAMES[kind]) for kind in kinds),
        views=tuple(
            _view(summary, scope, frozenset(clusters), kind, span, currency)
            for scope, clusters in enumerate(choices.values())
            for kind in kinds
        ),
        hours_per_bar=span,
        left_out=len(ranked) - len(shown),
    )


def _view(
    summary: Summary,
    scope: int,
    clusters: frozenset[str],
    kind: str,
    span: int,
    currency: Currency,
) -> View:
    pairs = [each for each in summary.pairs if each.kind == kind and each.cluster in clusters]
    hours = [each for each in summary.hours if each.kind == kind and each.cluster in clusters]
    bars = sum_by_bar(hours, span)
    traffic = total(each.traffic for each in pairs)
    measured = share(traffic.measured_bytes, traffic.bytes)
    return View(
        scope,
        kind,
        f"{wording.bytes_text(traffic.bytes)}: "
        f"{wording.bytes_text(traffic.local_bytes)} in the same rack, "
        f"{wording.bytes_text(traffic.crossing_bytes)} across racks, "
        f"{wording.bytes_text(traffic.unknown_bytes)} with an unknown rack"
        + (f"; {wording.percent(measured)} measured, the rest estimated" if measured else ""),
        heat_map(pairs, currency),
        over_time(bars, span),
        bars,
    )


_NO_CHANGE = "Nothing to change"
_NOT_COMPUTED = "Not computed"


def group_columns(groups: Sequence[GroupTotal]) -> dict[str, Any]:
    """Return the table of groups by column, which is small in JSON: name to a value per group.

    Clusters, changes and reliability levels are indexes into ``clusters``, ``changes`` and
    ``levels``; unknown values are null. In ``changes``, ``{group}`` stands for the group's name.
    """
    clusters = sorted({each.cluster for each in groups})
    texts = [_change(each) for each in groups]
    changes = sorted(set(texts))
    cluster_index = {name: index for index, name in enumerate(clusters)}
    change_index = {text: index for index, text in enumerate(changes)}
    levels = list(LEVEL_NAMES)
    return {
        "clusters": clusters,
        "changes": changes,
        "levels": [[level, LEVEL_NAMES[level], LEVEL_MEANINGS[level]] for level in levels],
        "group": [each.group for each in groups],
        "cluster": [cluster_index[each.cluster] for each in groups],
        "bytes": [each.traffic.bytes for each in groups],
        "crossing": [_digits(each.traffic.crossing_share) for each in groups],
        "crossing_after": [_digits(_crossing_after(each)) for each in groups],
        "now": [_digits(each.cost_per_month) for each in groups],
        "after": [
            None if each.change is None else _digits(each.change.cost_per_month_after)
            for each in groups
        ],
        "saving": [
            None if each.change is None else _digits(each.change.saving_per_month)
            for each in groups
        ],
        "change": [change_index[text] for text in texts],
        "reliability": [levels.index(reliability_of(each.traffic).level) for each in groups],
    }


def _change(each: GroupTotal) -> str:
    if each.change is None:
        return _NOT_COMPUTED
    # Commands have the group's name, as a word of its own.
    name = rf"(?<![\w.-]){re.escape(each.group)}(?![\w.-])"
    return re.sub(name, "{group}", each.change.text) or _NO_CHANGE


def _crossing_after(each: GroupTotal) -> float | None:
    """Return the share of all bytes that cross after the change; None if it is unknown."""
    if each.change is None or each.change.locality_after is None or not each.traffic.bytes:
        return None
    unknown = each.traffic.unknown_bytes / each.traffic.bytes
    return max(0.0, 1 - each.change.locality_after - unknown)


def _digits(value: float | None) -> float | None:
    """Round to five digits, which suffice to sort and to show."""
    return None if value is None else float(f"{value:.5g}")


DEFAULT_TITLE = "Kafka traffic across racks"
DEFAULT_TOP = 10
FLOW_ROWS = 50
"""The clients and the members of measured flows that are shown; JSON has all."""


@dataclass(frozen=True, slots=True)
class PageOptions:
    """The creation time (aware), the title, the currency, and the number of groups in the chart."""

    generated_at: datetime
    title: str = DEFAULT_TITLE
    currency: Currency = Currency()  # noqa: RUF009
    top: int = DEFAULT_TOP


def render_page(summary: Summary, findings: tuple[Finding, ...], options: PageOptions) -> str:
    """Return the HTML document; the same for the same input."""
    currency = options.currency
    changes = planned_changes(summary.parts)
    views = make_views(summary, currency)
    costly = sorted(
        (each for each in summary.parts if each.cost_per_month),
        key=lambda each: (-(each.cost_per_month or 0), each.cluster, each.group),
    )[: options.top]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=options.title,
            options=options,
            currency=currency,
            words=wording,
            summary=summary,
            findings=findings,
            lead=headline(summary, currency),
            changes=changes,
            first_changes=changes[:FIRST_CHANGES],
            cost_shares=_cost_shares(summary, changes),
            basis=_basis(summary) if summary.consumed.bytes else "",
            is_rough=0 < _measured_hours(summary) < MIN_HOURS_TO_EXTRAPOLATE,
            reliability_text=_reliability_text(summary),
            period=_period(summary),
            what_if_period=_what_if_period(summary),
            bill=_bill(summary),
            producers=_producers(summary),
            views=views,
            bar=bar_text(views.hours_per_bar),
            costly=costly,
            scenario_bars=scenario_bars(summary.scenarios, currency),
            group_bars=group_bars(costly, currency, several_clusters=summary.has_several_clusters),
            kinds=[(wording.KIND_NAMES[kind], summary.of_kind(kind)) for kind in KINDS],
            level_names=LEVEL_NAMES,
            level_meanings=LEVEL_MEANINGS,
            consumed=reliability_of(summary.consumed),
            mean_price=share(summary.consumed.cost * 1e9, summary.consumed.crossing_bytes),
            hours_per_month=HOURS_PER_MONTH,
            hours_to_extrapolate=MIN_HOURS_TO_EXTRAPOLATE,
            several_clusters=summary.has_several_clusters,
            flow_rows=FLOW_ROWS,
            bar_width=BAR_WIDTH,
            chart_height=CHART_HEIGHT,
            data={"groups": group_columns(summary.groups), "currency": currency.prefix},
        )
    )


@cache
def _environment() -> Environment:
    """Return the environment of the page, which extends ``base.html.j2``.

    The script finds ``data`` as JSON in the element of that id.
    """
    environment = Environment(
        loader=PackageLoader("rack_traffic.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters["script_hash"] = _script_hash
    folder = files("rack_traffic.report") / "templates"
    environment.globals["style"] = Markup((folder / "style.css").read_text("utf-8"))
    environment.globals["script"] = Markup((folder / "page.js").read_text("utf-8"))
    return environment


def _script_hash(script: str) -> str:
    """Return the hash of a script for the content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _cost_shares(
    summary: Summary, changes: Sequence[PlannedChange]
) -> list[tuple[str, str, float]]:
    """Return style, name and amount per month of what the first changes save, what the others save,
    and what remains."""
    monthly = summary.cost_per_month_now
    if not changes or not monthly:
        return []
    saved = [each.saving_per_month for each in changes]
    first, others = saved[:FIRST_CHANGES], saved[FIRST_CHANGES:]
    named = wording.count(len(first), "change")
    shares = (
        ("first", f"saved by {'the first ' if others else ''}{named}", sum(first)),
        ("further", f"saved by {len(others):,} more", sum(others)),
        ("crossing", "remains", monthly - sum(saved)),
    )
    return [each for each in shares if each[2] > 0]


def _bill(summary: Summary) -> list[tuple[str, list[str]]]:
    """Return team to the amount of each kind and of all; the last of several rows is the total."""
    teams = team_cents(summary.bill)
    rows = [(team, [kinds.get(kind, 0) for kind in KINDS]) for team, kinds in teams.items()]
    if len(rows) > 1:
        columns = zip(*(amounts for _, amounts in rows), strict=True)
        rows.append(("Total", [sum(column) for column in columns]))
    elif NO_TEAM in teams:
        rows = [("All", amounts) for _, amounts in rows]
    return [(team, [*map(cents_text, [*amounts, sum(amounts)])]) for team, amounts in rows]


def _producers(summary: Summary) -> str:
    """Return where producers are assumed, and for how much flow records measured it."""
    produced = [each for each in summary.pairs if each.kind == "produce"]
    measured = sum(
        each.traffic.bytes - each.traffic.assumed_bytes for each in produced if each.from_rack
    )
    sizes: dict[str, int] = {}
    for each in produced:
        if each.from_rack and each.traffic.assumed_bytes:
            sizes[each.from_rack] = sizes.get(each.from_rack, 0) + each.traffic.assumed_bytes
    whole = sum(sizes.values())
    shares = ", ".join(f"{rack} {wording.percent(size / whole)}" for rack, size in sizes.items())
    if measured:
        share = wording.percent(measured / (measured + whole))
        rest = f"; assumed for the rest: {shares}" if shares else ""
        return f"Racks of producers are measured for {share} of what they write{rest}."
    return f"Brokers do not know where producers are; assumed: {shares}." if shares else ""


def _basis(summary: Summary) -> str:
    """Return how many bytes crossed, and the time from which a month is extrapolated."""
    consumed = summary.consumed
    hours = _measured_hours(summary)
    crossing = wording.bytes_text(consumed.crossing_bytes)
    text = f"{crossing} of {wording.bytes_text(consumed.bytes)} that groups read crossed"
    if summary.cost_per_month_now is None:
        return f"{text} in {wording.hours_text(hours)}."
    return f"{text} in this period. A month is extrapolated from {wording.hours_text(hours)}."


def _measured_hours(summary: Summary) -> float:
    hours = summary.measured_hours
    return min((each.hours for each in summary.clusters), default=0) if hours is None else hours


def _reliability_text(summary: Summary) -> str:
    reliability = reliability_of(summary.consumed)
    parts = (
        ("measured", share(summary.consumed.measured_bytes, summary.consumed.bytes)),
        ("estimated", reliability.estimated),
        ("of unknown rack", reliability.unknown),
    )
    shares = ", ".join(f"{wording.percent(part)} {name}" for name, part in parts if part)
    return shares or LEVEL_MEANINGS[reliability.level]


def _period(summary: Summary) -> str | None:
    if not summary.clusters:
        return None
    first = min(each.first for each in summary.clusters)
    end = max(each.last for each in summary.clusters) + timedelta(hours=1)
    return f"{wording.time_text(first)} to {wording.time_text(end)} UTC"


def _what_if_period(summary: Summary) -> str | None:
    if summary.what_if_since is None or summary.what_if_until is None:
        return None
    first, end = wording.time_text(summary.what_if_since), wording.time_text(summary.what_if_until)
    return f"{first} to {end} UTC"
