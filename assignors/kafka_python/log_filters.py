"""Filters for kafka-python's loggers.

At DEBUG kafka-python logs every request that it sends, as an object and as bytes; those of a login
with SASL PLAIN contain the password. And while a topic of interest does not exist, it logs an ERROR
for each metadata response.
"""

from __future__ import annotations

import logging
import time

REDACTED = "(login redacted)"
REPEAT_SECONDS = 60.0
"""Seconds before an identical warning or error is logged again."""

_SASL_AUTHENTICATE = (36).to_bytes(2, "big")
"""The API key of SaslAuthenticate, which follows the four bytes of a request's length."""


def install_log_filters() -> None:
    """Redact logins in kafka-python's logs, and limit repeated errors about topics; idempotent."""
    for name in ("kafka.protocol.parser", "kafka.net.connection", "kafka.net.transport"):
        _add(logging.getLogger(name), RedactSasl)
    _add(logging.getLogger("kafka.cluster"), RateLimit)


class RedactSasl(logging.Filter):
    """Replaces logins in the arguments of log records."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True, after replacing logins in the record."""
        if isinstance(record.args, tuple) and any(_is_login(each) for each in record.args):
            record.args = tuple(REDACTED if _is_login(each) else each for each in record.args)
        return True


class RateLimit(logging.Filter):
    """Suppresses a record of level WARNING or higher repeated within `REPEAT_SECONDS`."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False if the same message was logged a moment ago."""
        if record.levelno < logging.WARNING:
            return True
        now, message = time.monotonic(), record.getMessage()
        self._logged_at = {
            each: at for each, at in self._logged_at.items() if now - at < REPEAT_SECONDS
        }
        if message in self._logged_at:
            return False
        self._logged_at[message] = now
        return True


def _add(logger: logging.Logger, kind: type[logging.Filter]) -> None:
    if not any(isinstance(each, kind) for each in logger.filters):
        logger.addFilter(kind())


def _is_login(value: object) -> bool:
    if isinstance(value, bytes | bytearray):
        return bytes(value[4:6]) == _SASL_AUTHENTICATE
    name = type(value).__name__
    return name.startswith("Sasl") and name.endswith("Request")
