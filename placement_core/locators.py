"""The front door: ask a locator, and use its answer only if it can be used."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from placement_core.cluster import Broker, ClusterView
from placement_core.errors import InvalidOptionError, LocatorError, RackTextError, RackwardError
from placement_core.plugins import load_plugin, read_properties, truth
from placement_core.racks import parse_rack

# ---- What every rack locator is: one method that says where brokers stand now.


@runtime_checkable
class RackLocator(Protocol):
    """Knows the racks of a cluster's brokers, from wherever they are written down."""

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:
        """Broker id to rack, for every broker of ``view``; None for one that has no rack.

        Asked for each creation, and answered afresh: nothing is kept from call to call.
        Raises a RackwardError where the racks cannot be had.
        """
        ...


# ---- Racks as the cluster's own metadata has them.


@dataclass(frozen=True, slots=True)
class MetadataLocator:
    """``broker.rack`` of each broker: what the view says anyway. The default."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> MetadataLocator:
        """It has no properties."""
        read_properties("metadata", properties)
        return cls()

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:
        """See RackLocator. An empty rack counts as none."""
        return {broker.id: broker.rack or None for broker in view.brokers}


# ---- Racks out of text: ``broker id -> rack`` as properties, JSON or YAML.
#
#     properties     JSON                            YAML
#     # comment      {"0": "rack1", "1": "/dc1/r2"}  0: rack1
#     0=rack1                                        1: /dc1/r2
#     1: /dc1/r2
#
# Every parser refuses what it cannot take at its word: an id that is no whole number, an id
# given twice, a rack that is empty or not text. YAML needs the extra ``yaml``.

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


# ---- Racks written down beforehand.


@dataclass(frozen=True, slots=True)
class StaticLocator:
    """A mapping of broker id to rack, as given."""

    mapping: Mapping[int, str]

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> StaticLocator:
        """From ``0=rack1,1=rack2,...``: ids as keys. Raises RackTextError."""
        return cls(checked_racks((broker_id(key), rack) for key, rack in properties.items()))

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:  # noqa: ARG002
        """See RackLocator."""
        return dict(self.mapping)


LOCATORS: Mapping[str, type[RackLocator]] = {"metadata": MetadataLocator, "static": StaticLocator}
"""The pure locators, by the names that tools know them under."""

ENTRY_POINTS = "rackward.rack_locators"
"""The entry point group in which packages register locators of their own."""

IGNORE_UNKNOWN = "ignore_unknown"
"""The property that every locator takes: true lets it name brokers that are not live."""


@dataclass(frozen=True, slots=True)
class KnownBrokersOnly:
    """Another locator's answer without the brokers that the cluster does not have (now)."""

    locator: RackLocator

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:
        """See RackLocator."""
        live = {broker.id for broker in view.brokers}
        return {id: rack for id, rack in self.locator.racks(view).items() if id in live}


def load_locator(
    name: str,
    properties: Mapping[str, str] | None = None,
    known: Mapping[str, type[RackLocator]] = LOCATORS,
) -> RackLocator:
    """The locator of that name: one of ``known``, an entry point, or ``module:Class``.

    Raises InvalidOptionError; :func:`placement_core.plugins.load_plugin` says how it is made.
    The property ``ignore_unknown`` makes it a KnownBrokersOnly.
    """
    given = dict(properties or {})
    common = {IGNORE_UNKNOWN: given.pop(IGNORE_UNKNOWN, "false")}
    tolerant = read_properties(f"rack locator {name}", common, **{IGNORE_UNKNOWN: truth})
    found: RackLocator = load_plugin("rack locator", name, given, known, ENTRY_POINTS, "racks")
    return KnownBrokersOnly(found) if tolerant[IGNORE_UNKNOWN] else found


def locate(locator: RackLocator, view: ClusterView) -> ClusterView:
    """``view`` with the racks that the locator says now.

    Raises LocatorError, which names the locator, where it raises, where it answers nothing,
    where it leaves a broker of the view out or says an empty rack, and where it names brokers
    that the view does not have.
    """
    name = locator_name(locator)
    try:
        racks = dict(locator.racks(view))
    except Exception as error:
        # Locators may be anybody's: whatever they raise ends as one line that names them.
        told = (
            str(error) if isinstance(error, RackwardError) else f"{type(error).__name__}: {error}"
        )
        raise LocatorError(name, told) from error
    if problem := _problem(racks, {broker.id for broker in view.brokers}):
        raise LocatorError(name, problem)
    return replace(view, brokers=tuple(Broker(b.id, racks[b.id]) for b in view.brokers))


def locator_name(locator: RackLocator) -> str:
    """What errors call a locator: its name on tools, or ``module:Class``."""
    kind = type(locator.locator if isinstance(locator, KnownBrokersOnly) else locator)
    for name, known in LOCATORS.items():
        if kind is known:
            return name
    return f"{kind.__module__}:{kind.__qualname__}"


def _problem(racks: Mapping[int, str | None], live: set[int]) -> str | None:
    if not racks:
        return f"the answer is empty; it should name the brokers {_ids(live)}"
    if missing := live - racks.keys():
        return f"no rack for {_ids(missing)}: add a rack for each broker of the cluster"
    if strangers := racks.keys() - live:
        return (
            f"it names {_ids(strangers)}, and the cluster has the brokers {_ids(live)}: take "
            f"them out, or set {IGNORE_UNKNOWN}=true if they are down"
        )
    if unreadable := [b for b, rack in racks.items() if rack is not None and not parse_rack(rack)]:
        return f"the rack of {_ids(unreadable)} is empty or not a text: name it, or say None"
    return None


def _ids(brokers: Iterable[object]) -> str:
    return ", ".join(sorted(map(str, brokers), key=lambda text: (len(text), text)))
