"""Who the client says it is, by SASL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from assignors.connection.properties import ConnectionPropertyError, Reading, Secret

# ---- ``sasl.jaas.config``: what Java's login modules are told, in a language of its own.
#
# ::
#
#     org.apache.kafka.common.security.plain.PlainLoginModule required
#         username="alice" password="alice-secret";

NAME = "sasl.jaas.config"
_MODULES = ("PlainLoginModule", "ScramLoginModule")
_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
      | (?P<quoted>"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*')
      | (?P<sign>[=;])
      | (?P<word>[^\s=;"']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FORM = 'write it as ...PlainLoginModule required username="..." password="...";'


def read_jaas(text: str) -> dict[str, str]:
    """The options of the one login module in ``text``, PlainLoginModule or ScramLoginModule.

    Raises ConnectionPropertyError, without any value, where the text is not of that form and
    for other login modules.
    """
    tokens = list(_tokens(text))
    if len(tokens) < 3 or (tokens[-1] != ("sign", ";")):
        raise ConnectionPropertyError(NAME, f"it does not end with a semicolon: {_FORM}")
    words = tokens[:-1]
    if ("sign", ";") in words:
        raise ConnectionPropertyError(NAME, f"it has more than one login module: {_FORM}")
    if words[0][0] != "word" or words[1][0] != "word" or words[1][1].lower() not in _FLAGS:
        raise ConnectionPropertyError(NAME, f"it does not begin with a module and a flag: {_FORM}")
    module = words[0][1].rpartition(".")[2]
    if module not in _MODULES:
        raise ConnectionPropertyError(
            NAME, f"the login module {module} is not supported: {' and '.join(_MODULES)} are"
        )
    options = {}
    rest = words[2:]
    for at in range(0, len(rest), 3):
        match rest[at : at + 3]:
            case [("word", key), ("sign", "="), ("word" | "quoted", value)]:
                options[key] = value
            case _:
                raise ConnectionPropertyError(NAME, f"an option is not name=value: {_FORM}")
    return options


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ConnectionPropertyError(NAME, f"a quotation mark is not closed: {_FORM}")
        at = match.end()
        if match.lastgroup == "quoted":
            yield "quoted", _ESCAPE.sub(_char, match["quoted"][1:-1])
        elif match.lastgroup is not None:
            yield match.lastgroup, match[0]


def _char(match: re.Match[str]) -> str:
    told = match[1]
    return chr(int(told, 8)) if told[0] in "01234567" else _NAMED.get(told, told)


JAAS = NAME

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NAMES = ("sasl.mechanism", "sasl.mechanisms")
_ADVICE = f"set it, or {JAAS} with username and password"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a password, and the mechanism that proves them."""

    mechanism: str
    username: str
    password: Secret


def read_credentials(reading: Reading) -> Credentials:
    """The credentials that the properties give, in Java's words or librdkafka's.

    Raises ConnectionPropertyError for a mechanism that is not in MECHANISMS, where user or
    password is missing, and where the two ways to say them disagree.
    """
    mechanism = (reading.text(*_NAMES) or "").upper()
    if mechanism not in MECHANISMS:
        said = f"{mechanism} is not supported" if mechanism else "security.protocol asks for it"
        raise ConnectionPropertyError(
            reading.name(*_NAMES) or _NAMES[0], f"{said}: set it to one of {', '.join(MECHANISMS)}"
        )
    username, password = reading.text("sasl.username"), reading.secret("sasl.password")
    jaas = reading.secret(JAAS)
    if jaas is not None:
        options = read_jaas(jaas)
        if options.get("tokenauth", "").lower() == "true":
            raise ConnectionPropertyError(JAAS, "delegation tokens (tokenauth) are not supported")
        theirs, secret = options.get("username"), options.get("password")
        if _differ(username, theirs) or _differ(password, secret):
            raise ConnectionPropertyError(
                JAAS, "it disagrees with sasl.username and sasl.password: give one of the two"
            )
        username, password = username or theirs, password or Secret(secret or "")
    if not username:
        raise ConnectionPropertyError("sasl.username", f"{mechanism} needs a user: {_ADVICE}")
    if not password:
        raise ConnectionPropertyError("sasl.password", f"{mechanism} needs a password: {_ADVICE}")
    return Credentials(mechanism, username, password)


def _differ(one: str | None, other: str | None) -> bool:
    return bool(one and other and one != other)
