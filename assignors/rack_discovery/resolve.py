"""The rack of a consumer: given, or found and told to the log."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from assignors.group_leader import Remarks
from assignors.group_leader.logs import shown
from assignors.rack_discovery.cloud import (
    CLOUD,
    DEFAULT_SECONDS,
    ENDPOINT_VARIABLE,
    AwsSource,
    AzureSource,
    Endpoint,
    GceSource,
)
from assignors.rack_discovery.local import DEFAULT_SECONDS as COMMAND_SECONDS
from assignors.rack_discovery.local import CommandSource, FileSource
from assignors.rack_discovery.source import RackSource, SourceError, UnusableSource
from placement_core import InvalidOptionError, RackwardError

# ---- Whether an answer can be a rack.

MOST_CHARACTERS = 255
"""Of a rack that is found; ids of zones and labels of nodes have at most 63."""

_DOCUMENTS = ("<", "{", "[")
"""What HTML, as of a captive portal, and JSON, as of an error, begin with."""


def checked_rack(answer: object) -> str:
    """``answer`` without the white space around it, if it can be a rack.

    Raises SourceError. No message holds the answer: it may be something else, such as a secret
    in a file that was named by mistake.
    """
    if not isinstance(answer, str):
        raise SourceError(f"answered {type(answer).__name__} where a string is needed")
    rack = answer.strip()
    if not rack:
        raise SourceError("answered nothing")
    if "\n" in rack:
        raise SourceError("answered more than one line")
    if not rack.isprintable():
        raise SourceError("answered with characters that cannot be printed")
    if rack.startswith(_DOCUMENTS):
        raise SourceError("answered with what looks like a page or a document")
    if len(rack) > MOST_CHARACTERS:
        raise SourceError(f"answered {len(rack)} characters; a rack has at most {MOST_CHARACTERS}")
    return rack


# ---- Ask one source after the other, within a time that nobody minds at a consumer's start.

BUDGET = 2.5
"""Seconds for all sources together."""

GRACE = 0.2
"""Seconds that a source is waited for beyond its time, in which it may say why it took so long."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A source that should have had a rack, and what came of it."""

    source: str
    why: str


@dataclass(frozen=True, slots=True)
class Search:
    """The rack and the source that had it, both None where none had; and those before it.

    ``silent`` are sources that know of no rack.
    """

    rack: str | None
    source: str | None
    failures: tuple[Failure, ...]
    silent: tuple[str, ...]


def search(
    sources: Iterable[RackSource],
    *,
    budget: float = BUDGET,
    clock: Callable[[], float] = time.monotonic,
) -> Search:
    """The first rack that one of ``sources`` has; takes ``budget`` seconds at most.

    Never raises over what a source does. One that hangs is left behind in its thread, which
    ends with the process.
    """
    deadline = clock() + budget
    failures, silent = [], []
    for source in sources:
        left = deadline - clock()
        if left <= GRACE:
            failures.append(
                Failure(source.name, f"was not asked: those before it took all of {budget:g} s")
            )
            continue
        answer = _ask(source, min(source.timeout, left - GRACE))
        if isinstance(answer, Failure):
            failures.append(answer)
        elif answer is None:
            silent.append(source.name)
        else:
            return Search(answer, source.name, tuple(failures), tuple(silent))
    return Search(None, None, tuple(failures), tuple(silent))


def _ask(source: RackSource, seconds: float) -> str | Failure | None:
    answers: queue.SimpleQueue[str | Failure | None] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer = source.ask(seconds)
            answers.put(None if answer is None else checked_rack(answer))
        except RackwardError as error:
            answers.put(Failure(source.name, shown(str(error), 500)))
        except BaseException as error:  # noqa: BLE001 - a plug-in's code: whatever it is
            # Which also knows what to do with an error that cannot be told.
            told = traceback.format_exception_only(error)[-1].strip()
            answers.put(Failure(source.name, f"failed: {shown(told, 200)}"))

    threading.Thread(target=ask, name=f"rack from {source.name}", daemon=True).start()
    try:
        return answers.get(timeout=seconds + GRACE)
    except queue.Empty:
        return Failure(source.name, f"did not answer within {seconds:.3g} s")


# ---- What was found a moment ago, so that one start of a consumer asks no source twice.

KEPT_SECONDS = 30.0
"""A consumer with two assignors and a reporter asks three times as it starts."""

_MOST = 16


@dataclass(eq=False)
class _Entry:
    question: object
    lock: threading.Lock = field(default_factory=threading.Lock)
    answer: str | None = None
    until: float | None = None
    """None while it has no answer."""


class Memory:
    """Answers to questions that compare equal, for KEPT_SECONDS each; any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: list[_Entry] = []

    def recall(self, question: object, ask: Callable[[], str | None]) -> str | None:
        """The answer to ``question``: what ``ask`` returns, unless it was asked a moment ago.

        Who comes while another asks the same waits for that answer.
        """
        with self._lock:
            now = self._clock()
            fresh = [each for each in self._entries if each.until is None or now < each.until]
            entry = next((each for each in fresh if each.question == question), None)
            if entry is None:
                entry = _Entry(question)
                fresh.append(entry)
            self._entries = fresh[-_MOST:]
        with entry.lock:
            if entry.until is None:
                entry.answer = ask()
                entry.until = self._clock() + KEPT_SECONDS
            return entry.answer


# ---- Sources that are asked only where someone names them.

NAMES = ("aws-zone-id", "aws-zone-name", "gce", "azure", "command:PROGRAM ARG ...")


def discover(
    name: str,
    *,
    endpoint: str | None = None,
    timeout: float | None = None,
    environ: Mapping[str, str] = os.environ,
) -> RackSource:
    """The source of that name, to be given to an assignor as its ``rack``.

    ``name`` is ``aws-zone-id``, ``aws-zone-name``, ``gce``, ``azure`` or ``command:`` and a command
    line. ``endpoint`` (``http://HOST:PORT``) is where a cloud's metadata service listens, None:
    where RACKWARD_METADATA_ENDPOINT of ``environ`` says, else at the cloud's own address.
    ``timeout`` is in seconds, None: 1, and 2 for a command. Nothing is asked yet. Raises
    InvalidOptionError.
    """
    if timeout is not None and not 0 < timeout <= BUDGET:
        raise InvalidOptionError(
            f"timeout is {timeout!r}: give seconds, more than 0 and at most {BUDGET:g}"
        )
    kind, colon, line = name.strip().partition(":")
    if kind == "command" and colon:
        if endpoint is not None:
            raise InvalidOptionError("a command has no endpoint: leave it out")
        return CommandSource.written(line, timeout or COMMAND_SECONDS)
    url = endpoint or environ.get(ENDPOINT_VARIABLE, "").strip()
    where = Endpoint.read(url) if url else CLOUD
    seconds = timeout or DEFAULT_SECONDS
    match name.strip():
        case "aws-zone-id":
            return AwsSource("availability-zone-id", where, seconds)
        case "aws-zone-name":
            return AwsSource("availability-zone", where, seconds)
        case "gce":
            return GceSource(where, seconds)
        case "azure":
            return AzureSource(where, seconds)
    raise InvalidOptionError(
        f"there is no source of racks {kind[:60]!r}: choose one of {', '.join(NAMES)}"
    )


# ---- A rack out of an environment variable.


@dataclass(frozen=True, slots=True)
class Variable:
    """The rack is ``value``, that of the environment variable ``name``."""

    name: str
    value: str
    timeout: float = 1.0

    def ask(self, seconds: float) -> str:  # noqa: ARG002
        """See RackSource."""
        return self.value


# ---- Racks out of plug-ins: the entry points of the group ``rackward.racks``.
#
# Each is a callable that takes nothing and returns the rack, or None where it knows of none::
#
#     [project.entry-points."rackward.racks"]
#     our-inventory = "our_package.racks:own_rack"

GROUP = "rackward.racks"


@dataclass(frozen=True, slots=True)
class PluginSource:
    """The rack that an installed callable returns; loading it counts towards its time."""

    point: EntryPoint
    timeout: float = 1.0

    @property
    def name(self) -> str:
        """See RackSource."""
        return f"plug-in {self.point.name} ({self.point.value})"

    def ask(self, seconds: float) -> Any:  # noqa: ARG002
        """See RackSource; it may return anything."""
        return self.point.load()()


def installed_plugins() -> Iterable[RackSource]:
    """Every plug-in, by name."""
    try:
        found = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    except Exception as error:  # noqa: BLE001 - another package's metadata
        return [UnusableSource(f"plug-ins of {GROUP}", f"cannot be listed: {error!r:.200}")]
    return [PluginSource(point) for point in found]


# ---- What is asked for a rack that nobody gave, and in which order.
#
# 1. ``RACKWARD_RACK``: the rack itself.
# 2. ``RACKWARD_RACK_FILE``: a file that holds it (see :mod:`assignors.rack_discovery.local`).
# 3. ``RACKWARD_RACK_FROM``: the name of a source, as :func:`assignors.rack_discovery.discover`
# takes it. 4. Plug-ins, by name (see :mod:`assignors.rack_discovery.resolve`).
#
# What was said for this process comes before what happens to be installed in it.

RACK_VARIABLE = "RACKWARD_RACK"
FILE_VARIABLE = "RACKWARD_RACK_FILE"
FROM_VARIABLE = "RACKWARD_RACK_FROM"

VARIABLES = (RACK_VARIABLE, FILE_VARIABLE, FROM_VARIABLE, ENDPOINT_VARIABLE)
"""All that :func:`sources` reads of the environment."""


def sources(environ: Mapping[str, str]) -> Iterator[RackSource]:
    """Every source that may be asked unless an earlier one has the rack."""
    if rack := environ.get(RACK_VARIABLE, "").strip():
        yield Variable(RACK_VARIABLE, rack)
    if path := environ.get(FILE_VARIABLE, "").strip():
        yield FileSource.named(path)
    if name := environ.get(FROM_VARIABLE, "").strip():
        try:
            yield discover(name, environ=environ)
        except InvalidOptionError as error:
            yield UnusableSource(FROM_VARIABLE, f"cannot be used: {error}")
    yield from installed_plugins()


class Choice:
    """Chooses racks for the consumers of one process."""

    def __init__(self, memory: Memory, remarks: Remarks) -> None:
        self._memory = memory
        self._remarks = remarks

    def chosen_rack(self, rack: object, environ: Mapping[str, str]) -> str | None:
        """See the function of that name."""
        if isinstance(rack, str):
            return rack
        if rack is None:
            asked = tuple(environ.get(name) for name in VARIABLES)
            return self._memory.recall(asked, lambda: self._find(sources(environ)))
        if isinstance(rack, RackSource):
            return self._memory.recall(rack, lambda: self._find([rack]))
        raise InvalidOptionError(
            f"rack is {rack!r}: give a string, discover(NAME), or None to look for it"
        )

    def _find(self, among: Iterable[RackSource]) -> str | None:
        found = search(among)
        for failure in found.failures:
            self._remarks.once(
                ("no rack", failure.source),
                "no rack from %s, which %s; this consumer %s",
                failure.source,
                failure.why,
                "starts without one" if found.rack is None else f"is in that of {found.source}",
            )
        if found.rack is not None:
            self._remarks.settled(("no rack", found.source))
            self._remarks.once(
                ("rack", found.source, found.rack),
                "this consumer is in rack %s, says %s",
                found.rack,
                found.source,
                level=logging.INFO,
            )
        return found.rack


_choice = Choice(Memory(), Remarks())


def chosen_rack(rack: object, environ: Mapping[str, str]) -> str | None:
    """``rack`` if it is a string; what the source ``rack`` says; else what ``environ`` leads to.

    For the last see :mod:`assignors.rack_discovery.resolve`. None where no source has a rack. The
    log has a WARNING for each that should have, once until it has one again, and an INFO line whose
    rack it is, once. Answers are kept for half a minute. Raises InvalidOptionError where ``rack``
    is none of these.
    """
    return _choice.chosen_rack(rack, environ)
