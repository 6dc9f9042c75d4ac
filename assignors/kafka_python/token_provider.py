"""Access tokens for kafka-python's ``sasl_oauth_token_provider``."""

from __future__ import annotations

from collections.abc import Callable

from kafka.errors import KafkaConnectionError
from kafka.net.sasl.oauth import AbstractTokenProvider

from assignors.connection.access_token import AccessToken, TokenError


class TokenUnavailableError(TokenError, KafkaConnectionError):  # type: ignore[misc]
    """There is no valid token. kafka-python tries again, as for a broker that is down."""


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Returns the tokens of ``source``, which raises TokenError if there is none that is valid.

    kafka-python calls `token`, and then `extensions` for those of the same token, when it opens a
    connection and when it authenticates again on one.
    """

    def __init__(self, source: Callable[[], AccessToken]) -> None:
        super().__init__()
        self._source = source
        self._current: AccessToken | None = None

    def token(self) -> str:
        """Return a token that has not expired. Raise TokenUnavailableError in a bounded time."""
        try:
            self._current = self._source()
        except TokenError as error:
            raise TokenUnavailableError(str(error)) from error
        return self._current.value

    def extensions(self) -> dict[str, str]:
        """Return the extensions of the last token."""
        return {} if self._current is None else dict(self._current.extensions)
