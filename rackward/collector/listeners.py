"""The listeners of brokers: names, hosts and ports in their configuration, and their addresses."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_ADVERTISED, _LISTENERS, _CONTROLLERS = LISTENER_KEYS = (
    "advertised.listeners",
    "listeners",
    "controller.listener.names",
)
"""The settings of a broker that `broker_listeners` reads."""

LOOKUP_SECONDS = 600.0
"""How long a resolved address is used: a slow resolver must not delay every snapshot."""

_URL = re.compile(r"\s*([^:/,]+)://(\[[^\]]*\]|[^:,]*):(\d+)\s*")


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener that clients or brokers connect to; ``name`` is None if it is unknown."""

    name: str | None
    host: str
    port: int


def broker_listeners(configs: Mapping[str, str], host: str, port: int) -> list[Listener]:
    """Return the listeners of a broker, without those of the controllers.

    ``configs`` has the values of LISTENER_KEYS, as far as known. ``host`` and ``port`` are those in
    the metadata: a listener of their own if the configuration does not have them, and the host of
    listeners that are bound to all addresses.
    """
    controllers = {name.strip() for name in configs.get(_CONTROLLERS, "").split(",")}
    text = configs.get(_ADVERTISED) or configs.get(_LISTENERS, "")
    found = [
        Listener(match[1], match[2].strip("[]") or host, int(match[3]))
        for match in _URL.finditer(text)
        if match[1] not in controllers
    ]
    if (host, port) not in {(each.host, each.port) for each in found}:
        found.append(Listener(None, host, port))
    return found


class HostAddresses:
    """Resolves hosts, and remembers the result for LOOKUP_SECONDS. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, list[str | None]]] = {}

    def __call__(self, host: str) -> list[str | None]:
        """Return the addresses of a host, sorted; one None if there are none."""
        now = self._clock()
        at, addresses = self._known.get(host, (-LOOKUP_SECONDS, []))
        if now - at >= LOOKUP_SECONDS or not addresses:
            addresses = _resolve(host)
            self._known[host] = now, addresses
        return addresses


def _resolve(host: str) -> list[str | None]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return [None]
    return [*sorted({canonical_address(str(each[4][0])) for each in found})]


def canonical_address(host: str) -> str:
    """Return an address in one form: IPv6 as in RFC 5952, without an interface; IPv4 mapped into
    IPv6 as IPv4. A host name is returned unchanged."""
    try:
        # The interface of fe80::1%eth0 is one of a machine.
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
