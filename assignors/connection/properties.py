"""Properties, read as what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from placement_core import RackwardError

# ---- What is wrong with a connection property.


class ConnectionPropertyError(RackwardError, ValueError):
    """A connection property that no client could use; ``name`` is the property's name.

    The message never holds the value of a property that is a secret.
    """

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f"{name}: {problem}")


# ---- Texts that must not be seen.


class Secret(str):
    """A password or a key: the text itself, but what prints or logs a structure shows none of it.

    kafka-python logs its whole configuration at DEBUG, and dataclasses and tracebacks show
    their fields: all of them through ``repr``.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


_WORDS_OF_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_PLACEHOLDER = re.compile(r"\$\{([^:}]+):[^}]*\}")


class Reading:
    """Typed access to properties; of several names for one thing the first that is there counts.

    A property that is None or blank is not there. Raises ConnectionPropertyError.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        self._properties = properties
        providers = str(properties.get("config.providers") or "")
        self._providers = {each.strip() for each in providers.split(",") if each.strip()}

    def name(self, *names: str) -> str | None:
        """The first of the names that is there."""
        return next((name for name in names if self._raw(name).strip()), None)

    def text(self, *names: str) -> str | None:
        """A text without blanks around it."""
        name = self.name(*names)
        return None if name is None else self._raw(name).strip()

    def secret(self, *names: str) -> Secret | None:
        """A text as it was written, blanks included, that is not to be shown."""
        name = self.name(*names)
        return None if name is None else Secret(self._raw(name))

    def truth(self, name: str) -> bool | None:
        """True or false."""
        text = self.text(name)
        if text is None:
            return None
        if (truth := _WORDS_OF_TRUTH.get(text.lower())) is None:
            raise ConnectionPropertyError(name, f"{text!r} is neither true nor false")
        return truth

    def number(self, *names: str, least: int = 0) -> int | None:
        """A whole number, ``least`` or more."""
        name = self.name(*names)
        if name is None:
            return None
        text = self._raw(name).strip()
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or int(text) < least:
            raise ConnectionPropertyError(name, f"{text!r} is not a whole number from {least} on")
        return int(text)

    def choice(self, name: str, choices: Sequence[str]) -> str | None:
        """One of ``choices``, in whatever case it was written."""
        text = self.text(name)
        if text is None:
            return None
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise ConnectionPropertyError(name, f"{text!r} is none of {', '.join(choices)}")

    def said(self, name: str) -> bool:
        """Whether the property is there, be it blank."""
        return self._properties.get(name) is not None

    def _raw(self, name: str) -> str:
        value = self._properties.get(name)
        text = "" if value is None else str(value)
        for provider in _PLACEHOLDER.findall(text):
            if provider in self._providers:
                raise ConnectionPropertyError(
                    name,
                    f"it takes its value from the configuration provider {provider}, which only "
                    "Java has: write the value, or let a tool fill it in",
                )
        return text


# ---- The properties that say how to connect.

TIMINGS = {
    "client.dns.lookup",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "receive.buffer.bytes",
    "receive.message.max.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.ms",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.nagle.disable",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "socket.timeout.ms",
    "topic.metadata.refresh.interval.ms",
}

LIBRDKAFKA_ONLY = {
    "broker.address.family",
    "broker.address.ttl",
    "log.connection.close",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "retry.backoff.max.ms",
    "socket.max.fails",
    "ssl.curves.list",
    "ssl.providers",
    "ssl.sigalgs.list",
}
"""What librdkafka is told as it was written, and kafka-python has nothing for."""

SECURITY = {
    "enable.ssl.certificate.verification",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
}

CONNECTION_PROPERTIES = frozenset(
    {"bootstrap.servers", "metadata.broker.list", "client.id"}
    | TIMINGS
    | LIBRDKAFKA_ONLY
    | SECURITY
)
"""Every property that is read here; all others are left alone."""

# Settings of a client's making, or for mechanisms that are refused by name: nothing is lost
# by not knowing them.
_ELSEWHERE = (
    "sasl.client.callback.handler.class",
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.oauthbearer.",
    "security.providers",
    "ssl.ca.certificate.stores",
    "ssl.engine.",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
_PREFIXES = ("ssl.", "sasl.", "security.", "enable.ssl.")


def check_names(names: Iterable[str]) -> None:
    """Raise ConnectionPropertyError for a name that looks like security and is nobody's.

    A slip of the pen elsewhere costs a default; here it would be a secret that is not used,
    or a check that is not made.
    """
    for name in sorted(names):
        if not name.startswith(_PREFIXES) or name in CONNECTION_PROPERTIES:
            continue
        if name.startswith(_ELSEWHERE):
            continue
        near = get_close_matches(name, sorted(SECURITY), n=1)
        hint = f"did you mean {near[0]}?" if near else "take it out, or correct it"
        raise ConnectionPropertyError(name, f"no client has such a property: {hint}")


# ---- The text of a Java properties file.

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


# ---- Bootstrap servers.

_SERVER = re.compile(
    r"(?:[a-z_]+://)?(?P<host>\[[0-9a-f:.%a-z]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})", re.IGNORECASE
)


def server_list(text: str, name: str = "bootstrap.servers") -> tuple[str, ...]:
    """``"a:9092, [::1]:9093"`` as ``("a:9092", "[::1]:9093")``; a leading ``ssl://`` goes.

    Raises ConnectionPropertyError, which calls the text ``name``, for anything that is not a
    host and a port and where there is none.
    """
    found = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = _SERVER.fullmatch(part)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise ConnectionPropertyError(
                name, f"{part!r} is not of the form host:port: write kafka.example.org:9092, say"
            )
        found.append(f"{match['host']}:{int(match['port'])}")
    if not found:
        raise ConnectionPropertyError(name, "it names no server: write host:port,...")
    return tuple(found)
