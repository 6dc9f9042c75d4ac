"""Hooks of the site's build: titles of links, the help of commands, and a check of what is loaded.

`mkdocs.yml` names this file. A link whose text is a file name gets the page's title. The page
``reference/commands.md`` gets the help of every command.
The build fails if a page would load a script, a style, a font or an image from another host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.exceptions import PluginError

from rackward.cli.main import app

COMMANDS_PAGE = "reference/commands.md"
COMMANDS_MARK = "<!-- commands -->"

_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s\"'>]+"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|preconnect|icon))"
    r"[^>]*\bhref=[\"']?(?:https?:)?//[^\s\"'>]+"
    r"|(?:@import|url\()\s*[\"']?(?:https?:)?//[^\s\"')]+"
)


def on_page_markdown(markdown: str, page: Any, config: Any, **_: object) -> str:
    """Return the page with titles in its links, and with the commands if it is their page."""
    titles = dict(_titles(config["nav"]))
    markdown = re.sub(
        r"\[([\w-]+\.md)\]\(", lambda link: f"[{titles.get(link[1], link[1])}](", markdown
    )
    if page.file.src_uri != COMMANDS_PAGE:
        return markdown
    return markdown.replace(COMMANDS_MARK, "\n".join(commands()))


def _titles(entry: Any) -> Iterator[tuple[str, str]]:
    """Yield file and title of each page in a part of the navigation."""
    if isinstance(entry, dict):
        for title, value in entry.items():
            yield from [(value, title)] if isinstance(value, str) else _titles(value)
    else:
        for each in entry:
            yield from _titles(each)


def commands() -> Iterator[str]:
    """Yield a heading and the help of each command and its subcommands, as Markdown."""
    root = typer.main.get_command(app)
    yield from _help(root, "rackward", None)


def _help(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=76)
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context).strip()}\n```\n"
    for each in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _help(command.get_command(context, each), each, context)


def on_post_build(config: Any, **_: object) -> None:
    """Raise PluginError if a file of the site loads something from another host."""
    for path in sorted(Path(config["site_dir"]).rglob("*")):
        if path.suffix in (".html", ".css"):
            text = re.sub(r"<pre>.*?</pre>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            if found := _LOADED.search(text):
                raise PluginError(f"{path} loads from another host: {found[0][:200]}")
