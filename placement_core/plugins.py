"""Placers, rack locators and price tables by name, with properties as ``key=value,...``."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from placement_core.errors import InvalidOptionError

_MODULE_AND_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_SEPARATOR = re.compile(r"(?<!\\),")
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def load_plugin(
    kind: str,
    name: str,
    properties: Mapping[str, str],
    builtin: Mapping[str, type],
    group: str,
    method: str,
) -> Any:
    """Return an instance of the class that ``name`` stands for.

    ``name`` is a key of ``builtin``, the name of an entry point in ``group``, or ``module:Class``.
    The instance comes from the class method ``from_properties(properties)`` if the class has one.
    Otherwise the class is called with the properties as keyword arguments, all of them strings.

    Raises InvalidOptionError, with ``kind`` (such as "placer") and name in the message, if
    the class is unknown, cannot be imported or constructed, or has no ``method``.
    """
    factory = _find(kind, name, builtin, group)
    from_properties = getattr(factory, "from_properties", None)
    try:
        plugin = from_properties(dict(properties)) if from_properties else factory(**properties)
    except InvalidOptionError:
        raise
    except Exception as error:
        raise InvalidOptionError(
            f"{kind} {name!r} cannot be made from the properties "
            f"{', '.join(sorted(properties)) or '(none)'}: {_message(error)}"
        ) from error
    if not callable(getattr(plugin, method, None)):
        raise InvalidOptionError(
            f"{kind} {name!r} has no method {method}: name a class that implements it"
        )
    return plugin


def plugin_name(plugin: object, builtin: Mapping[str, type]) -> str:
    """Return the name of a plug-in for messages: a key of ``builtin``, or ``module:Class``."""
    kind = type(plugin)
    names = [name for name, known in builtin.items() if kind is known]
    return names[0] if names else f"{kind.__module__}:{kind.__qualname__}"


def is_plugin(name: str, group: str) -> bool:
    """Return whether ``name`` is an entry point in ``group``, or of the form ``module:Class``."""
    return bool(_MODULE_AND_CLASS.fullmatch(name) or entry_points(group=group, name=name))


def parse_properties(text: str) -> dict[str, str]:
    r"""Parse ``"a=1,b=x"`` into a dict; ``\,`` is a comma within a value.

    Raises InvalidOptionError. Values may be secrets, so no message contains one.
    """
    properties: dict[str, str] = {}
    for number, part in enumerate(_SEPARATOR.split(text) if text.strip() else [], 1):
        key, equals, value = part.replace("\\,", ",").partition("=")
        key = key.strip()
        if not equals or not key:
            raise InvalidOptionError(
                f"property {number} is not of the form key=value: separate properties by "
                r"commas, and write \, for a comma within a value"
            )
        if key in properties:
            raise InvalidOptionError(f"the property {key} is given twice: give it once")
        properties[key] = value.strip()
    return properties


def read_properties(
    owner: str, properties: Mapping[str, str], **converters: Callable[[str], Any]
) -> dict[str, Any]:
    """Convert properties into keyword arguments.

    ``converters`` has an entry for every property that ``owner`` accepts; it raises ValueError for
    a value that it cannot convert. Raises InvalidOptionError for such a value and for unknown
    properties.
    """
    if unknown := sorted(properties.keys() - converters.keys()):
        raise InvalidOptionError(
            f"{owner} has no property {', '.join(unknown)}: it accepts "
            f"{', '.join(converters) or 'none'}"
        )
    arguments = {}
    for key, text in properties.items():
        try:
            arguments[key] = converters[key](text)
        except ValueError as error:
            raise InvalidOptionError(
                f"{owner}: the property {key} cannot be read: {error}"
            ) from error
    return arguments


def parse_bool(text: str) -> bool:
    """Parse ``true`` or ``false`` (or yes, no, 1, 0). Raises ValueError."""
    try:
        return _BOOLEANS[text.strip().lower()]
    except KeyError:
        raise ValueError("write true or false") from None


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
        found = registered[name].load() if name in registered else _import(name)
    except Exception as error:
        raise InvalidOptionError(f"{kind} {name!r} cannot be loaded: {_message(error)}") from error
    if not callable(found):
        raise InvalidOptionError(f"{kind} {name!r} is not a class: it is {found!r}")
    factory: Callable[..., Any] = found
    return factory


def _import(name: str) -> object:
    module, _, path = name.partition(":")
    found: object = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
