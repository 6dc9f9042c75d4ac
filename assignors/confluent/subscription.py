"""What a consumer subscribes to: topics by name, and by patterns that start with ``^``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
    "blank": r" \t",
    "xdigit": "0-9a-fA-F",
    "punct": r"!-/:-@\[-`{-~",
}


class PatternError(ValueError):
    """A pattern that cannot be read."""


@dataclass(frozen=True)
class Subscription:
    """Topics by name, and patterns; of the topics there are, ``ignored`` matches none."""

    names: frozenset[str]
    patterns: tuple[re.Pattern[str], ...] = ()
    ignored: tuple[re.Pattern[str], ...] = field(default=())

    def topics(self, known: Iterable[str]) -> set[str]:
        """The topics to join with, ``known`` being the cluster's."""
        return set(self.names).union(
            topic
            for topic in known
            if any(pattern.match(topic) for pattern in self.patterns)
            and not any(pattern.match(topic) for pattern in self.ignored)
        )


def subscription(topics: Collection[str], ignored: Iterable[str] = ()) -> Subscription:
    """The subscription that confluent's ``subscribe`` makes of ``topics``.

    Raises PatternError for a pattern that is none.
    """
    return Subscription(
        frozenset(topic for topic in topics if not topic.startswith("^")),
        tuple(_compiled(topic) for topic in topics if topic.startswith("^")),
        tuple(_compiled(pattern) for pattern in ignored),
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    """``pattern``, in which librdkafka knows POSIX's classes of characters."""
    try:
        return re.compile(re.sub(r"\[:([a-z]+):\]", _class, pattern))
    except re.error as error:
        raise PatternError(f"{pattern!r} is no pattern: {error}") from error


def _class(found: re.Match[str]) -> str:
    return _CLASSES.get(found[1], found[0])
