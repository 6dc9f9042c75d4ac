"""Typer applications whose commands may take a group of options as one parameter.

A group is a dataclass whose fields are options, such as `rackward.cli.options.ClusterOptions`. A
command with a parameter of that class has the options of its fields, and gets one object::

    @app.command()
    def describe(topic: str, cluster: ClusterOptions) -> None: ...
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup


class App(typer.Typer):
    """A Typer whose commands may take groups of options."""

    def command(
        self, name: str | None = None, *, results: tuple[type, ...] = (), **settings: Any
    ) -> Callable[[Any], Any]:
        """Return a decorator that adds a command, as `typer.Typer.command` does.

        ``results`` are the types whose fields its JSON has, for the reference of the JSON.
        """
        register = super().command(name, cls=_PlainHelp, **settings)

        def add(function: Callable[..., None]) -> Callable[..., None]:
            command = with_options(function)
            command.results = results  # type: ignore[attr-defined]
            register(command)
            return function

        return add


def single_command() -> App:
    """Return an App for one command that `rackward.cli.main` adds by its own name."""
    return App(add_completion=False, rich_markup_mode=None)


def command_group(summary: str) -> App:
    """Return a group of commands without commands yet; ``summary`` is its help."""
    group = App(
        cls=_WholeSummaries,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        help=summary,
    )
    # Without a callback, typer would merge a single command into the group.
    group.callback()(lambda: None)
    return group


# Without the end of whole floats.
_NUMBER = r"(\d+(?:\.\d*[1-9])?)(?:\.0)?"


class _PlainHelp(TyperCommand):
    """A command whose help has ranges in words, and no types of Python."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for kind, title in (("argument", "Arguments"), ("option", "Options")):
            rows = [
                _plain_row(*row)
                for each in self.get_params(ctx)
                if each.param_type_name == kind and (row := each.get_help_record(ctx)) is not None
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _plain_row(name: str, help: str) -> tuple[str, str]:
    """Return a row of help without ``<list[str]>``, and with "1 to 9" in place of "1<=x<=9"."""
    help = re.sub(f"{_NUMBER}<=x<={_NUMBER}", r"\1 to \2", help)
    help = re.sub(f"x>={_NUMBER}", r"at least \1", help)
    help = re.sub(f"default: {_NUMBER}(?=[;\\]])", r"default: \1", help)
    return re.sub(r" <[a-z\[\]]+>$", "", name), help


class _WholeSummaries(TyperGroup):
    """A group whose help shows the first sentence of each command in full.

    Typer would cut it to the width of the terminal.
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(limit=1000))
                    for name in self.list_commands(ctx)
                    if (command := self.get_command(ctx, name)) is not None
                ]
            )


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return the command with a parameter for each option of its groups."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        options = [(name, hints[name], parameter.default)]
        if group := groups.get(name):
            of_group = get_type_hints(group, include_extras=True)
            options = [(each.name, of_group[each.name], each.default) for each in fields(group)]
        parameters += [
            inspect.Parameter(
                option,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if default is MISSING else default,
                annotation=hint,
            )
            for option, hint, default in options
        ]

    def command(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        function(**values)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__module__ = function.__module__
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command
