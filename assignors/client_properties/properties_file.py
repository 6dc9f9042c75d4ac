"""The text of a Java properties file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from assignors.client_properties.errors import ConnectionPropertyError

_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE = " \t\f"


def read_properties(text: str) -> dict[str, str]:
    r"""The properties that a ``.properties`` file holds; of a name given twice, the last.

    As Java reads them: comments begin with ``#`` or ``!``; a name ends at the first ``=``,
    ``:`` or space; a line that ends with an odd number of backslashes goes on in the next;
    ``\n``, ``\t``, ``\u00e9`` and so on are escapes. Blanks at the end of a value belong to it.

    Raises ConnectionPropertyError where an escape cannot be read: it names the line.
    """
    found = {}
    for number, line in _lines(text.removeprefix("\ufeff")):
        match = _KEY.match(line)
        assert match is not None  # it matches the empty text
        name = _unescaped(match[1], f"line {number}")
        found[name] = _unescaped(line[match.end() :], name)
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines, with the number of the physical line that each begins with."""
    begun, start = "", 0
    for number, physical in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = physical.lstrip(_SPACE)
        if not start and (not line or line[0] in "#!"):
            continue
        start = start or number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun += line[:-1]
            continue
        yield start, begun + line
        begun, start = "", 0
    if begun:
        yield start, begun


def _unescaped(text: str, where: str) -> str:
    def char(match: re.Match[str]) -> str:
        told = match[1]
        if len(told) == 5:
            return chr(int(told[1:], 16))
        if told == "u":
            raise ConnectionPropertyError(
                where, r"\u is not followed by four hexadecimal digits: write \\u for a backslash"
            )
        return _NAMED.get(told, told)

    return _ESCAPE.sub(char, text)
