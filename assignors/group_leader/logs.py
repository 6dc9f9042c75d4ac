"""Saying an odd thing once, not at every rebalance."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from assignors.consumer_protocol import NO_GENERATION

log = logging.getLogger("rackward.assignors")


class Remarks:
    """What has been said so far: the last thousand causes.

    Something that stopped being odd may be said again when it returns: ``settled`` forgets it.
    """

    _KEPT = 1000

    def __init__(self) -> None:
        self._said: OrderedDict[Hashable, None] = OrderedDict()

    def once(
        self,
        cause: Hashable,
        message: str,
        *values: object,
        level: int = logging.WARNING,
        exc_info: bool = False,
    ) -> None:
        """Log ``message % values`` unless it was said of this ``cause`` before."""
        if cause in self._said:
            self._said.move_to_end(cause)
            return
        self._said[cause] = None
        if len(self._said) > self._KEPT:
            self._said.popitem(last=False)
        log.log(level, message, *values, exc_info=exc_info)

    def settled(self, cause: Hashable) -> None:
        """Forget that ``cause`` was spoken of."""
        self._said.pop(cause, None)


# ---- Of which group and generation something is said.


class About(NamedTuple):
    """A group and the generation that it is joining; as text, what a line of the log adds."""

    group: str = ""
    generation: int = NO_GENERATION

    def __str__(self) -> str:
        return f" group {self.group} generation {self.generation}" if self.group else ""


UNTOLD = About()
"""Where nobody told: a coordinator that is not ours, say."""


# ---- Text of somebody else's, made fit for a line of a log.


def shown(text: str, most: int = 64) -> str:
    """``text`` with what cannot be printed escaped, and no longer than ``most`` characters.

    A rack or a name that a peer sends may hold line breaks, or be 32 KB long.
    """
    cut = text[: most + 1]
    plain = cut if cut.isprintable() else cut.encode("unicode_escape").decode()
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."


def some(names: Sequence[object], most: int = 10) -> str:
    """The first ``most`` of ``names``, each as :func:`shown`, and how many more there are."""
    told = ", ".join(shown(str(name)) for name in names[:most])
    return told if len(names) <= most else f"{told} and {len(names) - most} more"
