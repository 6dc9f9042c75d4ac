"""The audit of groups as one HTML page, which works offline and has no scripts.

Names from clusters are untrusted input: all text is escaped, and a content security policy permits
nothing but the page's own style sheet, which is that of ``rackward traffic report``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from html import escape
from importlib.resources import files

from placement_core.audit import Severity
from rack_traffic.report.format import Currency, percent, time_text
from rackward.cli.audit import (
    NO_GROUPS,
    bytes_a_day,
    client_text,
    cost,
    headline,
    is_hypothetical,
    locality,
    notes,
)
from rackward.cli.output import escape_controls
from rackward.groups.audit_report import AuditReport, CrossRackReads, GroupAudit
from rackward.groups.next_steps import NextStep
from rackward.units import format_count

TITLE = "Consumer groups across racks"
MAX_FINDINGS = 50
"""Maximum number of findings of the placement; ``rackward placement check`` has all."""

_STYLE = """
code { display: block; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13px;
  background: var(--soft); border-radius: 4px; padding: 4px 8px; margin-top: 4px; }
td.group { font-weight: 600; min-width: 150px; }
td.group span, td .was { display: block; font-weight: 400; color: var(--muted); font-size: 13px; }
td.steps { min-width: 280px; padding-left: 14px; }
td.better { color: var(--saving-text); font-weight: 600; }
footer { padding-top: 20px; padding-bottom: 40px; color: var(--muted); font-size: 13.5px; }
.faults { color: var(--crossing-text); }
.tiles { grid-template-columns: repeat(3, 1fr); }
@media (min-width: 721px) { .findings li { grid-template-columns: 74px 1fr; } }
@media (max-width: 720px) {
  table.cards td.partitions { display: none; }
  table.cards td.change::before { content: none; }
}
@media (max-width: 760px) { .tiles { grid-template-columns: 1fr; } .tile { border-left: 0; } }
"""


def render_page(report: AuditReport, generated_at: datetime) -> str:
    """Return the HTML document; ``generated_at`` is in UTC."""
    currency = Currency(report.currency)
    style = (files("rack_traffic.report") / "templates" / "style.css").read_text() + _STYLE
    body = [
        f'<header class="top"><h1>{TITLE}</h1><p class="meta">{_text(headline(report))} &middot; '
        f"{time_text(generated_at)} UTC</p></header>",
        '<main id="main">',
        _tiles(report, currency),
        _groups(report, currency),
        _findings(report),
        "</main><footer>",
        *(f"<p>{_text(line)}</p>" for line in report.rates.assumptions),
        *(f'<p class="faults">Not read: {_text(fault)}</p>' for fault in report.faults),
        "<p>The figures are the share of partitions that are read in their leader&#x27;s rack, and "
        "the cost of the others: now; with an assignment by the racks of leaders, which the solver "
        "proves to be the best that is balanced, in parentheses if the group&#x27;s client cannot "
        "have it; and with leaders moved as well.</p></footer>",
    ]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" content="default-src &#x27;none&#x27;; '
            "style-src &#x27;unsafe-inline&#x27;; img-src data:; base-uri &#x27;none&#x27;; "
            'form-action &#x27;none&#x27;">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="referrer" content="no-referrer">',
            f'<title>{TITLE}</title>\n<link rel="icon" href="data:,">',
            f"<style>{style}</style>\n</head>\n<body>",
            *body,
            "</body>\n</html>\n",
        ]
    )


def _text(text: str) -> str:
    return escape(escape_controls(text))


def _tiles(report: AuditReport, currency: Currency) -> str:
    now, after = report.totals.now, report.totals.layout or CrossRackReads()
    known = sum(row.rate for row in report.groups)
    share = f"; {percent(now.crossing / known)} of all bytes cross racks now" if known else ""
    saving = max(0.0, now.cost - after.cost)
    changed = sum(bool(row.steps) for row in report.groups)
    tiles = (
        ("Across racks, a month", currency.text(now.cost), _a_day(now), "crossing"),
        ("After all steps, a month", currency.text(after.cost), _a_day(after), ""),
        (
            "Possible saving, a month",
            currency.text(saving),
            f"by changing {format_count(changed, 'group')}{share}",
            "local",
        ),
    )
    shown = "".join(
        f'<div class="tile {tone}"><dt>{_text(name)}</dt><dd><strong>{_text(value)}</strong>'
        f"<span>{_text(detail)}</span></dd></div>"
        for name, value, detail, tone in tiles
    )
    return f'<dl class="tiles">{shown}</dl>'


def _a_day(reads: CrossRackReads) -> str:
    return f"{bytes_a_day(reads.crossing)} a day, {format_count(reads.off_rack, 'partition')}"


def _groups(report: AuditReport, currency: Currency) -> str:
    if not report.groups:
        return f'<section class="panel"><p class="empty">{_text(NO_GROUPS)}</p></section>'
    rows = "\n".join(_row(row, currency) for row in report.groups)
    heads = "".join(
        f'<th scope="col"{style}>{name}</th>'
        for name, style in (
            ("group", ""),
            ("partitions", ' class="n"'),
            ("now", ' class="n"'),
            ("assignor", ' class="n"'),
            ("+ leaders", ' class="n"'),
            ("next step", ""),
        )
    )
    return (
        '<section class="panel" id="groups"><h2>Groups</h2><p class="about">Sorted by cost. Local '
        'partitions, and cost per month.</p><div class="scroll"><table class="cards"><thead><tr>'
        f"{heads}</tr></thead><tbody>\n{rows}\n</tbody></table></div></section>"
    )


def _row(row: GroupAudit, currency: Currency) -> str:
    title = f'<td class="group">{_text(row.group)}<span>{_text(client_text(row))}</span></td>'
    if row.now is None:
        reason = _text("; ".join(notes(row)))
        return f'<tr>{title}<td class="empty change" colspan="5">{reason}</td></tr>'
    missing = "".join(f'<p class="faults">{_text(note)}</p>' for note in notes(row))
    figures = "".join(
        f'<td class="n{_tone(row, name, reads)}" data-name="{name}">{_text(share)}'
        f'<span class="was">{_text(cost(row, reads, currency))}</span></td>'
        for name, share, reads in (
            ("now", locality(row, row.now), row.now),
            ("assignor", locality(row, row.assignor), row.assignor),
            ("+ leaders", locality(row, row.layout), row.layout),
        )
    )
    return (
        f'<tr>{title}<td class="n partitions">{row.partitions:,}</td>{figures}'
        f'<td class="steps change">{missing}{_steps(row.steps)}{_reasons(row)}</td></tr>'
    )


def _tone(row: GroupAudit, name: str, reads: CrossRackReads | None) -> str:
    """Return the class of a figure that the group can reach, and that is better than now."""
    if name == "assignor" and is_hypothetical(row):
        return ""
    better = reads is not None and row.now is not None and reads.off_rack < row.now.off_rack
    return " better" if better else ""


def _steps(steps: Iterable[NextStep]) -> str:
    texts = [
        f"<p>{_text(step.text)}</p>" + "".join(f"<code>{_text(line)}</code>" for line in step.lines)
        for step in steps
    ]
    return "".join(texts) or '<p class="empty">nothing</p>'


def _reasons(row: GroupAudit) -> str:
    """Return why partitions are off-rack, folded up."""
    if not row.findings:
        return ""
    lines = [f"<li>{finding.count:,}: {_text(finding.why)}</li>" for finding in row.findings]
    return f"<details><summary>Why</summary><ul>{''.join(lines)}</ul></details>"


def _findings(report: AuditReport) -> str:
    if not report.findings:
        return ""
    tones = {Severity.CRITICAL: "act", Severity.WARNING: "check", Severity.NOTICE: ""}
    items = "\n".join(
        f'<li class="{tones[each.severity]}"><span class="priority">{each.severity.value}</span>'
        f"<div><h3>{_text(each.subject)}</h3><p>{_text(each.message)}</p></div></li>"
        for each in report.findings[:MAX_FINDINGS]
    )
    hidden = len(report.findings) - MAX_FINDINGS
    more = f'<p class="about">... and {hidden:,} more: rackward placement check</p>'
    return (
        f'<section><h2>Findings of the layout</h2><ul class="findings">{items}</ul>'
        f"{more if hidden > 0 else ''}</section>"
    )
