"""Rack locators: where the racks of brokers come from.

A locator returns ``{broker id: rack}`` for the brokers of a cluster. The default is the cluster's
own metadata (``broker.rack``). Others are chosen by name, with properties as ``key=value,...``, on
the command line and in the configuration; packages register their own as entry points of the group
``rackward.rack_locators``. A locator is called anew for each creation of a topic, and
:func:`apply_locator` validates what it returns.

This module has the locators without I/O. Those that read files and run commands are in
``rackward.rack_locators``; they share the text formats here::

    properties     JSON                            YAML
    # comment      {"0": "rack1", "1": "/dc1/r2"}  0: rack1
    0=rack1                                        1: /dc1/r2
    1: /dc1/r2

Every parser rejects a broker id that is not a whole number or is given twice, and a rack that is
empty or not a string. YAML needs the extra ``yaml``.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from placement_core.cluster import Broker, ClusterView
from placement_core.errors import InvalidOptionError, LocatorError, RackParseError, RackwardError
from placement_core.plugins import load_plugin, parse_bool, read_properties
from placement_core.racks import parse_rack

ENTRY_POINT_GROUP = "rackward.rack_locators"
"""The entry point group in which packages register locators."""

IGNORE_UNKNOWN = "ignore_unknown"
"""The property that every locator accepts: if true, it may name brokers that are not live."""


@runtime_checkable
class RackLocator(Protocol):
    """Returns the racks of a cluster's brokers.

    Any class with this method is a locator; it does not have to inherit from this one.
    """

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:
        """Return the rack of every broker of ``view``; None for a broker without one.

        Called for each creation of a topic; results are not cached. Raises RackwardError if the
        racks are not available.
        """
        ...


def apply_locator(locator: RackLocator, view: ClusterView) -> ClusterView:
    """Call a locator and return ``view`` with the racks that it returns.

    Raises LocatorError, with the locator's name, if it raises an error, returns no racks, omits a
    broker of the view, returns an empty rack, or names brokers that the view does not have.
    """
    name = locator_name(locator)
    try:
        racks = dict(locator.racks(view))
    except Exception as error:
        # A plug-in may raise anything. All of it is reported in one line with its name.
        message = (
            str(error) if isinstance(error, RackwardError) else f"{type(error).__name__}: {error}"
        )
        raise LocatorError(name, message) from error
    if problem := _problem(racks, {broker.id for broker in view.brokers}):
        raise LocatorError(name, problem)
    return replace(view, brokers=tuple(Broker(b.id, racks[b.id]) for b in view.brokers))


def _problem(racks: Mapping[int, str | None], live: set[int]) -> str | None:
    """Return what is wrong with a locator's result, None if nothing is."""
    if not racks:
        return f"the result is empty: return a rack for each of the brokers {_ids(live)}"
    if missing := live - racks.keys():
        return f"no rack for {_ids(missing)}: add a rack for each broker of the cluster"
    if unknown := racks.keys() - live:
        return (
            f"it names {_ids(unknown)}, but the cluster has the brokers {_ids(live)}: remove "
            f"them, or set {IGNORE_UNKNOWN}=true if they are down"
        )
    if empty := [b for b, rack in racks.items() if rack is not None and not parse_rack(rack)]:
        return f"the rack of {_ids(empty)} is empty or not a string: return a name, or None"
    return None


def _ids(brokers: Iterable[object]) -> str:
    return ", ".join(sorted(map(str, brokers), key=lambda text: (len(text), text)))


@dataclass(frozen=True, slots=True)
class MetadataLocator:
    """Returns ``broker.rack`` of each broker, as the cluster's metadata has it. The default."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> MetadataLocator:
        """Construct from properties; there are none."""
        read_properties("metadata", properties)
        return cls()

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:
        """See RackLocator. An empty rack counts as none."""
        return {broker.id: broker.rack or None for broker in view.brokers}


@dataclass(frozen=True, slots=True)
class StaticLocator:
    """Returns a fixed mapping of broker id to rack."""

    mapping: Mapping[int, str]

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> StaticLocator:
        """Construct from ``0=rack1,1=rack2,...``, ids as keys. Raises RackParseError."""
        return cls(_validate_racks((_parse_id(key), rack) for key, rack in properties.items()))

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:  # noqa: ARG002
        """See RackLocator."""
        return dict(self.mapping)


@dataclass(frozen=True, slots=True)
class KnownBrokersOnly:
    """Returns another locator's racks without the brokers that are not in the view."""

    locator: RackLocator

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:
        """See RackLocator."""
        live = {broker.id for broker in view.brokers}
        return {id: rack for id, rack in self.locator.racks(view).items() if id in live}


LOCATORS: Mapping[str, type[RackLocator]] = {"metadata": MetadataLocator, "static": StaticLocator}
"""The locators of this module by the names that tools use."""


def load_locator(
    name: str,
    properties: Mapping[str, str] | None = None,
    builtin: Mapping[str, type[RackLocator]] = LOCATORS,
) -> RackLocator:
    """Return the locator with this name: a key of ``builtin``, an entry point or ``module:Class``.

    It is constructed by :func:`placement_core.plugins.load_plugin`. The property
    ``ignore_unknown=true`` wraps it in KnownBrokersOnly. Raises InvalidOptionError.
    """
    own = dict(properties or {})
    common = {IGNORE_UNKNOWN: own.pop(IGNORE_UNKNOWN, "false")}
    options = read_properties(f"rack locator {name}", common, **{IGNORE_UNKNOWN: parse_bool})
    locator: RackLocator = load_plugin(
        "rack locator", name, own, builtin, ENTRY_POINT_GROUP, "racks"
    )
    return KnownBrokersOnly(locator) if options[IGNORE_UNKNOWN] else locator


def locator_name(locator: RackLocator) -> str:
    """Return the name of a locator for messages: a key of LOCATORS, or ``module:Class``."""
    kind = type(locator.locator if isinstance(locator, KnownBrokersOnly) else locator)
    for name, builtin in LOCATORS.items():
        if kind is builtin:
            return name
    return f"{kind.__module__}:{kind.__qualname__}"


TextFormat = Literal["properties", "json", "yaml"]
FORMATS: tuple[str, ...] = get_args(TextFormat)
MAX_QUOTED = 40
"""The number of characters of an invalid text that an error quotes."""

_LINE = re.compile(r"\s*([^=:\s]+)\s*[=:\s]\s*(.*?)\s*")


@dataclass(frozen=True, slots=True)
class TextLocator:
    """Returns the racks in a text of one of the FORMATS."""

    text: str
    format: TextFormat = "properties"

    def __post_init__(self) -> None:
        validate_format(self.format)

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:  # noqa: ARG002
        """See RackLocator. Raises RackParseError."""
        return dict(parse_racks(self.text, self.format))


def validate_format(name: str) -> TextFormat:
    """Return ``name`` if it is one of FORMATS, else raise InvalidOptionError."""
    for known in get_args(TextFormat):
        if name == known:
            format: TextFormat = known
            return format
    raise InvalidOptionError(f"there is no format {name!r}: choose one of {', '.join(FORMATS)}")


def parse_racks(text: str, format: TextFormat) -> dict[int, str]:
    """Return the racks in a text by broker id; empty if it has none. Raises RackParseError."""
    return _validate_racks((_parse_id(key), rack) for key, rack in _PARSERS[format](text))


def _parse_id(text: str) -> int:
    # str.strip() removes some characters that int() does not accept as blanks.
    digits = text.strip()
    if not re.fullmatch(r"[0-9]{1,10}", digits):
        raise RackParseError(f"{_quote(text)} is not a broker id: write a whole number from 0 on")
    return int(digits)


def _validate_racks(pairs: Iterable[tuple[int, object]]) -> dict[int, str]:
    """Return the pairs as a dict; raise RackParseError for a repeated broker or an invalid rack."""
    racks: dict[int, str] = {}
    for broker, rack in pairs:
        if broker in racks:
            raise RackParseError(f"broker {broker} is named twice: name it once")
        if not isinstance(rack, str):
            raise RackParseError(f"the rack of broker {broker} is {_quote(rack)}: write a string")
        if parse_rack(rack) is None:
            raise RackParseError(f"broker {broker} has an empty rack, {rack!r}: write its name")
        racks[broker] = rack
    return racks


def _parse_properties(text: str) -> Iterable[tuple[str, object]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and line.lstrip()[0] not in "#!":
            match = _LINE.fullmatch(line)
            if match is None:
                raise RackParseError(f"line {number}, {_quote(line)}, is not of the form id=rack")
            yield match[1], match[2]


class _JsonObject(list[tuple[str, object]]):
    """The pairs of a JSON object; a dict would silently drop the first of two equal keys."""


def _parse_json(text: str) -> Iterable[tuple[str, object]]:
    try:
        pairs = json.loads(text, object_pairs_hook=_JsonObject)
    except ValueError as error:
        raise RackParseError(f"this is not JSON: {error}") from error
    if not isinstance(pairs, _JsonObject):
        raise RackParseError('the JSON is not an object such as {"0": "rack1"}')
    return pairs


def _parse_yaml(text: str) -> Iterable[tuple[str, object]]:
    yaml: Any
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise RackParseError(
            "YAML needs PyYAML: pip install 'rackward[yaml]', or write properties or JSON"
        ) from None
    try:
        # Nodes instead of values, so that a rack such as 01 or no stays the text that was written.
        top = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise RackParseError(f"this is not YAML: {' '.join(str(error).split())}") from error
    if top is None:
        return []
    if not isinstance(top, yaml.MappingNode):
        raise RackParseError("the YAML is not a mapping such as 0: rack1")
    return [
        (str(key.value), None if node.tag.endswith(":null") else node.value)
        for key, node in top.value
    ]


_PARSERS: Mapping[str, Callable[[str], Iterable[tuple[str, object]]]] = {
    "properties": _parse_properties,
    "json": _parse_json,
    "yaml": _parse_yaml,
}


def _quote(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "..."
