"""Which names a topic can have."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether a broker could have a topic of this name; of any other it need not be asked.

    Source: ``org.apache.kafka.common.internals.Topic``.
    """
    return _NAME.fullmatch(name) is not None and name not in (".", "..")
