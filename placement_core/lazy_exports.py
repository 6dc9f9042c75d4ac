"""Names that a package exports, and imports when they are first used.

A consumer of a group needs numpy only if it leads the group. An ``__init__.py`` that imported all
that it exports would import numpy, and three times the modules, with anything else of its package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, exports: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` (PEP 562) of ``package`` for names that it imports lazily.

    ``exports`` are the names by the module that defines them.
    """
    modules = {name: module for module, names in exports.items() for name in names}

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return import_name
