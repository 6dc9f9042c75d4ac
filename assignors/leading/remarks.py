"""Saying an odd thing once, not at every rebalance."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Hashable

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
