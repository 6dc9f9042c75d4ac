"""An access token, and a cache that replaces it before it expires, for all connections of a client.

Clients ask for a token whenever they open a connection or authenticate again, kafka-python in the
thread that also sends heartbeats. So requests run in a thread of their own, one at a time, and
every wait is bounded.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from assignors.connection.properties import Secret
from placement_core import RackwardError

REFRESH_AT = 0.8
"""The part of a token's lifetime after which a new one is requested, as in Java and librdkafka."""

WAIT_SECONDS = 11.0
"""Longest wait for a token if there is none that is valid: a second more than for a request."""

STALE_WAIT_SECONDS = 1.0
"""Longest wait for a new token while the old one is still valid."""

RETRY_SECONDS = 2.0
"""Seconds after a failure during which no other request is made."""

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


class TokenError(RackwardError):
    """No access token could be obtained. The message is one line, without any secret."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token, when it was obtained, and when it expires, both in seconds since 1970.

    ``extensions`` are sent to the broker with the token.
    """

    value: Secret
    obtained_at: float
    expires_at: float
    extensions: Mapping[str, str] = field(default_factory=dict)


def is_token(text: str) -> bool:
    """Return whether the text has the form of a bearer token: RFC 6750, section 2.1."""
    return _TOKEN.fullmatch(text) is not None


class TokenCache:
    """Returns a valid token, from ``request`` or from memory. May be used by several threads."""

    def __init__(
        self, request: Callable[[], AccessToken], *, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._request = request
        self._wait_seconds = wait_seconds
        self._changed = threading.Condition()
        self._token: AccessToken | None = None
        self._error: TokenError | None = None
        self._retry_at = 0.0
        self._attempt: object | None = None

    def get(self) -> AccessToken:
        """Return a token that has not expired. Raise TokenError within a bounded time."""
        with self._changed:
            token = self._valid_token()
            if token is not None and time.time() < _refresh_time(token):
                return token
            self._start_request()
            attempt = self._attempt
            seconds = self._wait_seconds if token is None else STALE_WAIT_SECONDS
            done = attempt is None or self._changed.wait_for(
                lambda: self._attempt is not attempt, seconds
            )
            if (current := self._valid_token()) is not None:
                return current
            if attempt is not None and not done:
                # The thread may wait for ever: a response whose bytes come one by one.
                self._finish(attempt, TokenError(f"no token within {seconds:g} s"))
            # A new exception for each caller: raising the same one adds to its traceback.
            raise TokenError(str(self._error))

    def _valid_token(self) -> AccessToken | None:
        token = self._token
        return token if token is not None and time.time() < token.expires_at else None

    def _start_request(self) -> None:
        if self._attempt is None and time.monotonic() >= self._retry_at:
            self._attempt = attempt = object()
            threading.Thread(
                target=self._run, args=(attempt,), name="rackward-token", daemon=True
            ).start()

    def _run(self, attempt: object) -> None:
        result: AccessToken | TokenError = TokenError("no token: the request failed")
        try:
            result = self._request()
        except TokenError as error:
            result = error
        finally:
            with self._changed:
                self._finish(attempt, result)

    def _finish(self, attempt: object, result: AccessToken | TokenError) -> None:
        if self._attempt is not attempt:
            return  # Given up meanwhile.
        self._attempt = None
        if isinstance(result, TokenError):
            self._error, self._retry_at = result, time.monotonic() + RETRY_SECONDS
        else:
            self._token, self._error = result, None
        self._changed.notify_all()


def _refresh_time(token: AccessToken) -> float:
    return token.obtained_at + REFRESH_AT * (token.expires_at - token.obtained_at)
