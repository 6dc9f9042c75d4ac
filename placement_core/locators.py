"""Rack locators: where the racks of brokers come from.

A locator returns ``{broker id: rack}`` for the brokers of a cluster. The default is the cluster's
own metadata (``broker.rack``). Others are chosen by name, with properties as ``key=value,...``, on
the command line and in the configuration; packages register their own as entry points of the group
``rackward.rack_locators``. A locator is called anew for each creation of a topic, and
:func:`apply_locator` validates what it returns.

This module has the locators without I/O. Those that read files and run commands are in
``rackward.rack_locators``; they share the format here, lines or a JSON object::

    # comment                {"0": "rack1",
    0=rack1                   "1": "/dc1/r2"}
    1: /dc1/r2

A broker id that is not a whole number or is given twice is rejected, and a rack that is empty or
not a string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from placement_core.cluster import Broker, ClusterView
from placement_core.errors import LocatorError, RackParseError, RackwardError
from placement_core.plugins import load_plugin, parse_bool, plugin_name, read_properties
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
    name = plugin_name(
        locator.locator if isinstance(locator, KnownBrokersOnly) else locator, LOCATORS
    )
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


MAX_QUOTED = 40
"""The number of characters of an invalid text that an error quotes."""

_LINE = re.compile(r"\s*([^=:\s]+)\s*[=:\s]\s*(.*?)\s*")
_QUOTED = re.compile(r"""(['"])(.*)\1""")


def parse_racks(text: str) -> dict[int, str]:
    """Return the racks in a text by broker id; empty if it has none. Raises RackParseError."""
    pairs = _parse_json(text) if text.lstrip().startswith("{") else _parse_lines(text)
    return _validate_racks((_parse_id(key), rack) for key, rack in pairs)


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


def _parse_lines(text: str) -> Iterable[tuple[str, object]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip()[0] in "#!":
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise RackParseError(f"line {number}, {_quote(line)}, is not of the form id=rack")
        if " #" in match[2]:
            raise RackParseError(f"line {number}, {_quote(line)}: write the comment above it")
        # A mapping in YAML may have quotes.
        key, rack = (_QUOTED.sub(r"\2", part) for part in match.groups())
        yield key, rack


class _JsonObject(list[tuple[str, object]]):
    """The pairs of a JSON object; a dict would silently drop the first of two equal keys."""


def _parse_json(text: str) -> Iterable[tuple[str, object]]:
    try:
        pairs = json.loads(text, object_pairs_hook=_JsonObject)
    except ValueError as error:
        raise RackParseError(f"this is not JSON: {error}") from error
    assert isinstance(pairs, _JsonObject), "JSON that begins with a brace is an object"
    return pairs


def _quote(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "..."
