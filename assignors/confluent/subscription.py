"""The application's subscription: names of topics, patterns, and errors of topics."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError

from assignors.group_leader import is_topic_name


@dataclass(frozen=True)
class Subscription:
    """Names of topics, and patterns. Patterns match no topic that ``ignored`` matches."""

    names: frozenset[str]
    patterns: tuple[re.Pattern[str], ...] = ()
    ignored: tuple[re.Pattern[str], ...] = ()

    def topics(self, known: Iterable[str]) -> set[str]:
        """Return the names, and those of the ``known`` topics of the cluster that match."""
        return set(self.names).union(
            topic
            for topic in known
            if any(pattern.match(topic) for pattern in self.patterns)
            and not any(pattern.match(topic) for pattern in self.ignored)
        )


class PatternError(ValueError):
    """An invalid pattern."""


def parse_subscription(topics: Collection[str], ignored: Iterable[str] = ()) -> Subscription:
    """Return the subscription that confluent's ``subscribe`` makes of ``topics``.

    ``ignored`` are the patterns of ``topic.blacklist``. Raise PatternError.
    """
    return Subscription(
        frozenset(topic for topic in topics if not topic.startswith("^")),
        tuple(_compile(topic) for topic in topics if topic.startswith("^")),
        tuple(_compile(pattern) for pattern in ignored),
    )


_CHARACTER_CLASSES = {
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


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern with POSIX character classes, as librdkafka supports them."""
    translated = re.sub(
        r"\[:([a-z]+):\]", lambda match: _CHARACTER_CLASSES.get(match[1], match[0]), pattern
    )
    try:
        return re.compile(translated)
    except re.error as error:
        raise PatternError(f"invalid pattern {pattern!r}: {error}") from error


def topic_errors(
    names: Iterable[str],
    previous_names: Collection[str],
    *,
    known: Collection[str],
    unauthorized: Collection[str],
) -> dict[str, int]:
    """Return the error code of each of ``names`` that a metadata response shows as unavailable.

    ``known`` and ``unauthorized`` are of that response. A topic counts as missing only if it was
    among ``previous_names``, at the previous response: this one may be to an older request.
    """
    errors: dict[str, int] = {}
    for topic in sorted(names):
        if not is_topic_name(topic):
            errors[topic] = KafkaError.TOPIC_EXCEPTION
        elif topic in unauthorized:
            errors[topic] = KafkaError.TOPIC_AUTHORIZATION_FAILED
        elif topic not in known and topic in previous_names:
            errors[topic] = KafkaError.UNKNOWN_TOPIC_OR_PART
    return errors
