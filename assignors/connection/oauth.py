"""OAUTHBEARER with OpenID Connect: the client credentials flow of RFC 6749.

`read_token_credentials` reads the properties. librdkafka and Java have the same names for most of
them. Java clients may also give client id, secret and scope as options of the login module in
``sasl.jaas.config``, with extensions as options that begin with ``extension_`` and the TLS settings
of the token endpoint as options that begin with ``ssl.``.

For kafka-python, `TokenEndpoint` requests tokens, and a `TokenCache` replaces each before it
expires, for all connections of a client. kafka-python asks for a token whenever it opens a
connection or authenticates again, in the thread that also sends heartbeats. So requests run in a
thread, one at a time, and every wait is bounded.

No error contains a token, the secret or any part of a response's body, except the error code that
RFC 6749 defines.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode, urlsplit

from assignors.connection.properties import (
    JAAS,
    ConnectionPropertyError,
    PropertyReader,
    Secret,
    property_or_option,
)
from assignors.connection.tls import TlsSettings, read_tls, tls_context
from placement_core import RackwardError

if TYPE_CHECKING:
    from urllib.error import HTTPError

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
ALLOW_HTTP = "rackward.oauth.allow.http"
CALLBACK = "oauth_cb"
METHOD = "sasl.oauthbearer.method"

_CLIENT_ID = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id")
_CLIENT_SECRET = (
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.client.credentials.client.secret",
)
_SCOPE = "sasl.oauthbearer.scope"
_EXTENSIONS = "sasl.oauthbearer.extensions"
_HANDLER = "sasl.login.callback.handler.class"
_URL_ENCODE = "sasl.oauthbearer.header.urlencode"
_HTTPS_CA = ("https.ca.location", "https.ca.pem")

OIDC_PROPERTIES = frozenset(
    {
        ALLOW_HTTP,
        ENDPOINT,
        METHOD,
        *_CLIENT_ID,
        *_CLIENT_SECRET,
        _SCOPE,
        _EXTENSIONS,
        _HANDLER,
        _URL_ENCODE,
        *_HTTPS_CA,
    }
)
"""Every property that is read here."""

_ONLY = {
    "sasl.oauthbearer.grant.type": "client_credentials",
    "sasl.oauthbearer.metadata.authentication.type": "none",
}
_DEFAULT_HANDLER = "OAuthBearerLoginCallbackHandler"
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x20-\x7e\t\r\n]*")


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """How to get a token: the endpoint, the client's credentials, and the endpoint's TLS.

    ``tls`` is None for an endpoint with http. ``extensions`` are sent to the broker with the token.
    """

    endpoint: str
    client_id: str
    client_secret: Secret
    scope: str | None
    extensions: Mapping[str, str]
    url_encode: bool
    tls: TlsSettings | None


@dataclass(frozen=True, slots=True)
class TokenCredentials:
    """OAUTHBEARER; ``oidc`` is None if the tokens come from the callback ``oauth_cb``."""

    oidc: OidcSettings | None


def read_token_credentials(
    reader: PropertyReader, jaas: Mapping[str, Secret] | None
) -> TokenCredentials:
    """Return where tokens come from. ``jaas``: the options of ``sasl.jaas.config``.

    Raise ConnectionPropertyError for settings that are missing, unsupported or contradictory.
    """
    if reader.is_present(CALLBACK):
        return TokenCredentials(None)
    jaas = jaas or {}
    _validate_method(reader)
    endpoint = reader.get_str(ENDPOINT)
    if endpoint is None:
        raise ConnectionPropertyError(
            ENDPOINT, "OAUTHBEARER needs it, to get tokens with client id and secret: set it"
        )
    return TokenCredentials(
        OidcSettings(
            endpoint=_validate_endpoint(endpoint, reader.get_bool(ALLOW_HTTP) is True),
            client_id=str(_read(reader, _CLIENT_ID, jaas, "clientId")),
            client_secret=_read(reader, _CLIENT_SECRET, jaas, "clientSecret"),
            scope=property_or_option(reader.get_str(_SCOPE), jaas.get("scope"), _SCOPE),
            extensions=_read_extensions(reader, jaas),
            url_encode=reader.get_bool(_URL_ENCODE) is True,
            tls=_read_tls(reader, jaas) if endpoint.lower().startswith("https:") else None,
        )
    )


def _validate_method(reader: PropertyReader) -> None:
    if (reader.get_str(METHOD) or "oidc").lower() != "oidc":
        raise ConnectionPropertyError(METHOD, "set it to oidc, or give oauth_cb")
    for name, supported in _ONLY.items():
        if (reader.get_str(name) or supported).lower() != supported:
            raise ConnectionPropertyError(
                name, f"only {supported} is supported: leave it out, or give oauth_cb"
            )
    handler = reader.get_str(_HANDLER)
    if handler is not None and handler.rpartition(".")[2] != _DEFAULT_HANDLER:
        raise ConnectionPropertyError(
            _HANDLER, f"Java classes are not loaded: only Kafka's {_DEFAULT_HANDLER} is supported"
        )


def _validate_endpoint(url: str, allow_http: bool) -> str:
    """Return the URL. No error shows it: a password may be in it."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConnectionPropertyError(ENDPOINT, "it is not a URL: check it") from error
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise ConnectionPropertyError(ENDPOINT, "write it as https://host/path")
    if "@" in parts.netloc or parts.fragment:
        raise ConnectionPropertyError(
            ENDPOINT, "it has a user name or a fragment: give client id and secret as properties"
        )
    if parts.scheme == "http" and not allow_http and not _is_loopback(host):
        raise ConnectionPropertyError(
            ENDPOINT,
            "http would send the secret in clear text: use https, or allow it with"
            f" {ALLOW_HTTP}=true",
        )
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(
    reader: PropertyReader, names: tuple[str, ...], jaas: Mapping[str, Secret], option: str
) -> Secret:
    value = property_or_option(reader.get_secret(*names), jaas.get(option), names[0])
    if not value:
        raise ConnectionPropertyError(
            names[0], f"OAUTHBEARER needs it: set it, or {option} in {JAAS}"
        )
    return Secret(value)


def _read_extensions(reader: PropertyReader, jaas: Mapping[str, Secret]) -> dict[str, str]:
    extensions = {}
    for part in filter(None, (reader.get_str(_EXTENSIONS) or "").split(",")):
        name, sign, value = part.partition("=")
        if not sign:
            raise ConnectionPropertyError(_EXTENSIONS, "write it as name=value,name=value")
        extensions[name.strip()] = value
    extensions |= {
        name.removeprefix("extension_"): str(value)
        for name, value in jaas.items()
        if name.startswith("extension_")
    }
    validate_extensions(extensions, _EXTENSIONS)
    return extensions


def validate_extensions(extensions: Mapping[str, str], name: str) -> None:
    """Raise ConnectionPropertyError, with ``name``, for extensions that RFC 7628 does not allow."""
    for key, value in extensions.items():
        if (
            not _EXTENSION_NAME.fullmatch(key)
            or key == "auth"
            or not _EXTENSION_VALUE.fullmatch(value)
        ):
            raise ConnectionPropertyError(
                name, "names of extensions are letters, and values printable ASCII characters"
            )


def _read_tls(reader: PropertyReader, jaas: Mapping[str, Secret]) -> TlsSettings:
    """Return the TLS settings of the token endpoint, which are not those of the brokers."""
    given = {name.replace("https.", "ssl."): reader.get_str(name) for name in _HTTPS_CA}
    source = "https.ca.location"
    if not any(given.values()):
        given, source = {k: v for k, v in jaas.items() if k.startswith("ssl.")}, JAAS
    try:
        return read_tls(PropertyReader(given))
    except ConnectionPropertyError as error:
        problem = str(error).removeprefix(f"{error.name}: ")
        raise ConnectionPropertyError(source, f"for the token endpoint: {problem}") from error


# ---- Tokens.

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


class TokenProvider:
    """kafka-python's ``sasl_oauth_token_provider``, with the tokens of ``source``.

    ``source`` raises TokenError if there is none that is valid. kafka-python calls `token`, and
    then `extensions` for those of the same token, when it opens a connection and when it
    authenticates again on one. It requires a subclass of its AbstractTokenProvider:
    `kafka_python_settings` registers this class, so that this package needs no client library.
    """

    def __init__(self, source: Callable[[], AccessToken]) -> None:
        self._source = source
        self._current: AccessToken | None = None

    def token(self) -> str:
        """Return a token that has not expired, in a bounded time.

        Raise KafkaConnectionError: kafka-python tries again, as for a broker that is down.
        """
        from kafka.errors import KafkaConnectionError

        try:
            self._current = self._source()
        except TokenError as error:
            raise KafkaConnectionError(str(error)) from error
        return self._current.value

    def extensions(self) -> dict[str, str]:
        """Return the extensions of the last token."""
        return {} if self._current is None else dict(self._current.extensions)


# ---- Tokens of an application's callback.

CALLBACK_WAIT_SECONDS = 2.0
"""Longest wait for librdkafka to call the callback after a token has expired."""


class SharedOAuthCallback(TokenProvider):
    """The application's callback ``oauth_cb`` for librdkafka, and its tokens for kafka-python.

    librdkafka decides when the callback is called: in a thread of its own, while the consumer is
    constructed and then after 80 % of each token's lifetime. kafka-python uses the tokens of these
    calls, so the callback is called as often as with confluent-kafka alone.
    """

    def __init__(self, callback: Callable[[str], Any]) -> None:
        super().__init__(self._wait_for_token)
        self._callback = callback
        self._changed = threading.Condition()
        self._latest: AccessToken | None = None

    def __call__(self, config: str) -> Any:
        """Return what the application's callback returns, and keep the token."""
        result = self._callback(config)
        token = _callback_token(result)
        with self._changed:
            # confluent reports a result that is not as it should be.
            self._latest = token or self._latest
            self._changed.notify_all()
        return result

    def _wait_for_token(self) -> AccessToken:
        """Return a token that has not expired. Raise TokenError within CALLBACK_WAIT_SECONDS."""
        with self._changed:
            self._changed.wait_for(self._is_valid, CALLBACK_WAIT_SECONDS)
            if self._latest is None or not self._is_valid():
                raise TokenError(
                    "oauth_cb has returned no token that is valid now: check what it raises or"
                    " returns, and the expiry"
                )
            return self._latest

    def _is_valid(self) -> bool:
        return self._latest is not None and time.time() < self._latest.expires_at


def _callback_token(result: Any) -> AccessToken | None:
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


# ---- Requests to the token endpoint.

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
        # Here and below, because an HTTP client takes memory that most consumers do not need.
        import urllib.request

        class RefuseRedirects(urllib.request.HTTPRedirectHandler):
            """Another server must not get the secret."""

            def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
                return None

        self._settings = settings
        handlers: list[Any] = [RefuseRedirects()]
        if settings.tls is None:
            # A proxy would get the secret in clear text.
            handlers.append(urllib.request.ProxyHandler({}))
        else:
            handlers.append(urllib.request.HTTPSHandler(context=tls_context(settings.tls)))
        self._opener = urllib.request.build_opener(*handlers)

    def request(self, timeout: float = TIMEOUT_SECONDS) -> AccessToken:
        """Return a new token. Raise TokenError."""
        import urllib.error
        from http.client import HTTPException

        deadline, started = time.monotonic() + timeout, time.time()
        try:
            with self._opener.open(self._http_request(), timeout=timeout) as response:
                value, expires_at = _parse(_read_body(response, deadline), started)
        except urllib.error.HTTPError as error:
            with error:
                problem = _http_problem(error, deadline)
        except TokenError as error:
            problem = str(error)
        except (OSError, ValueError) as error:
            problem = _io_problem(error, timeout)
        except HTTPException as error:
            problem = f"the response is not HTTP ({type(error).__name__})"
        else:
            return AccessToken(value, started, expires_at, self._settings.extensions)
        # Not chained: an error of urllib has the request, and with it the secret.
        raise TokenError(f"no token from {urlsplit(self._settings.endpoint).netloc}: {problem}")

    def _http_request(self) -> Any:
        from urllib.request import Request

        settings = self._settings
        client_id, secret = settings.client_id, str(settings.client_secret)
        if settings.url_encode:
            client_id, secret = quote_plus(client_id), quote_plus(secret)
        credentials = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        form = {"grant_type": "client_credentials"}
        if settings.scope is not None:
            form["scope"] = settings.scope
        return Request(
            settings.endpoint,
            data=urlencode(form).encode(),
            headers={
                "Authorization": f"Basic {credentials}",
                "Accept": "application/json",
                "Content-Type": "application/x-www-form-urlencoded",
            },
            method="POST",
        )


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


def _http_problem(error: HTTPError, deadline: float) -> str:
    """Return what an HTTP status other than 2xx means."""
    from http.client import HTTPException

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
    reason = getattr(error, "reason", None)  # Of a URLError: what has caused it.
    cause = reason if isinstance(reason, Exception) else error
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
