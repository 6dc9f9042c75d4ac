"""An access token, and the error if there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from assignors.connection.properties import Secret
from placement_core import RackwardError

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
