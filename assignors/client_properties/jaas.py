"""``sasl.jaas.config``: what Java's login modules are told, in a language of its own.

::

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="alice" password="alice-secret";
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from assignors.client_properties.errors import ConnectionPropertyError

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
