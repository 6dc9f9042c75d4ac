"""The audit of groups as one HTML page, which works offline and has no scripts.

It extends the page of ``rackward traffic report``. Names from clusters are untrusted input: Jinja2
escapes all text, and a content security policy permits nothing but the page's own style sheet.
"""

from __future__ import annotations

from datetime import datetime
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rack_traffic.report.format import Currency, percent, time_text
from rackward.cli import audit
from rackward.cli.output import escape_controls
from rackward.groups.audit_report import AuditReport
from rackward.units import format_count

TITLE = "Consumer groups across racks"
MAX_FINDINGS = 50
"""Maximum number of findings of the placement; ``rackward placement check`` has all."""


def render_page(report: AuditReport, generated_at: datetime) -> str:
    """Return the HTML document; ``generated_at`` is in UTC."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("rackward.cli"), PackageLoader("rack_traffic.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            escape_controls(value)
            if isinstance(value, str) and not isinstance(value, Markup)
            else value
        ),
    )
    folders = files("rack_traffic.report"), files("rackward.cli")
    styles = zip(folders, ("style.css", "audit.css"), strict=True)
    style = "\n".join((folder / "templates" / name).read_text() for folder, name in styles)
    now, layout = report.totals.now, report.totals.layout
    return environment.get_template("audit.html.j2").render(
        title=TITLE,
        style=Markup(style),
        script=None,
        audit=audit,
        report=report,
        generated_at=time_text(generated_at),
        currency=Currency(report.currency),
        share=percent(now.crossing / now.rate) if now.rate else None,
        rack_steps=[step for step in report.steps if step.kind in audit.RACK_STEPS],
        producer_steps=[step for step in report.steps if step.kind not in audit.RACK_STEPS],
        saving=0.0 if layout is None else now.cost - layout.cost,
        changed=sum(bool(row.steps) for row in report.groups),
        max_findings=MAX_FINDINGS,
        count=format_count,
        zip=zip,
    )
