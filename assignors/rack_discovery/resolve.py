"""Resolving the rack of a consumer: given, or found in the first source that has one.

A consumer that is given no rack searches these sources, in this order:

1. ``RACKWARD_RACK``: the rack itself.
2. ``RACKWARD_RACK_FILE``: a file that contains it (:mod:`assignors.rack_discovery.local`).
3. ``RACKWARD_RACK_FROM``: the name of a source, as :func:`discover` takes it.
4. Plug-ins, by name: the entry points of the group ``rackward.racks``. Each is a callable without
   arguments that returns the rack, or None if it has none::

       [project.entry-points."rackward.racks"]
       our-inventory = "our_package.racks:own_rack"

   A source that is named may be one of them, or ``module:function`` without an entry point.

What is set for this process comes before what happens to be installed. A variable that is blank
counts as not set.

Sources run one after another, each in a thread of its own, with a limit for each and for all of
them together. Results are cached for a moment, so that a consumer with two assignors searches once.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from assignors.group_leader import LogOnce
from assignors.group_leader.logs import sanitize
from assignors.rack_discovery.cloud import (
    CLOUD_TIMEOUT,
    CLOUDS,
    DEFAULT_ENDPOINT,
    ENDPOINT_VARIABLE,
    CloudSource,
    Endpoint,
)
from assignors.rack_discovery.local import COMMAND_TIMEOUT, CommandSource, FileSource
from assignors.rack_discovery.source import InvalidSource, RackSource, SourceError
from placement_core import InvalidOptionError, RackwardError, parse_rack

RACK_VARIABLE = "RACKWARD_RACK"
FILE_VARIABLE = "RACKWARD_RACK_FILE"
SOURCE_VARIABLE = "RACKWARD_RACK_FROM"
VARIABLES = (RACK_VARIABLE, FILE_VARIABLE, SOURCE_VARIABLE, ENDPOINT_VARIABLE)
"""All environment variables that :func:`sources` reads."""

PLUGIN_GROUP = "rackward.racks"
SOURCE_NAMES = (*CLOUDS, "command:PROGRAM ARG ...", "module:function")
_MODULE_AND_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")

SEARCH_TIMEOUT = 2.5
"""Seconds for all sources together."""

GRACE_PERIOD = 0.2
"""Seconds after its timeout in which a source may still return the reason for its failure."""

PLUGIN_TIMEOUT = 1.0
"""Seconds that a plug-in may take by default."""

CACHE_TTL = 30.0
"""Seconds. A consumer with two assignors and a traffic reporter resolves its rack three times."""

MAX_RACK_LENGTH = 255
"""Of a rack that is found. Zone ids and labels of nodes have at most 63 characters."""


def resolve_rack(rack: object, environ: Mapping[str, str]) -> str | None:
    """Return ``rack`` if it is a string, else the rack of that source, else of :func:`sources`.

    Return None if no source has a rack. A source that fails is logged as a WARNING, once until it
    succeeds again; the source of the rack is logged once at INFO. Results are cached for
    ``CACHE_TTL`` seconds. Raise InvalidOptionError if ``rack`` is not a string, a RackSource or
    None.
    """
    return _resolver.resolve(rack, environ)


def member_rack(rack: str | None, client_rack: str | None, log_once: LogOnce) -> str | None:
    """Return the assignor's rack, or else the ``client_rack`` that its consumer is configured with.

    If the two differ, a warning says so.
    """
    if rack and client_rack and parse_rack(rack) != parse_rack(client_rack):
        log_once.log(
            ("client_rack", client_rack),
            "client_rack=%r is ignored: the rack of the assignor is %r; remove client_rack, or set"
            " both to the same rack",
            client_rack,
            rack,
        )
    return rack or client_rack or None


def discover(
    name: str,
    *,
    endpoint: str | None = None,
    timeout: float | None = None,
    environ: Mapping[str, str] = os.environ,
) -> RackSource:
    """Return the source of that name, to be passed to an assignor as its ``rack``.

    ``name`` is ``aws-zone-id``, ``aws-zone-name``, ``gce``, ``azure``, ``command:`` followed by a
    command line, the name of a plug-in, or ``module:function``. ``endpoint`` (``http://HOST:PORT``)
    is the address of the metadata service; None: RACKWARD_METADATA_ENDPOINT of ``environ``, or else
    the cloud's own address. ``timeout`` is in seconds; None: 1, or 2 for a command. Nothing is
    requested, run or imported yet. Raise InvalidOptionError.
    """
    if timeout is not None and not 0 < timeout <= SEARCH_TIMEOUT:
        raise InvalidOptionError(
            f"timeout is {timeout!r}: give seconds, more than 0 and at most {SEARCH_TIMEOUT:g}"
        )
    kind, colon, line = name.strip().partition(":")
    if kind == "command" and colon:
        if endpoint is not None:
            raise InvalidOptionError("a command has no endpoint: leave it out")
        return CommandSource.parse(line, timeout or COMMAND_TIMEOUT)
    url = endpoint or environ.get(ENDPOINT_VARIABLE, "").strip()
    address = Endpoint.parse(url) if url else DEFAULT_ENDPOINT
    if name.strip() in CLOUDS:
        return CloudSource(name.strip(), address, timeout or CLOUD_TIMEOUT)
    if (plugin := _find_plugin(name.strip())) is not None:
        if endpoint is not None:
            raise InvalidOptionError("a plug-in has no endpoint: leave it out")
        return PluginSource(plugin, timeout or PLUGIN_TIMEOUT)
    raise InvalidOptionError(
        f"unknown source of racks {kind[:60]!r}: choose one of {', '.join(SOURCE_NAMES)}, or an "
        f"entry point of {PLUGIN_GROUP}"
    )


def sources(environ: Mapping[str, str]) -> Iterator[RackSource]:
    """Yield the sources for a consumer that is given no rack, in the order of the search."""
    if rack := environ.get(RACK_VARIABLE, "").strip():
        yield VariableSource(RACK_VARIABLE, rack)
    if path := environ.get(FILE_VARIABLE, "").strip():
        yield FileSource.parse(path)
    if name := environ.get(SOURCE_VARIABLE, "").strip():
        try:
            yield discover(name, environ=environ)
        except InvalidOptionError as error:
            yield InvalidSource(SOURCE_VARIABLE, f"cannot be used: {error}")
    yield from installed_plugins()


# ---- Searching sources.


@dataclass(frozen=True, slots=True)
class Failure:
    """A source that failed to provide a rack, and the reason."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The rack and the name of its source, both None if there is none.

    ``failures`` are the sources before it that failed, ``without_rack`` those that have no rack.
    """

    rack: str | None
    source: str | None
    failures: tuple[Failure, ...]
    without_rack: tuple[str, ...]


def search(
    sources: Iterable[RackSource],
    *,
    timeout: float = SEARCH_TIMEOUT,
    clock: Callable[[], float] = time.monotonic,
) -> SearchResult:
    """Return the first rack that one of ``sources`` has, after ``timeout`` seconds at most.

    A source that raises is a failure. One that hangs is abandoned in its daemon thread.
    """
    deadline = clock() + timeout
    failures, without_rack = [], []
    for source in sources:
        remaining = deadline - clock()
        if remaining <= GRACE_PERIOD:
            failures.append(
                Failure(source.name, f"was skipped: earlier sources took all of {timeout:g} s")
            )
            continue
        result = _find_rack(source, min(source.timeout, remaining - GRACE_PERIOD))
        if isinstance(result, Failure):
            failures.append(result)
        elif result is None:
            without_rack.append(source.name)
        else:
            return SearchResult(result, source.name, tuple(failures), tuple(without_rack))
    return SearchResult(None, None, tuple(failures), tuple(without_rack))


def _find_rack(source: RackSource, timeout: float) -> str | Failure | None:
    results: queue.SimpleQueue[str | Failure | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            rack = source.find_rack(timeout)
            results.put(None if rack is None else validate_rack(rack))
        except RackwardError as error:
            results.put(Failure(source.name, sanitize(str(error), 500)))
        except BaseException as error:  # noqa: BLE001 - a plug-in may raise anything
            # This also handles errors whose __str__ raises.
            description = traceback.format_exception_only(error)[-1].strip()
            results.put(Failure(source.name, f"failed: {sanitize(description, 200)}"))

    threading.Thread(target=run, name=f"rack from {source.name}", daemon=True).start()
    try:
        return results.get(timeout=timeout + GRACE_PERIOD)
    except queue.Empty:
        return Failure(source.name, f"timed out after {timeout:.3g} s")


def validate_rack(rack: object) -> str:
    """Return ``rack`` without surrounding white space. Raise SourceError if it cannot be a rack.

    No message shows the value: it may be something else, such as a secret in a file that was named
    by mistake.
    """
    if not isinstance(rack, str):
        raise SourceError(f"returned {type(rack).__name__} instead of a string")
    rack = rack.strip()
    if not rack:
        raise SourceError("returned nothing")
    if "\n" in rack:
        raise SourceError("returned more than one line")
    if not rack.isprintable():
        raise SourceError("returned unprintable characters")
    # HTML, for example of a captive portal, or JSON, for example of an error.
    if rack.startswith(("<", "{", "[")):
        raise SourceError("returned what looks like an HTML page or a JSON document")
    if len(rack) > MAX_RACK_LENGTH:
        raise SourceError(f"returned {len(rack)} characters; a rack has at most {MAX_RACK_LENGTH}")
    return rack


# ---- Environment variables and plug-ins as sources.


@dataclass(frozen=True, slots=True)
class VariableSource:
    """The value of the environment variable ``name``."""

    name: str
    value: str
    timeout: float = 1.0

    def find_rack(self, timeout: float) -> str:  # noqa: ARG002
        """Return the value."""
        return self.value


@dataclass(frozen=True, slots=True)
class PluginSource:
    """The result of an installed callable. Loading it counts towards its time."""

    entry_point: EntryPoint
    timeout: float = PLUGIN_TIMEOUT

    @property
    def name(self) -> str:
        """``plug-in NAME (MODULE:ATTRIBUTE)``."""
        return f"plug-in {self.entry_point.name} ({self.entry_point.value})"

    def find_rack(self, timeout: float) -> Any:  # noqa: ARG002
        """Load and call the plug-in, which may return anything."""
        return self.entry_point.load()()


def installed_plugins() -> Iterable[RackSource]:
    """Return a source for each plug-in, sorted by name."""
    try:
        plugins = sorted(
            entry_points(group=PLUGIN_GROUP), key=lambda plugin: (plugin.name, plugin.value)
        )
    except Exception as error:  # noqa: BLE001 - the metadata of other packages
        return [InvalidSource(f"plug-ins of {PLUGIN_GROUP}", f"cannot be listed: {error!r:.200}")]
    return [PluginSource(plugin) for plugin in plugins]


def _find_plugin(name: str) -> EntryPoint | None:
    for plugin in installed_plugins():
        if isinstance(plugin, PluginSource) and plugin.entry_point.name == name:
            return plugin.entry_point
    return EntryPoint(name, name, PLUGIN_GROUP) if _MODULE_AND_FUNCTION.fullmatch(name) else None


# ---- Caching and logging.


@dataclass(eq=False)
class _CacheEntry:
    key: object
    lock: threading.Lock = field(default_factory=threading.Lock)
    value: str | None = None
    expires: float | None = None
    """None until the value has been computed."""


class TtlCache:
    """Values by keys that need not be hashable, for CACHE_TTL seconds each. Thread-safe."""

    MAX_ENTRIES = 16

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: list[_CacheEntry] = []

    def get_or_compute(self, key: object, compute: Callable[[], str | None]) -> str | None:
        """Return the cached value of ``key``, or the result of ``compute``.

        Concurrent calls with an equal key compute it once, and wait.
        """
        with self._lock:
            now = self._clock()
            valid = [each for each in self._entries if each.expires is None or now < each.expires]
            entry = next((each for each in valid if each.key == key), None)
            if entry is None:
                entry = _CacheEntry(key)
                valid.append(entry)
            self._entries = valid[-self.MAX_ENTRIES :]
        with entry.lock:
            if entry.expires is None:
                entry.value = compute()
                entry.expires = self._clock() + CACHE_TTL
            return entry.value


class RackResolver:
    """:func:`resolve_rack` with a cache and a log of its own."""

    def __init__(self, cache: TtlCache, log_once: LogOnce) -> None:
        self._cache = cache
        self._log_once = log_once

    def resolve(self, rack: object, environ: Mapping[str, str]) -> str | None:
        """See :func:`resolve_rack`."""
        if isinstance(rack, str):
            return rack
        if rack is None:
            key = tuple(environ.get(name) for name in VARIABLES)
            return self._cache.get_or_compute(key, lambda: self._search(sources(environ)))
        if isinstance(rack, RackSource):
            return self._cache.get_or_compute(rack, lambda: self._search([rack]))
        raise InvalidOptionError(
            f"rack is {rack!r}: give a string, discover(NAME), or None to search for it"
        )

    def _search(self, sources: Iterable[RackSource]) -> str | None:
        result = search(sources)
        for failure in result.failures:
            self._log_once.log(
                ("failure", failure.source),
                "no rack from %s: %s; this consumer %s",
                failure.source,
                failure.reason,
                "starts without a rack"
                if result.rack is None
                else f"uses the rack of {result.source}",
            )
        if result.rack is not None:
            self._log_once.reset(("failure", result.source))
            self._log_once.log(
                ("rack", result.source, result.rack),
                "rack=%s (source: %s)",
                result.rack,
                result.source,
                level=logging.INFO,
            )
        return result.rack


_resolver = RackResolver(TtlCache(), LogOnce())
