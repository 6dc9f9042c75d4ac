"""docs/reference/commands has a page for each command."""

from __future__ import annotations

from pathlib import Path

from rackward.cli.main import COMMANDS

DOCS = Path(__file__).parents[1] / "docs"


def test_each_command_has_a_page_in_the_navigation() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    pages = sorted((DOCS / "reference" / "commands").glob("*.md"))
    assert [page.stem for page in pages] == sorted(COMMANDS)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text == f"# rackward {page.stem}\n\n<!-- command -->\n"
        assert f"- rackward {page.stem}: {page.relative_to(DOCS).as_posix()}\n" in navigation
