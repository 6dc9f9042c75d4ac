"""The page: one HTML file with everything in it, which asks nothing of any network.

Names from clusters are hostile input. Jinja2 escapes them where they are text; in the page's data
``<``, ``>``, ``&`` and ``'`` are written as escapes of JSON; the script only ever sets text; and a
content security policy lets no script run but the two that are in the page, told by their hashes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from rack_traffic.report import charts
from rack_traffic.report import findings as reliability
from rack_traffic.report import format as wording
from rack_traffic.report.charts import scopes, span_text
from rack_traffic.report.findings import Finding
from rack_traffic.report.format import Currency
from rack_traffic.report.model import (
    HOURS_PER_MONTH,
    HOURS_TO_EXTRAPOLATE,
    KINDS,
    GroupTotal,
    Summary,
)

# ---- The groups' table as columns that are small in JSON: its script makes rows of those it shows.

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


DEFAULT_TITLE = "Kafka traffic across racks"
DEFAULT_TOP = 10


@dataclass(frozen=True, slots=True)
class PageOptions:
    """How the page looks: its title, the currency, how many groups the chart has, and when it was
    made (aware)."""

    generated_at: datetime
    title: str = DEFAULT_TITLE
    currency: Currency = Currency()  # noqa: RUF009
    top: int = DEFAULT_TOP


@dataclass(frozen=True, slots=True)
class _Tile:
    """A figure at the top of the page."""

    name: str
    value: str
    detail: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class _Plotly:
    """plotly.js, gzip in base64: less than half of it; and the hash of its text."""

    packed: str
    hash: str


def render_page(summary: Summary, findings: tuple[Finding, ...], options: PageOptions) -> str:
    """The whole HTML document. The same input gives the same document."""
    environment = _environment()
    currency = options.currency
    views = scopes(summary, currency)
    costly = sorted(
        (each for each in summary.groups if each.cost_per_month),
        key=lambda each: (-(each.cost_per_month or 0), each.cluster, each.group),
    )[: options.top]
    data = {
        "views": views.views,
        "what_if": charts.what_if_chart(summary.scenarios, currency) if summary.scenarios else None,
        "top_groups": charts.groups_chart(costly, currency) if costly else None,
        "groups": group_columns(summary.groups),
        "currency": currency.prefix,
    }
    script = _source(environment, "page.js")
    return environment.get_template("page.html.j2").render(
        options=options,
        currency=currency,
        words=wording,
        summary=summary,
        findings=findings,
        tiles=_tiles(summary, currency),
        period=_period(summary),
        what_if_period=_what_if_period(summary),
        views=views,
        span=span_text(views.span),
        costly=costly,
        kinds=[(wording.KIND_NAMES[kind], summary.of_kind(kind)) for kind in KINDS],
        reliability=reliability,
        consumed=reliability.of(summary.consumed),
        hours_per_month=HOURS_PER_MONTH,
        hours_to_extrapolate=HOURS_TO_EXTRAPOLATE,
        several_clusters=len({each.cluster for each in summary.groups}) > 1,
        data=data,
        style=Markup(_source(environment, "page.css")),
        plotly=_plotly().packed,
        script=Markup(script),
        hashes=[_plotly().hash, _hash(script)],
    )


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("rack_traffic.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def _source(environment: Environment, name: str) -> str:
    """A template's text as it is: style and script are no templates."""
    loader = environment.loader
    assert loader is not None
    return loader.get_source(environment, name)[0]


@cache
def _plotly() -> _Plotly:
    script = get_plotlyjs()
    packed = gzip.compress(script.encode(), 9, mtime=0)
    return _Plotly(base64.b64encode(packed).decode(), _hash(script))


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _tiles(summary: Summary, currency: Currency) -> list[_Tile]:
    consumed = summary.consumed
    monthly, saving = summary.cost_per_month_now, summary.saving_per_month
    over = f"{currency.text(consumed.cost)} in the period measured"
    tiles = [
        _Tile("Cost of crossing, per month", currency.text(monthly), over, "crossing")
        if monthly is not None
        else _Tile(
            "Cost of crossing, in this period", currency.text(consumed.cost), "groups' reads"
        )
    ]
    if saving is None:
        tiles.append(_Tile("Could be saved, per month", "not known", "no what-if was given"))
    else:
        changed = sum(
            1 for each in summary.groups if each.change and each.change.saving_per_month > 0
        )
        by = f"by changing {wording.count(changed, 'group')} of {len(summary.groups):,}"
        tiles.append(_Tile("Could be saved, per month", currency.text(saving), by, "local"))
    known = consumed.local_bytes + consumed.crossing_bytes
    tiles.append(
        _Tile(
            "Of what groups read, crosses racks",
            wording.percent(consumed.crossing_share),
            f"{wording.bytes_text(consumed.crossing_bytes)} of {wording.bytes_text(known)}",
        )
    )
    sure = reliability.of(consumed)
    parts = (
        ("exact", sure.exact),
        ("estimated", sure.estimated),
        ("of unknown rack", sure.unknown),
    )
    told = ", ".join(f"{wording.percent(part)} {name}" for name, part in parts if part)
    tiles.append(_Tile("How sure", sure.words, told or reliability.EXPLAINED[sure.level]))
    return tiles


def _period(summary: Summary) -> str | None:
    if not summary.clusters:
        return None
    first = min(each.first for each in summary.clusters)
    end = max(each.last for each in summary.clusters) + timedelta(hours=1)
    return f"{wording.time_text(first)} to {wording.time_text(end)} UTC"


def _what_if_period(summary: Summary) -> str | None:
    if summary.whatif_from is None or summary.whatif_until is None:
        return None
    first, end = wording.time_text(summary.whatif_from), wording.time_text(summary.whatif_until)
    return f"{first} to {end} UTC"
