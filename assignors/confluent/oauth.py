"""confluent's ``oauth_cb`` for both connections of a consumer.

librdkafka decides when the callback is called: in a thread of its own, while the consumer is
constructed and then after 80 % of each token's lifetime. The membership's connections use the
tokens of these calls, so the application's callback is called as often as with confluent-kafka.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from assignors.connection.oauth import (
    CALLBACK,
    AccessToken,
    TokenError,
    TokenProvider,
    is_token,
    validate_extensions,
)
from assignors.connection.properties import ConnectionPropertyError, Secret

WAIT_SECONDS = 2.0
"""Longest wait for librdkafka to call the callback after a token has expired."""


class SharedOAuthCallback(TokenProvider):
    """The application's callback for librdkafka, and its tokens for kafka-python."""

    def __init__(self, callback: Callable[[str], Any]) -> None:
        super().__init__(self._wait_for_token)
        self._callback = callback
        self._changed = threading.Condition()
        self._latest: AccessToken | None = None

    def __call__(self, config: str) -> Any:
        """Return what the application's callback returns, and keep the token."""
        result = self._callback(config)
        token = _read_token(result)
        with self._changed:
            # confluent reports a result that is not as it should be.
            self._latest = token or self._latest
            self._changed.notify_all()
        return result

    def _wait_for_token(self) -> AccessToken:
        """Return a token that has not expired. Raise TokenError within WAIT_SECONDS."""
        with self._changed:
            self._changed.wait_for(self._is_valid, WAIT_SECONDS)
            if self._latest is None or not self._is_valid():
                raise TokenError(
                    "oauth_cb has returned no token that is valid now: check what it raises or"
                    " returns, and the expiry"
                )
            return self._latest

    def _is_valid(self) -> bool:
        return self._latest is not None and time.time() < self._latest.expires_at


def share_oauth_callback(properties: dict[Any, Any]) -> None:
    """Replace ``oauth_cb`` in the properties, if it is callable, by a SharedOAuthCallback."""
    if callable(callback := properties.get(CALLBACK)):
        properties[CALLBACK] = SharedOAuthCallback(callback)


def _read_token(result: Any) -> AccessToken | None:
    """Return the token in ``(token, expiry[, principal[, extensions]])``; None for others."""
    match result:
        case (str(text), int() | float() as expiry, *rest) if is_token(text) and len(rest) <= 2:
            extensions = rest[1] if len(rest) == 2 else {}
        case _:
            return None
    try:
        extensions = {str(name): str(value) for name, value in extensions.items()}
        validate_extensions(extensions, CALLBACK)
    except (AttributeError, ConnectionPropertyError):
        return None
    return AccessToken(Secret(text), time.time(), float(expiry), extensions)
