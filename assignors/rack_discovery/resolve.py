"""Resolving the rack of a consumer: given, or found in the first source that has one.

A consumer that is given no rack searches these sources, in this order:

1. ``RACKWARD_RACK``: the rack itself.
2. ``RACKWARD_RACK_FILE``: a file that contains it (:mod:`assignors.rack_discovery.sources`).
3. ``RACKWARD_RACK_FROM``: the name of a source, as :func:`discover` takes it.
4. Plug-ins, by name: the entry points of the group ``rackward.racks``. Each is a callable without
   arguments that returns the rack, or None if it has none::

       [project.entry-points."rackward.racks"]
       our-inventory = "our_package.racks:own_rack"

   A source that is named may be one of them, or ``module:function`` without an entry point.

What is set for this process comes before what happens to be installed. A variable that is blank
counts as not set.

Sources run one after another, each in a thread, with a limit for each and for all of
them together. Results are cached for a moment, so that a consumer with two assignors searches once.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from assignors.group_leader import LogOnce
from assignors.group_leader.logs import sanitize
from assignors.rack_discovery.sources import (
    CLOUDS,
    DEFAULT_ENDPOINT,
    PLUGIN_GROUP,
    PLUGIN_TIMEOUT,
    RackSource,
    SourceError,
    cloud_source,
    command_source,
    file_source,
    installed_plugins,
    invalid_source,
    plugin_source,
)
from placement_core import InvalidOptionError, RackwardError, parse_rack

RACK_VARIABLE = "RACKWARD_RACK"
FILE_VARIABLE = "RACKWARD_RACK_FILE"
SOURCE_VARIABLE = "RACKWARD_RACK_FROM"
ENDPOINT_VARIABLE = "RACKWARD_METADATA_ENDPOINT"
VARIABLES = (RACK_VARIABLE, FILE_VARIABLE, SOURCE_VARIABLE, ENDPOINT_VARIABLE)
"""All environment variables that :func:`sources` reads."""

SOURCE_NAMES = (*CLOUDS, "command:PROGRAM ARG ...", "module:function")

SEARCH_TIMEOUT = 2.5
"""Seconds for all sources together."""

GRACE_PERIOD = 0.2
"""Seconds after its timeout in which a source may still return the reason for its failure."""

CLOUD_TIMEOUT = 1.0
"""Seconds that the requests to a metadata service may take by default."""

COMMAND_TIMEOUT = 2.0
"""Seconds that a command may take by default."""

CACHE_TTL = 30.0
"""Seconds. A consumer with two assignors resolves its rack twice."""

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
    name = name.strip()
    kind, colon, line = name.partition(":")
    if name in CLOUDS:
        address = endpoint or environ.get(ENDPOINT_VARIABLE, "").strip() or DEFAULT_ENDPOINT
        return cloud_source(name, address, timeout or CLOUD_TIMEOUT)
    if kind == "command" and colon:
        source: RackSource | None = command_source(line, timeout or COMMAND_TIMEOUT)
    else:
        source = plugin_source(name, timeout or PLUGIN_TIMEOUT)
    if source is None:
        raise InvalidOptionError(
            f"unknown source of racks {kind[:60]!r}: choose one of {', '.join(SOURCE_NAMES)}, or an"
            f" entry point of {PLUGIN_GROUP}"
        )
    if endpoint is not None:
        raise InvalidOptionError(f"{source.name} has no endpoint: leave it out")
    return source


def sources(environ: Mapping[str, str]) -> Iterator[RackSource]:
    """Yield the sources for a consumer that is given no rack, in the order of the search."""
    if rack := environ.get(RACK_VARIABLE, "").strip():
        yield RackSource(RACK_VARIABLE, 1.0, lambda value, _: value, (rack,))
    if path := environ.get(FILE_VARIABLE, "").strip():
        yield file_source(path)
    if name := environ.get(SOURCE_VARIABLE, "").strip():
        try:
            yield discover(name, environ=environ)
        except InvalidOptionError as error:
            yield invalid_source(SOURCE_VARIABLE, f"cannot be used: {error}")
    yield from installed_plugins()


# ---- Searching sources.


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The rack and the name of its source, both None if there is none.

    ``failures`` has the reasons for the failures of the sources before it, by source;
    ``without_rack`` those that have no rack.
    """

    rack: str | None
    source: str | None
    failures: Mapping[str, str]
    without_rack: tuple[str, ...]


def search(
    sources: Iterable[RackSource],
    *,
    timeout: float = SEARCH_TIMEOUT,
) -> SearchResult:
    """Return the first rack that one of ``sources`` has, after ``timeout`` seconds at most.

    A source that raises is a failure. One that hangs is abandoned in its daemon thread.
    """
    deadline = time.monotonic() + timeout
    failures: dict[str, str] = {}
    without_rack: list[str] = []
    for source in sources:
        remaining = deadline - time.monotonic() - GRACE_PERIOD
        if remaining <= 0:
            failures[source.name] = f"was skipped: earlier sources took all of {timeout:g} s"
            continue
        try:
            rack = _find_rack(source, min(source.timeout, remaining))
        except SourceError as error:
            failures[source.name] = str(error)
            continue
        if rack is not None:
            return SearchResult(rack, source.name, failures, tuple(without_rack))
        without_rack.append(source.name)
    return SearchResult(None, None, failures, tuple(without_rack))


def _find_rack(source: RackSource, timeout: float) -> str | None:
    found: Future[str | None] = Future()

    def run() -> None:
        try:
            rack = source.find_rack(timeout)
            found.set_result(None if rack is None else validate_rack(rack))
        except RackwardError as error:
            found.set_exception(SourceError(sanitize(str(error), 500)))
        except BaseException as error:  # noqa: BLE001 - a plug-in may raise anything
            # This also handles errors whose __str__ raises.
            description = traceback.format_exception_only(error)[-1].strip()
            found.set_exception(SourceError(f"failed: {sanitize(description, 200)}"))

    threading.Thread(target=run, name=f"rack from {source.name}", daemon=True).start()
    try:
        return found.result(timeout + GRACE_PERIOD)
    except TimeoutError:
        raise SourceError(f"timed out after {timeout:.3g} s") from None


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


# ---- Caching and logging.


class RackResolver:
    """:func:`resolve_rack` with a cache and a log. Thread-safe."""

    def __init__(self) -> None:
        self._log_once = LogOnce()
        self._lock = threading.Lock()
        self._cache: dict[object, tuple[float, str | None]] = {}
        """By source or environment: when it expires, and the rack."""

    def resolve(self, rack: object, environ: Mapping[str, str]) -> str | None:
        """See :func:`resolve_rack`."""
        if isinstance(rack, str):
            return rack
        if rack is not None and not isinstance(rack, RackSource):
            raise InvalidOptionError(
                f"rack is {rack!r}: give a string, discover(NAME), or None to search for it"
            )
        key = rack or tuple(environ.get(name) for name in VARIABLES)
        # While one thread searches, others wait, so that an equal source is not requested twice.
        with self._lock:
            now = time.monotonic()
            self._cache = {key: entry for key, entry in self._cache.items() if now < entry[0]}
            if key not in self._cache:
                found = self._search(sources(environ) if rack is None else [rack])
                self._cache[key] = (time.monotonic() + CACHE_TTL, found)
            return self._cache[key][1]

    def _search(self, sources: Iterable[RackSource]) -> str | None:
        result = search(sources)
        consequence = (
            f"uses the rack of {result.source}" if result.rack else "starts without a rack"
        )
        for source, reason in result.failures.items():
            self._log_once.log(
                ("failure", source),
                "no rack from %s: %s; this consumer %s",
                source,
                reason,
                consequence,
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


_resolver = RackResolver()
