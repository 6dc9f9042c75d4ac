"""SASL credentials, from ``sasl.username`` and ``sasl.password`` or from ``sasl.jaas.config``.

Java clients take credentials as the options of a login module, in this syntax::

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="alice" password="alice-secret";

For OAUTHBEARER see `assignors.connection.oauth`.

No error contains any part of that text: in a malformed line the password may be anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from assignors.connection.oauth import TokenCredentials, read_token_credentials
from assignors.connection.properties import (
    JAAS,
    ConnectionPropertyError,
    PropertyReader,
    Secret,
    property_or_option,
)

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_MECHANISM_NAMES = ("sasl.mechanism", "sasl.mechanisms")
_HINT = f"set it, or {JAAS} with username and password"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A SASL mechanism with a password: its name, a user name and the password."""

    mechanism: str
    username: str
    password: Secret


def read_credentials(reader: PropertyReader) -> Credentials | TokenCredentials:
    """Return the credentials that the properties give, by Java's names or librdkafka's.

    Raise ConnectionPropertyError for a mechanism that is not in MECHANISMS, for credentials that
    are missing, and if ``sasl.jaas.config`` disagrees with the other properties.
    """
    mechanism = (reader.get_str(*_MECHANISM_NAMES) or "").upper()
    if mechanism not in MECHANISMS:
        problem = f"{mechanism} is not supported" if mechanism else "security.protocol requires it"
        raise ConnectionPropertyError(
            reader.first_set(*_MECHANISM_NAMES) or _MECHANISM_NAMES[0],
            f"{problem}: set it to one of {', '.join(MECHANISMS)}",
        )
    jaas = reader.get_secret(JAAS)
    options = None if jaas is None else parse_jaas(jaas)
    if mechanism == "OAUTHBEARER":
        return read_token_credentials(reader, options)
    username = reader.get_str("sasl.username")
    password: str | None = reader.get_secret("sasl.password")
    if options is not None:
        if options.get("tokenauth", "").lower() == "true":
            raise ConnectionPropertyError(JAAS, "delegation tokens (tokenauth) are not supported")
        names = "sasl.username and sasl.password"
        username = property_or_option(username, str(options.get("username", "")), names)
        password = property_or_option(password, options.get("password"), names)
    if not username:
        raise ConnectionPropertyError("sasl.username", f"{mechanism} needs a user name: {_HINT}")
    if not password:
        raise ConnectionPropertyError("sasl.password", f"{mechanism} needs a password: {_HINT}")
    return Credentials(mechanism, username, Secret(password))


# ---- The syntax of sasl.jaas.config.

_LOGIN_MODULES = ("PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule")
_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
      | (?P<quoted>"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*')
      | (?P<sign>[=;])
      | (?P<word>[^\s=;"']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CONTROL_CHARACTERS = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_FORM = 'write it as ...LoginModule required username="..." password="...";'


def parse_jaas(text: str) -> dict[str, Secret]:
    """Return the options of the one login module in ``text``, which is in _LOGIN_MODULES.

    Raise ConnectionPropertyError, without any part of the text, for a text of another form and
    for other login modules.
    """
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[-1] != ("sign", ";"):
        raise ConnectionPropertyError(JAAS, f"it does not end with a semicolon: {_FORM}")
    words = tokens[:-1]
    if ("sign", ";") in words:
        raise ConnectionPropertyError(JAAS, f"it has more than one login module: {_FORM}")
    if words[0][0] != "word" or words[1][0] != "word" or words[1][1].lower() not in _FLAGS:
        raise ConnectionPropertyError(JAAS, f"it does not begin with a module and a flag: {_FORM}")
    if words[0][1].rpartition(".")[2] not in _LOGIN_MODULES:
        raise ConnectionPropertyError(
            JAAS, f"its login module is not supported: use {' or '.join(_LOGIN_MODULES)}"
        )
    options = {}
    for start in range(2, len(words), 3):
        match words[start : start + 3]:
            case [("word", name), ("sign", "="), ("word" | "quoted", value)]:
                options[name] = Secret(value)
            case _:
                raise ConnectionPropertyError(JAAS, f"an option is not name=value: {_FORM}")
    return options


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind ("word", "sign" or "quoted") and the text of each token."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConnectionPropertyError(JAAS, f"a quotation mark is not closed: {_FORM}")
        position = match.end()
        if match.lastgroup == "quoted":
            yield "quoted", _ESCAPE.sub(_unescape, match["quoted"][1:-1])
        elif match.lastgroup is not None:
            yield match.lastgroup, match[0]


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    return _CONTROL_CHARACTERS.get(escape, escape)
