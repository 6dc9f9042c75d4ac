"""Ask one source after the other, within a time that nobody minds at a consumer's start."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from assignors.discovery.checking import checked_rack
from assignors.discovery.source import RackSource
from assignors.leading.shown import shown
from placement_core import RackwardError

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
