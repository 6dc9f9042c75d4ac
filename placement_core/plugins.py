"""Classes chosen by name, with properties as ``key=value,...``: placers and rack locators."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from placement_core.errors import InvalidOptionError

_SEPARATOR = re.compile(r"(?<!\\),")
_WORDS_OF_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_properties(text: str) -> dict[str, str]:
    r"""``"a=1,b=x"`` as a dict; ``\,`` is a comma within a value. Raises InvalidOptionError.

    Values may be secrets: no message holds one.
    """
    found: dict[str, str] = {}
    for number, part in enumerate(_SEPARATOR.split(text) if text.strip() else [], 1):
        key, equals, value = part.replace("\\,", ",").partition("=")
        key = key.strip()
        if not equals or not key:
            raise InvalidOptionError(
                f"property {number} is not of the form key=value: separate properties by "
                r"commas, and write \, for a comma within a value"
            )
        if key in found:
            raise InvalidOptionError(f"the property {key} is given twice: give it once")
        found[key] = value.strip()
    return found


def read_properties(
    owner: str, properties: Mapping[str, str], **kinds: Callable[[str], Any]
) -> dict[str, Any]:
    """The properties as keyword arguments, converted. Raises InvalidOptionError.

    ``kinds`` has every property that ``owner`` knows and the function that reads its text.
    """
    if unknown := sorted(properties.keys() - kinds.keys()):
        raise InvalidOptionError(
            f"{owner} knows no property {', '.join(unknown)}: it takes {', '.join(kinds) or 'none'}"
        )
    read = {}
    for key, text in properties.items():
        try:
            read[key] = kinds[key](text)
        except ValueError as error:
            raise InvalidOptionError(
                f"{owner}: the property {key} cannot be read: {error}"
            ) from error
    return read


def truth(text: str) -> bool:
    """``true`` or ``false`` (yes, no, 1, 0). Raises ValueError."""
    try:
        return _WORDS_OF_TRUTH[text.strip().lower()]
    except KeyError:
        raise ValueError("write true or false") from None


def load_plugin(
    kind: str,
    name: str,
    properties: Mapping[str, str],
    builtin: Mapping[str, type],
    group: str,
    method: str,
) -> Any:
    """An instance of the class that ``name`` stands for.

    ``name`` is one of ``builtin``, an entry point of ``group``, or ``module:Class``. The class
    is made by its ``from_properties(properties)`` where it has one, and else takes the
    properties as keyword arguments, all strings. Raises InvalidOptionError, naming the
    ``kind`` and the name, for whatever goes wrong on the way and for a class without ``method``.
    """
    found = _find(kind, name, builtin, group)
    make = getattr(found, "from_properties", None)
    try:
        made = make(dict(properties)) if make else found(**properties)
    except InvalidOptionError:
        raise
    except Exception as error:
        raise InvalidOptionError(
            f"{kind} {name!r} cannot be made from the properties "
            f"{', '.join(sorted(properties)) or '(none)'}: {_told(error)}"
        ) from error
    if not callable(getattr(made, method, None)):
        raise InvalidOptionError(f"{kind} {name!r} has no method {method}: it cannot serve as one")
    return made


def _find(kind: str, name: str, builtin: Mapping[str, type], group: str) -> Callable[..., Any]:
    if name in builtin:
        return builtin[name]
    registered = {point.name: point for point in entry_points(group=group)}
    if name not in registered and ":" not in name:
        known = ", ".join([*builtin, *sorted(registered.keys() - builtin.keys())])
        raise InvalidOptionError(
            f"there is no {kind} {name!r}: choose one of {known}, or give module:Class"
        )
    try:
        found = registered[name].load() if name in registered else _load(name)
    except Exception as error:
        raise InvalidOptionError(f"{kind} {name!r} cannot be loaded: {_told(error)}") from error
    if not inspect.isclass(found) and not callable(found):
        raise InvalidOptionError(f"{kind} {name!r} is not a class: it is {found!r}")
    made: Callable[..., Any] = found
    return made


def _load(name: str) -> object:
    module, _, path = name.partition(":")
    found: object = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
