"""Not more requests per second than a cluster is to be asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rackward.collector.errors import SourceError


@dataclass
class Pace:
    """A bucket of tokens, one for each request; it fills at ``per_second`` and holds ``burst``.

    ``clock`` counts seconds, ``wait`` waits so many and may raise to break off. ``taken`` is
    how many requests there were. Not for several threads at once. Raises SourceError where
    ``per_second`` is not positive.
    """

    per_second: float
    clock: Callable[[], float]
    wait: Callable[[float], None]
    burst: float = 1.0
    taken: int = 0
    _tokens: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        if not self.per_second > 0:
            raise SourceError(f"requests per second is {self.per_second!r}: give a positive number")
        self._tokens, self._at = self.burst, self.clock()

    def __call__(self) -> None:
        """Take a token; wait until there is one."""
        self.taken += 1
        self._fill()
        if self._tokens < 1:
            self.wait((1 - self._tokens) / self.per_second)
            self._fill()
        self._tokens -= 1

    def _fill(self) -> None:
        now = self.clock()
        self._tokens = min(self.burst, self._tokens + (now - self._at) * self.per_second)
        self._at = now
