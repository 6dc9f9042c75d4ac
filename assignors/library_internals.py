"""Checks that an installed client library has the internals that an adapter relies on.

The adapters override and read private parts of kafka-python and aiokafka. Each adapter lists them
in one table, which is checked before the first use: a release that renamed one of them is then
reported by name and version, instead of failing somewhere in the middle of a rebalance.
"""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version as installed_version
from typing import Any

from placement_core import RackwardError

Internals = Mapping[Any, Sequence[str]]
"""Module or class to declarations, each of one of these forms:

``name``              an attribute of the module or class
``name(self, a, b)``  a function with exactly these parameters
``self.name``         an attribute that ``__init__`` of the class, or of a base, assigns
"""


class UnsupportedClientError(RackwardError):
    """The installed client library lacks an internal that an adapter relies on."""


def unsupported_import(error: ImportError, supported: str) -> UnsupportedClientError:
    """Return the error to raise if a library lacks a module, or a name in one.

    ``supported`` is the requirement that rackward was tested with, such as
    ``kafka-python>=3.0.8,<3.1``.
    """
    library = supported.partition(">=")[0]
    version = installed_version(library)
    return UnsupportedClientError(
        f"{library} {version} lacks what rackward imports ({error}): install '{supported}', or a"
        f" release of rackward that supports {library} {version}"
    )


def check_internals(internals: Internals, supported: str) -> None:
    """Raise UnsupportedClientError for a release that is too old, or lacks a declaration.

    For ``supported`` see `unsupported_import`.
    """
    library, _, releases = supported.partition(">=")
    version = installed_version(library)
    if _release(version) < _release(releases.partition(",")[0]):
        raise UnsupportedClientError(
            f"{library} {version} is older than rackward supports: install '{supported}'"
        )
    for owner, declarations in internals.items():
        for declaration in declarations:
            if not _has(owner, declaration):
                raise UnsupportedClientError(
                    f"{library} {version} has no {owner.__name__}.{declaration}, which rackward"
                    f" relies on: install '{supported}', or a release of rackward that supports"
                    f" {library} {version}"
                )


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"[0-9]+", version)[:3]))


def _has(owner: Any, declaration: str) -> bool:
    if declaration.startswith("self."):
        return declaration.removeprefix("self.") in _assigned_in_init(owner)
    name, parenthesis, parameters = declaration.partition("(")
    attribute = getattr(owner, name, None)
    if not parenthesis:
        return hasattr(owner, name)
    if not callable(attribute):
        return False
    return list(inspect.signature(attribute).parameters) == parameters.rstrip(")").split(", ")


def _assigned_in_init(owner: type) -> set[str]:
    """Return the names that ``self.name = ...`` in an ``__init__`` of the class assigns."""
    return {
        instruction.argval
        for base in owner.__mro__
        if inspect.isfunction(init := vars(base).get("__init__"))
        for instruction in dis.get_instructions(init)
        if instruction.opname == "STORE_ATTR"
    }
