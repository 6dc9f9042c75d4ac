"""What was promised to topics that were made with fewer replicas than wanted, and is to be kept.

An intent says that some partitions of a topic shall have more replicas than they could be made
with (KIP-409). Intents are records of a compacted topic, so that they outlive whoever wrote them;
the controller keeps them (:mod:`rackward.controller`).
"""

from rackward.intents.model import (
    Intent,
    IntentError,
    layout_digest,
    parse_intent,
    wanted_of,
    with_placeholders,
)
from rackward.intents.reading import IntentReader, read_intents
from rackward.intents.topic import INTENTS_TOPIC, ensure_topic
from rackward.intents.writing import IntentWriter

__all__ = [
    "INTENTS_TOPIC",
    "Intent",
    "IntentError",
    "IntentReader",
    "IntentWriter",
    "ensure_topic",
    "layout_digest",
    "parse_intent",
    "read_intents",
    "wanted_of",
    "with_placeholders",
]
