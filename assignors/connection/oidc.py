"""OAUTHBEARER with OpenID Connect: the properties of the client credentials flow.

librdkafka and Java have the same names for most of them. Java clients may also give client id,
secret and scope as options of the login module in ``sasl.jaas.config``, with extensions as options
that begin with ``extension_`` and the TLS settings of the token endpoint as options that begin with
``ssl.``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from assignors.connection.properties import ConnectionPropertyError, PropertyReader, Secret
from assignors.connection.tls import TlsSettings, read_tls

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
ALLOW_HTTP = "rackward.oauth.allow.http"
CALLBACK = "oauth_cb"
METHOD = "sasl.oauthbearer.method"

_JAAS = "sasl.jaas.config"
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
            scope=_merge(reader.get_str(_SCOPE), jaas.get("scope"), _SCOPE),
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
    value = _merge(reader.get_secret(*names), jaas.get(option), names[0])
    if not value:
        raise ConnectionPropertyError(
            names[0], f"OAUTHBEARER needs it: set it, or {option} in {_JAAS}"
        )
    return Secret(value)


def _merge(value: str | None, option: str | None, name: str) -> str | None:
    if value and option and value != option:
        raise ConnectionPropertyError(_JAAS, f"it disagrees with {name}: give one of the two")
    return value or (None if option is None else str(option)) or None


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
        given, source = {k: v for k, v in jaas.items() if k.startswith("ssl.")}, _JAAS
    try:
        return read_tls(PropertyReader(given))
    except ConnectionPropertyError as error:
        problem = str(error).removeprefix(f"{error.name}: ")
        raise ConnectionPropertyError(source, f"for the token endpoint: {problem}") from error
