"""docs/reference/json.md has the fields of the JSON that commands print."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from rack_traffic.report.export import SCHEMAS, summary_json
from rack_traffic.report.findings import findings
from rack_traffic.report.format import Currency
from rack_traffic.report.model import Traffic
from rackward.cli.main import app
from tests.support.traffic_report import change, group, summary_of
from tests.test_documentation import leaf_commands

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "reference" / "json.md").read_text(encoding="utf-8")
OF_TABLES = {"rackward traffic run", "rackward traffic what-if"}
"""Commands whose JSON repeats what the pipeline's tables have (docs/traffic.md)."""


CROSSES = Traffic(local_bytes=40, crossing_bytes=60, cost=6.0)


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    """The module that generates parts of the page."""
    spec = importlib.util.spec_from_file_location("docs_hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_with_json_is_on_the_page(hooks: ModuleType) -> None:
    page = PAGE.replace(hooks.JSON_MARK, "\n".join(hooks.json_reference()))
    commands = {
        context.command_path
        for context in leaf_commands()
        if any("--json" in option.opts for option in context.command.params)
    }
    missing = {
        name for name in commands if f"- `{name}`: [" not in page and f"## {name}\n" not in page
    }
    assert missing == OF_TABLES
    # Links of types lead to their headings.
    linked = set(re.findall(r"\]\(#([\w-]+)\)", page))
    headings = {each.lower().replace(" ", "-") for each in re.findall(r"^## (.*)$", page, re.M)}
    assert linked <= headings


def test_each_field_that_a_docstring_describes_exists(hooks: ModuleType) -> None:
    root: Any = typer.main.get_command(app)
    types: dict[str, Any] = {}
    for _, command in hooks._commands_of(root, typer.Context(root), "rackward"):
        for each in getattr(command.callback, "results", ()):
            hooks._collect(each, types)
    for name, kind in types.items():
        fields = {name for pair in hooks._encoded_names(kind) for name in pair}
        described = {
            term.strip()
            for terms, _ in hooks._TERM.findall(hooks.inspect.getdoc(kind) or "")
            for term in terms.split(",")
        }
        assert described <= fields, name


def test_the_fields_of_the_report(hooks: ModuleType) -> None:
    page = PAGE.replace(hooks.REPORT_MARK, "\n".join(hooks.report_reference()))
    section = page[page.index("## rackward traffic report") :]
    top, *lists = re.split(r"^### ", section, flags=re.MULTILINE)
    rows = re.findall(r"^\| (`.*?) \|", top, re.MULTILINE)
    summary = summary_of(group("billing", CROSSES, change(50.0)))
    document = summary_json(summary, findings(summary, Currency()), Currency())
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == document.keys()
    (changes,) = document["changes"]
    (described,) = re.findall(r"^\| `changes` \| (.*) \|$", top, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", described)) == changes.keys()
    for text in lists:
        name, rest = text.split("\n", 1)
        fields = set(re.findall(r"^\| `(\w+)` \|", rest, re.MULTILINE))
        assert fields == SCHEMAS[name].keys()
        for row in document[name] or ():
            assert fields == {*row, *(row.get("change") or ())} - {"change"}
