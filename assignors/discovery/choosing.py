"""The rack of a consumer: given, or found and told to the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from assignors.discovery.memory import Memory
from assignors.discovery.order import VARIABLES, sources
from assignors.discovery.searching import search
from assignors.discovery.source import RackSource
from assignors.leading import Remarks
from placement_core import InvalidOptionError


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

    For the last see :mod:`assignors.discovery.order`. None where no source has a rack. The log
    has a WARNING for each that should have, once until it has one again, and an INFO line whose
    rack it is, once. Answers are kept for half a minute. Raises InvalidOptionError where ``rack``
    is none of these.
    """
    return _choice.chosen_rack(rack, environ)
