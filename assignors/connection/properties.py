"""Connection properties: the text of a properties file, and typed access to values.

No message and no ``repr`` here shows the value of a property that is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from placement_core import RackwardError


class ConnectionPropertyError(RackwardError, ValueError):
    """A connection property that no client can use. ``name`` is the property's name.

    The message never contains the value of a property that is a secret.
    """

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f"{name}: {problem}")


class Secret(str):
    """A password or a key: an ordinary string whose ``repr`` is masked.

    kafka-python logs its whole configuration at DEBUG, and dataclasses and tracebacks show
    their fields: all of them use ``repr``.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_PLACEHOLDER = re.compile(r"\$\{([^:}]+):[^}]*\}")


class PropertyReader:
    """Typed access to properties. Of several names for one setting, the first that is set counts.

    A property that is None or blank counts as not set. Every method raises
    ConnectionPropertyError for a value that is a placeholder of a Java configuration provider.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        self._properties = properties
        providers = str(properties.get("config.providers") or "")
        self._providers = {name.strip() for name in providers.split(",") if name.strip()}

    def first_set(self, *names: str) -> str | None:
        """Return the first of the names that is set, or None."""
        return next((name for name in names if self._raw(name).strip()), None)

    def is_present(self, name: str) -> bool:
        """Return whether the property is given at all, even as blank."""
        return self._properties.get(name) is not None

    def get_str(self, *names: str) -> str | None:
        """Return the value without surrounding white space, or None."""
        name = self.first_set(*names)
        return None if name is None else self._raw(name).strip()

    def get_secret(self, *names: str) -> Secret | None:
        """Return the value exactly as written, white space included, or None."""
        name = self.first_set(*names)
        return None if name is None else Secret(self._raw(name))

    def get_bool(self, name: str) -> bool | None:
        """Return a Boolean, or None. Raise ConnectionPropertyError for any other value."""
        text = self.get_str(name)
        if text is None:
            return None
        if (value := _BOOLEANS.get(text.lower())) is None:
            raise ConnectionPropertyError(name, f"{text!r} is neither true nor false")
        return value

    def get_int(self, *names: str, min_value: int = 0) -> int | None:
        """Return an integer of at least ``min_value``, or None.

        Raise ConnectionPropertyError for any other value.
        """
        name = self.first_set(*names)
        if name is None:
            return None
        text = self._raw(name).strip()
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or int(text) < min_value:
            raise ConnectionPropertyError(name, f"{text!r} is not an integer >= {min_value}")
        return int(text)

    def get_enum(self, name: str, choices: Sequence[str]) -> str | None:
        """Return the one of ``choices`` that equals the value, ignoring case, or None.

        Raise ConnectionPropertyError for any other value.
        """
        text = self.get_str(name)
        if text is None:
            return None
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise ConnectionPropertyError(name, f"{text!r} is not one of {', '.join(choices)}")

    def _raw(self, name: str) -> str:
        value = self._properties.get(name)
        text = "" if value is None else str(value)
        for provider in _PLACEHOLDER.findall(text):
            if provider in self._providers:
                raise ConnectionPropertyError(
                    name,
                    f"the value comes from the configuration provider {provider}, which only Java"
                    " clients support: write the value itself, or render the file with a tool",
                )
        return text


JAAS = "sasl.jaas.config"


def property_or_option(value: str | None, option: str | None, names: str) -> str | None:
    """Return ``value``, or else the ``option`` of ``sasl.jaas.config`` for the same.

    Raise ConnectionPropertyError if both are given and differ; ``names`` are those of the property.
    """
    if value and option and value != option:
        raise ConnectionPropertyError(JAAS, f"it disagrees with {names}: give one of the two")
    return value or option or None


# ---- The text of a Java properties file.

_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WHITE_SPACE = " \t\f"


def read_properties(text: str) -> dict[str, str]:
    r"""Return the properties in the text of a ``.properties`` file.

    The rules are Java's: comments begin with ``#`` or ``!``; a name ends at the first ``=``,
    ``:`` or space; a line that ends with an odd number of backslashes continues on the next;
    ``\n``, ``\t``, ``\u00e9`` and so on are escapes; trailing white space belongs to the value;
    of a name given twice the last value counts.

    Raise ConnectionPropertyError for an invalid escape. It names the property, or the line if the
    escape is in the name.
    """
    properties = {}
    for number, line in _logical_lines(text.removeprefix("\ufeff")):
        match = _KEY.match(line)
        assert match is not None  # The pattern matches the empty text.
        name = _unescape(match[1], f"line {number}")
        properties[name] = _unescape(line[match.end() :], name)
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each logical line with the number of its first physical line."""
    continued, first = "", 0
    for number, physical in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = physical.lstrip(_WHITE_SPACE)
        if not first and (not line or line[0] in "#!"):
            continue
        first = first or number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            continued += line[:-1]
            continue
        yield first, continued + line
        continued, first = "", 0
    if continued:
        yield first, continued


def _unescape(text: str, name: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape == "u":
            raise ConnectionPropertyError(
                name, r"\u is not followed by four hexadecimal digits: write \\u for a backslash"
            )
        return _CONTROL_CHARACTERS.get(escape, escape)

    return _ESCAPE.sub(character, text)


# ---- Bootstrap servers.

_SERVER = re.compile(
    r"(?:[a-z_]+://)?(?P<host>\[[0-9a-f:.%a-z]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})",
    re.IGNORECASE,
)


def server_list(text: str, name: str = "bootstrap.servers") -> tuple[str, ...]:
    """Parse ``"a:9092, ssl://[::1]:9093"`` into ``("a:9092", "[::1]:9093")``.

    Raise ConnectionPropertyError, with ``name`` as the property's name, for an entry that is not
    host:port, and if there is no entry.
    """
    servers = []
    for part in filter(None, (server.strip() for server in text.split(","))):
        match = _SERVER.fullmatch(part)
        if match is None or not 0 < int(match["port"]) < 65536:
            shown = part.rpartition("@")[2]  # A password may stand before the @.
            raise ConnectionPropertyError(
                name, f"{shown!r} is not host:port: write for example kafka.example.org:9092"
            )
        servers.append(f"{match['host']}:{int(match['port'])}")
    if not servers:
        raise ConnectionPropertyError(name, "no server is given: write host:port,...")
    return tuple(servers)
