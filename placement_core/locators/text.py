"""Racks out of text: ``broker id -> rack`` as properties, JSON or YAML.

    properties     JSON                            YAML
    # comment      {"0": "rack1", "1": "/dc1/r2"}  0: rack1
    0=rack1                                        1: /dc1/r2
    1: /dc1/r2

Every parser refuses what it cannot take at its word: an id that is no whole number, an id
given twice, a rack that is empty or not text. YAML needs the extra ``yaml``.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from placement_core.cluster import ClusterView
from placement_core.errors import InvalidOptionError
from placement_core.locators.errors import RackTextError
from placement_core.racks import parse_rack

TextFormat = Literal["properties", "json", "yaml"]
FORMATS: tuple[str, ...] = get_args(TextFormat)
MOST_QUOTED = 40
"""How many characters of a wrong text an error shows."""

_LINE = re.compile(r"\s*([^=:\s]+)\s*[=:\s]\s*(.*?)\s*")


@dataclass(frozen=True, slots=True)
class TextLocator:
    """The racks that a text says, in one of FORMATS."""

    text: str
    format: TextFormat = "properties"

    def __post_init__(self) -> None:
        checked_format(self.format)

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:  # noqa: ARG002
        """See RackLocator. Raises RackTextError."""
        return dict(parse_racks(self.text, self.format))


def checked_format(name: str) -> TextFormat:
    """One of FORMATS. Raises InvalidOptionError."""
    for known in get_args(TextFormat):
        if name == known:
            found: TextFormat = known
            return found
    raise InvalidOptionError(f"there is no format {name!r}: choose one of {', '.join(FORMATS)}")


def parse_racks(text: str, format: TextFormat) -> dict[int, str]:
    """Broker id to rack; empty where the text says none. Raises RackTextError."""
    return checked_racks((broker_id(key), rack) for key, rack in _PARSERS[format](text))


def broker_id(text: str) -> int:
    """A broker id. Raises RackTextError."""
    # What is blank to strip() is not all blank to int().
    digits = text.strip()
    if not re.fullmatch(r"[0-9]{1,10}", digits):
        raise RackTextError(f"{_shown(text)} is not a broker id: write a whole number from 0 on")
    return int(digits)


def checked_racks(pairs: Iterable[tuple[int, object]]) -> dict[int, str]:
    """The pairs as a dict. Raises RackTextError for a broker named twice or without a rack."""
    found: dict[int, str] = {}
    for broker, rack in pairs:
        if broker in found:
            raise RackTextError(f"broker {broker} is named twice: name it once")
        if not isinstance(rack, str):
            raise RackTextError(f"the rack of broker {broker} is {_shown(rack)}: write a text")
        if parse_rack(rack) is None:
            raise RackTextError(f"broker {broker} has an empty rack, {rack!r}: write its name")
        found[broker] = rack
    return found


def _properties(text: str) -> Iterable[tuple[str, object]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and line.lstrip()[0] not in "#!":
            match = _LINE.fullmatch(line)
            if match is None:
                raise RackTextError(f"line {number}, {_shown(line)}, is not of the form id=rack")
            yield match[1], match[2]


def _json(text: str) -> Iterable[tuple[str, object]]:
    try:
        # Pairs and not a dict, which would silently keep the last of two equal keys.
        pairs = json.loads(text, object_pairs_hook=_Pairs)
    except ValueError as error:
        raise RackTextError(f"this is not JSON: {error}") from error
    if not isinstance(pairs, _Pairs):
        raise RackTextError('the JSON is not an object such as {"0": "rack1"}')
    return pairs


class _Pairs(list[tuple[str, object]]):
    """A JSON object as it was written."""


def _yaml(text: str) -> Iterable[tuple[str, object]]:
    yaml: Any
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise RackTextError(
            "YAML needs PyYAML: pip install 'rackward[yaml]', or write properties or JSON"
        ) from None
    try:
        # Nodes and not values: a rack such as 01 or no is the text that was written.
        top = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise RackTextError(f"this is not YAML: {' '.join(str(error).split())}") from error
    if top is None:
        return []
    if not isinstance(top, yaml.MappingNode):
        raise RackTextError("the YAML is not a mapping such as 0: rack1")
    return [(str(key.value), _plain(node)) for key, node in top.value]


def _plain(node: Any) -> object:
    """The text of a YAML scalar; None and everything nested stay what they are: no text."""
    return None if node.tag.endswith(":null") else node.value


_PARSERS: Mapping[str, Callable[[str], Iterable[tuple[str, object]]]] = {
    "properties": _properties,
    "json": _json,
    "yaml": _yaml,
}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MOST_QUOTED else text[:MOST_QUOTED] + "..."
