"""Commands that are imported when they are asked for.

Each needs other libraries, and all of them together take longer to import than most commands
take to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


def lazy_group(commands: Mapping[str, str]) -> type[TyperGroup]:
    """A group of ``commands``: name to where its Typer is, as ``"module:attribute"``.

    They are listed in the order that is given. Their Typers must not add options for completion.
    """

    class LazyGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            # What a mistyped name is compared with.
            self.commands: Any = dict.fromkeys(commands)

        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
            return list(commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
            place = commands.get(cmd_name)
            if place is None:
                return None
            module, _, attribute = place.partition(":")
            command = typer.main.get_command(getattr(import_module(module), attribute))
            command.name = cmd_name
            return command

    return LazyGroup
