"""Request an access token from a token endpoint: the client credentials flow of RFC 6749.

No error contains the token, the secret or any part of the response's body, except the error code
that RFC 6749 defines.
"""

from __future__ import annotations

import base64
import binascii
import json
import ssl
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from assignors.connection.access_token import AccessToken, TokenError, is_token
from assignors.connection.oidc import OidcSettings
from assignors.connection.properties import Secret
from assignors.connection.tls import tls_context

TIMEOUT_SECONDS = 10.0
"""Timeout of a request, from connecting to the last byte."""

MAX_RESPONSE_BYTES = 1 << 20

_ERROR_CODES = (
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
)


class TokenEndpoint:
    """Requests tokens as the settings say.

    The constructor raises ConnectionPropertyError for certificates that cannot be used.
    """

    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        handlers: list[Any] = [_RefuseRedirects()]
        if settings.tls is None:
            # A proxy would get the secret in clear text.
            handlers.append(urllib.request.ProxyHandler({}))
        else:
            handlers.append(urllib.request.HTTPSHandler(context=tls_context(settings.tls)))
        self._opener = urllib.request.build_opener(*handlers)

    def request(self, timeout: float = TIMEOUT_SECONDS) -> AccessToken:
        """Return a new token. Raise TokenError."""
        deadline = time.monotonic() + timeout
        started = time.time()
        try:
            with self._opener.open(self._http_request(), timeout=timeout) as response:
                body = _read_body(response, deadline)
        except urllib.error.HTTPError as error:
            with error:
                raise self._error(_http_problem(error, deadline)) from None
        except TokenError as error:
            raise self._error(str(error)) from None
        except (OSError, ValueError) as error:
            raise self._error(_io_problem(error, timeout)) from None
        except HTTPException as error:
            raise self._error(f"the response is not HTTP ({type(error).__name__})") from None
        try:
            value, expires_at = _parse(body, started)
        except TokenError as error:
            raise self._error(str(error)) from None
        return AccessToken(value, started, expires_at, self._settings.extensions)

    def _http_request(self) -> urllib.request.Request:
        settings = self._settings
        client_id, secret = settings.client_id, str(settings.client_secret)
        if settings.url_encode:
            client_id, secret = quote_plus(client_id), quote_plus(secret)
        credentials = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        form = {"grant_type": "client_credentials"}
        if settings.scope is not None:
            form["scope"] = settings.scope
        return urllib.request.Request(
            settings.endpoint,
            data=urlencode(form).encode(),
            headers={
                "Authorization": f"Basic {credentials}",
                "Accept": "application/json",
                "Content-Type": "application/x-www-form-urlencoded",
            },
            method="POST",
        )

    def _error(self, problem: str) -> TokenError:
        return TokenError(f"no token from {urlsplit(self._settings.endpoint).netloc}: {problem}")


class _RefuseRedirects(urllib.request.HTTPRedirectHandler):
    """Another server must not get the secret."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


def _read_body(response: Any, deadline: float) -> bytes:
    body = b""
    while chunk := response.read1(65536):
        body += chunk
        if len(body) > MAX_RESPONSE_BYTES:
            raise TokenError(f"the response is larger than {MAX_RESPONSE_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TokenError("the response did not end in time")
    return body


def _parse(body: bytes, now: float) -> tuple[Secret, float]:
    """Return the token and its time of expiry."""
    answer = _parse_object(body)
    token = answer.get("access_token")
    if not isinstance(token, str) or not is_token(token):
        raise TokenError("the response has no access_token: check the URL of the token endpoint")
    expiries = []
    if (lifetime := _number(answer.get("expires_in"))) is not None:
        expiries.append(now + lifetime)
    parts = token.split(".")
    if len(parts) == 3 and (expiry := _number(_claims(parts[1]).get("exp"))) is not None:
        expiries.append(expiry)
    if not expiries:
        raise TokenError("the response has no expires_in, and the token no exp")
    if min(expiries) <= now:
        raise TokenError("the token has already expired: check the clocks")
    return Secret(token), min(expiries)


def _parse_object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _claims(part: str) -> dict[str, Any]:
    """Return the claims in the second part of a JWT, or nothing."""
    try:
        return _parse_object(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError):
        return {}


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
        return float(value)
    return None


def _http_problem(error: urllib.error.HTTPError, deadline: float) -> str:
    """Return what an HTTP status other than 2xx means."""
    if 300 <= error.code < 400:
        return f"HTTP status {error.code}: redirects are not followed; give the final URL"
    try:
        code = _parse_object(_read_body(error, deadline)).get("error")
    except (TokenError, OSError, ValueError, HTTPException):
        code = None
    shown = f" ({code})" if code in _ERROR_CODES else ""
    if error.code in (400, 401, 403):
        return f"HTTP status {error.code}{shown}: check client id, client secret and scope"
    if error.code in (404, 405):
        return f"HTTP status {error.code}: check the path of the token endpoint"
    return f"HTTP status {error.code}{shown}"


def _io_problem(error: Exception, timeout: float) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    match cause:
        case TimeoutError():
            return f"no response within {timeout:g} s"
        case ssl.SSLCertVerificationError():
            reason = cause.verify_message.rstrip(".")
            if "mismatch" in reason:
                return f"its certificate is for another name ({reason}): check the URL"
            return f"its certificate is not trusted ({reason}): set https.ca.location"
        case ssl.SSLError():
            return f"the TLS handshake failed ({(cause.reason or 'closed').lower()})"
        case OSError():
            return f"it cannot be reached ({cause.strerror or type(cause).__name__})"
    return f"the request failed ({type(cause).__name__})"
