"""Which topics of a subscription an application is told to be missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from confluent_kafka import KafkaError

from assignors.leading import is_topic_name


def unavailable(
    names: Iterable[str],
    sought: Collection[str],
    there: Collection[str],
    forbidden: Collection[str],
) -> dict[str, int]:
    """The error code of each of ``names`` that cannot be had, by an answer of a broker.

    ``there`` and ``forbidden`` are what the answer has. A topic counts as missing if it was
    ``sought`` at the answer before: this one may be to a question from before that.
    """
    errored: dict[str, int] = {}
    for topic in sorted(names):
        if not is_topic_name(topic):
            errored[topic] = KafkaError.TOPIC_EXCEPTION
        elif topic in forbidden:
            errored[topic] = KafkaError.TOPIC_AUTHORIZATION_FAILED
        elif topic not in there and topic in sought:
            errored[topic] = KafkaError.UNKNOWN_TOPIC_OR_PART
    return errored
