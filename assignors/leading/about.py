"""Of which group and generation something is said."""

from __future__ import annotations

from typing import NamedTuple

from assignors.wire import NO_GENERATION


class About(NamedTuple):
    """A group and the generation that it is joining; as text, what a line of the log adds."""

    group: str = ""
    generation: int = NO_GENERATION

    def __str__(self) -> str:
        return f" group {self.group} generation {self.generation}" if self.group else ""


UNTOLD = About()
"""Where nobody told: a coordinator that is not ours, say."""
