"""What kafka-python must not say in the log, and what it need not say ten times a second.

At DEBUG it logs every request that it sends, as an object and as bytes; of a login with PLAIN
these hold the password. And while a topic is not there that a consumer asks for, each answer
of a broker is an ERROR.
"""

from __future__ import annotations

import logging
import time

WITHHELD = "(a login, not shown)"
QUIET = 60.0
"""Seconds for which a line is not said again."""

_AUTHENTICATE = (36).to_bytes(2, "big")
"""The key of SaslAuthenticate, which follows the four bytes of a request's length."""


class Discretion(logging.Filter):
    """Withholds logins from the records of one logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let all records pass, those of a login without it."""
        if isinstance(record.args, tuple) and any(_is_login(each) for each in record.args):
            record.args = tuple(WITHHELD if _is_login(each) else each for each in record.args)
        return True


class Patience(logging.Filter):
    """Passes no warning, nor what is worse, that it passed a moment ago."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is worth saying."""
        if record.levelno < logging.WARNING:
            return True
        now, line = time.monotonic(), record.getMessage()
        if now - self._said.get(line, -QUIET) < QUIET:
            return False
        self._said = {said: at for said, at in self._said.items() if now - at < QUIET}
        self._said[line] = now
        return True


def teach_discretion() -> None:
    """Have kafka-python log no logins, and say what it says of topics once a minute."""
    for name in ("kafka.protocol.parser", "kafka.net.connection", "kafka.net.transport"):
        _add(logging.getLogger(name), Discretion)
    _add(logging.getLogger("kafka.cluster"), Patience)


def _add(logger: logging.Logger, kind: type[logging.Filter]) -> None:
    if not any(isinstance(each, kind) for each in logger.filters):
        logger.addFilter(kind())


def _is_login(value: object) -> bool:
    if isinstance(value, bytes | bytearray):
        return bytes(value[4:6]) == _AUTHENTICATE
    name = type(value).__name__
    return name.startswith("Sasl") and name.endswith("Request")
