"""Bootstrap servers."""

from __future__ import annotations

import re

from assignors.client_properties.errors import ConnectionPropertyError

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
