"""Hooks of the site's build: titles of links, the help of commands, and a check of what is loaded.

`mkdocs.yml` names this file. A link whose text is a file name gets the page's title. The page
``reference/commands.md`` gets a list of the commands, those in ``reference/commands/`` their help,
and ``reference/json.md`` the fields of their JSON. The build fails if a page would load a script, a
style, a font or an image from another host.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pyarrow as pa
import typer
from mkdocs.exceptions import PluginError

from rack_traffic.report.export import SCHEMAS
from rackward.cli.main import COMMANDS, app

COMMANDS_MARK = "<!-- commands -->"
COMMAND_MARK = "<!-- command -->"
JSON_MARK = "<!-- json -->"
REPORT_MARK = "<!-- report -->"

_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s\"'>]+"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|preconnect|icon))"
    r"[^>]*\bhref=[\"']?(?:https?:)?//[^\s\"'>]+"
    r"|(?:@import|url\()\s*[\"']?(?:https?:)?//[^\s\"')]+"
)


def on_page_markdown(markdown: str, page: Any, config: Any, **_: object) -> str:
    """Return the page with titles in its links, and with what is generated for it."""
    titles = dict(_titles(config["nav"]))
    markdown = re.sub(
        r"\[([\w-]+\.md)\]\(", lambda link: f"[{titles.get(link[1], link[1])}](", markdown
    )
    match page.file.src_uri:
        case "reference/commands.md":
            return markdown.replace(COMMANDS_MARK, "\n".join(commands()))
        case page_of_command if page_of_command.startswith("reference/commands/"):
            return markdown.replace(COMMAND_MARK, "\n".join(help_of(Path(page_of_command).stem)))
        case "reference/json.md":
            markdown = markdown.replace(JSON_MARK, "\n".join(json_reference()))
            return markdown.replace(REPORT_MARK, "\n".join(report_reference()))
    return markdown


def _titles(entry: Any) -> Iterator[tuple[str, str]]:
    """Yield file and title of each page in a part of the navigation."""
    if isinstance(entry, dict):
        for title, value in entry.items():
            yield from [(value, title)] if isinstance(value, str) else _titles(value)
    else:
        for each in entry:
            yield from _titles(each)


def commands() -> Iterator[str]:
    """Yield the command without arguments, and a link to the page of each, as Markdown."""
    root = typer.main.get_command(app)
    context = root.context_class(root, info_name="rackward", terminal_width=76)
    for name, summary in COMMANDS.items():
        yield f"- [`rackward {name}`](commands/{name}.md): {summary}"
    yield f"\n```text\n{root.get_help(context).strip()}\n```\n"


def help_of(name: str) -> Iterator[str]:
    """Yield the help of a command and of its subcommands, each below a heading, as Markdown."""
    root: Any = typer.main.get_command(app)
    context = root.context_class(root, info_name="rackward", terminal_width=76)
    yield from _help(root.get_command(context, name), name, context)


def _help(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=76)
    # The heading of the page is that of its command.
    heading = f"## {context.command_path}\n\n" if parent.parent is not None else ""
    yield f"{heading}```text\n{command.get_help(context).strip()}\n```\n"
    for each in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _help(command.get_command(context, each), each, context)


# ---- The JSON of commands.

# A term of a docstring and its indented text.
_TERM = re.compile(r"^([\w, ]+)\n((?: {4}.*(?:\n|$))+)", re.MULTILINE)
_SIMPLE = {str: "text", int: "integer", float: "number", bool: "true or false", type(None): "null"}


def json_reference() -> Iterator[str]:
    """Yield the types that the JSON of each command consists of, and their fields, as Markdown."""
    root = typer.main.get_command(app)
    types: dict[str, type] = {}
    for name, command in _commands_of(root, typer.Context(root), "rackward"):
        if results := getattr(command.callback, "results", ()):
            links = ", ".join(f"[{each.__name__}](#{each.__name__.lower()})" for each in results)
            yield f"- `{name}`: {links}"
            for each in results:
                _collect(each, types)
    for name in sorted(types):
        yield ""
        yield from _type_lines(types[name])


def _commands_of(group: Any, context: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and the command of each command below a click group."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from _commands_of(command, context, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _is_object(hint: Any) -> bool:
    return inspect.isclass(hint) and (issubclass(hint, msgspec.Struct) or is_dataclass(hint))


def _collect(hint: Any, types: dict[str, type]) -> None:
    """Add the object types that a type consists of."""
    if _is_object(hint) and hint.__name__ not in types:
        types[hint.__name__] = hint
        for each in get_type_hints(hint).values():
            _collect(each, types)
    for argument in get_args(hint):
        _collect(argument, types)


def _type_lines(kind: Any) -> Iterator[str]:
    documentation = inspect.getdoc(kind) or ""
    described = {
        name.strip(): " ".join(text.split())
        for terms, text in _TERM.findall(documentation)
        for name in terms.split(",")
    }
    yield f"## {kind.__name__}\n\n{_TERM.sub('', documentation).strip()}\n"
    yield "| field | type | |\n|---|---|---|"
    hints = get_type_hints(kind)
    for name, encoded in _encoded_names(kind):
        text = (described.get(encoded) or described.get(name, "")).replace("|", "\\|")
        yield f"| `{encoded}` | {_type_text(hints[name])} | {text.replace('``', '`')} |"


def _encoded_names(kind: Any) -> list[tuple[str, str]]:
    if is_dataclass(kind):
        return [(each.name, each.name) for each in fields(kind)]
    return [(each.name, each.encode_name) for each in msgspec.structs.fields(kind)]


def _type_text(hint: Any) -> str:
    """Return what a type is in JSON."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if _is_object(hint):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return ", ".join(f"`{each.value}`" for each in hint)
    if inspect.isclass(hint) and hasattr(hint, "_fields"):
        return f"[{', '.join(hint._fields)}]"
    arguments = get_args(hint)
    origin = getattr(hint, "__origin__", None)
    if origin is None:
        return " or ".join(map(_type_text, arguments))
    if len(arguments) == 2 and arguments[1] is not ...:
        if origin is tuple:
            return f"[{', '.join(map(_type_text, arguments))}]"
        return f"object of {_type_text(arguments[1])}"
    return f"list of {_type_text(arguments[0])}"


def report_reference() -> Iterator[str]:
    """Yield the fields of the lists in the JSON of ``rackward traffic report``, as Markdown."""
    kinds = {pa.int64(): "integer", pa.float64(): "number", pa.string(): "text"}
    for name, columns in SCHEMAS.items():
        yield f"\n### {name}\n\n| field | type |\n|---|---|"
        for column, kind in columns.items():
            yield f"| `{column}` | {kinds.get(kind, 'time')} |"


# ---- The check of the built site.


def on_post_build(config: Any, **_: object) -> None:
    """Raise PluginError if a file of the site loads something from another host."""
    for path in sorted(Path(config["site_dir"]).rglob("*")):
        if path.suffix in (".html", ".css"):
            text = re.sub(r"<pre>.*?</pre>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            if found := _LOADED.search(text):
                raise PluginError(f"{path} loads from another host: {found[0][:200]}")
