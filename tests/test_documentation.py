"""Code, commands, configuration, links and names in README.md, docs/ and other pages are valid."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from assignors.connection import read_properties
from rackward.cli.main import COMMANDS, app
from rackward.collector.config import ClusterSource, read_sources
from rackward.controller.config import read_config

ROOT = Path(__file__).parents[1]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
    *sorted((ROOT / "deploy").glob("*.md")),
)
CHECKED = ("python", "sh", "yaml", "toml", "properties")
UNCHECKED = ("text", "sql", "promql", "csv")
"""Languages of blocks."""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(
            r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL
        ):
            lines = [line.removeprefix(match[1]) for line in match[3].splitlines()]
            line = text.count("\n", 0, match.start()) + 1
            yield Block(page.relative_to(ROOT).as_posix(), line, match[2], "\n".join(lines) + "\n")


BLOCKS = list(blocks())


yaml: Any = importlib.import_module("yaml")

Test = Callable[..., None]


def blocks_of(language: str) -> Callable[[Test], Test]:
    found = [block for block in BLOCKS if block.language == language]
    return pytest.mark.parametrize("block", found, ids=lambda each: f"{each.page}:{each.line}")


def test_every_block_names_its_language() -> None:
    known = {*CHECKED, *UNCHECKED}
    unknown = [f"{each.page}:{each.line}" for each in BLOCKS if each.language not in known]
    assert unknown == []
    for language in CHECKED:
        assert any(each.language == language for each in BLOCKS), language


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_table_has_a_header(page: Path) -> None:
    """An empty line within a table would end it, and show its other rows as text."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for table in re.findall(r"^(?:\|.*\n)+", text, re.MULTILINE):
        assert re.match(r"\|.*\n\|[-| :]+\|\n\|", table), table


# ---- Python: every block compiles, and what it imports exists.


@blocks_of("python")
def test_python(block: Block) -> None:
    tree = compile(
        block.text,
        f"{block.page}:{block.line}",
        "exec",
        flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
    )
    if block.page == "docs/frameworks.md":
        return  # integration/lead/test_frameworks.py runs it, where the frameworks are installed.
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)


def test_the_example_of_the_algorithm_checks_itself() -> None:
    """The blocks of the page are one program, with assertions."""
    variables: dict[str, Any] = {}
    program = [
        block
        for block in BLOCKS
        if block.page == "docs/algorithm.md" and block.language == "python"
    ]
    assert any("assert " in block.text for block in program)
    for block in program:
        exec(compile(block.text, f"{block.page}:{block.line}", "exec"), variables)


# ---- Commands: they exist, with these options and arguments.

ROOT_COMMAND = typer.main.get_command(app)
QUESTIONS = {"-h", "--help", "--version", "--install-completion", "--show-completion"}
"""Options that end the command while it is parsed."""


def parse_command(words: list[str]) -> None:
    """Parse the words after ``rackward``; raise UsageError for what does not exist."""
    command, context, words = ROOT_COMMAND, None, list(words)
    if QUESTIONS & set(words):
        _, rest = find_command([word for word in words if not word.startswith("-")])
        assert rest == [], words
        return
    name = "rackward"
    while True:
        context = command.make_context(name, words, parent=context)
        if not hasattr(command, "get_command"):
            return
        name, *words = [*context._protected_args, *context.args]
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {context.command_path} {name}"
        command = found


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that the words begin with, and the words after its name."""
    command: Any = ROOT_COMMAND
    while words and hasattr(command, "get_command"):
        found = command.get_command(None, words[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words


def commands_of(text: str) -> Iterator[list[str]]:
    """Yield the commands of a shell block as words: without comments, of every part of a pipe."""
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r"\s(?:\|\|?|&&|;|&)\s|\s&$", line.removeprefix("$ ")):
            words = shlex.split(re.split(r"\s\d?>+\s*\S+", part)[0], comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words = words[1:]
            if words:
                yield words


@blocks_of("sh")
def test_commands(block: Block) -> None:
    for words in commands_of(block.text):
        check_command(words)


def check_command(words: list[str]) -> None:
    name = words[0].removeprefix(".venv/bin/")
    match [name, *words[1:]]:
        case ["rackward", *rest] | ["docker", "run", "--rm", "rackward", *rest]:
            parse_command(rest)
        case ["make", *rest]:
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            for target in rest:
                assert "=" in target or re.search(rf"^{target}:", makefile, re.MULTILINE), target
        case ["python", "-m", "pytest", *rest] | ["pytest", *rest]:
            for path in rest:
                if path.startswith(("tests", "integration")):
                    assert (ROOT / path.partition("::")[0]).exists(), path
        case ["python", "-m", module, *_]:
            assert importlib.util.find_spec(module) is not None, module
        case ["pip", "install", *rest]:
            for requirement in rest:
                check_requirement(requirement)


def check_requirement(text: str) -> None:
    """Assert that the extras exist, if the requirement is rackward, and the folder otherwise."""
    if found := re.fullmatch(r"rackward\[([a-z,-]+)\]", text):
        extras = PROJECT["project"]["optional-dependencies"]
        assert set(found[1].split(",")) <= extras.keys(), text
    elif text.startswith("./"):
        assert (ROOT / text / "pyproject.toml").exists(), text


COMMANDS_IN_TEXT = [
    pytest.param(" ".join(match[1].split()), id=f"{page.name}: {match[1][:50]}")
    for page in PAGES
    for match in re.finditer(
        r"(?<!`)`(rackward [^`]+)`(?!`)",
        re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S),
    )
]


@pytest.mark.parametrize("text", COMMANDS_IN_TEXT)
def test_commands_in_the_text(text: str) -> None:
    """Commands in a sentence may lack arguments; their names and options exist."""
    words = [word for word in shlex.split(text)[1:] if word not in ("|", "...")]
    command, rest = find_command(words)
    if hasattr(command, "get_command") and rest:
        assert rest[0].startswith("-") or rest[0].isupper(), f"no command {rest[0]}"
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    for word in words:
        if word.startswith("-"):
            assert word.partition("=")[0] in {*options, "--help"}, f"{text}: no option {word}"


# ---- The help of commands.


def leaf_commands(
    command: Any = ROOT_COMMAND, name: str = "rackward", parent: Any = None
) -> Iterator[Any]:
    """Yield a context for each command that has no subcommands."""
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=80)
    if not hasattr(command, "list_commands"):
        yield context
        return
    for each in command.list_commands(context):
        yield from leaf_commands(command.get_command(context, each), each, context)


@pytest.mark.parametrize("context", list(leaf_commands()), ids=lambda each: each.command_path)
def test_help(context: Any) -> None:
    """It fits 80 columns, names its exit statuses, and has examples that parse."""
    text = context.command.get_help(context)
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "Exit status: " in " ".join(text.split())
    examples = re.findall(r"^ +(rackward .*)$", text[text.index("Options:") :], re.MULTILINE)
    mine = [
        words
        for words in map(shlex.split, examples)
        if " ".join(words).startswith(context.command_path)
    ]
    assert mine
    for words in mine:
        parse_command(words[1:])


# ---- Configuration: the program's own loaders read it.


@blocks_of("yaml")
def test_yaml(block: Block, tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all(block.text))
    assert all(isinstance(each, dict | list) for each in documents)
    file = tmp_path / "config.yaml"
    file.write_text(block.text, encoding="utf-8")
    if "cluster" in documents[0]:
        read_config(file, no_properties, dict)
    elif "clusters" in documents[0]:
        read_sources(file, no_properties, ClusterSource("", {}))


def no_properties(_: Path) -> dict[str, str]:
    """Stand for the file that ``command_config`` names."""
    return {}


@blocks_of("toml")
def test_toml(block: Block) -> None:
    tomllib.loads(block.text)


@blocks_of("properties")
def test_properties(block: Block) -> None:
    assert read_properties(block.text)


# ---- Links.


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {
        re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower()).strip())
        for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = page if not path else (page.parent / path).resolve()
        assert file.exists(), f"{target}: there is no such file"
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{target}: no such heading"


# ---- Files and functions.


def test_paths_in_contributing_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:\.ci|[a-z_]+)/[a-zA-Z_./]*)`", text))
    assert len(paths) > 15
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_functions_in_contributing_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(?:[A-Za-z]+\.)?([a-z_]+)\(\)`", text))
    assert len(names) > 20
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    files = [path for name in packages for path in (ROOT / name).rglob("*.py")]
    source = "\n".join(path.read_text(encoding="utf-8") for path in files)
    assert [name for name in sorted(names) if f"def {name}(" not in source] == []


def test_each_command_has_a_page_in_the_navigation() -> None:
    docs = ROOT / "docs"
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = sorted((docs / "reference" / "commands").glob("*.md"))
    assert [page.stem for page in pages] == sorted(COMMANDS)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text == f"# rackward {page.stem}\n\n<!-- command -->\n"
        assert f"- rackward {page.stem}: {page.relative_to(docs).as_posix()}\n" in navigation
