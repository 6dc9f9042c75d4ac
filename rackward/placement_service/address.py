"""Where the service listens: on loopback, or with mutual TLS."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import NamedTuple

from placement_core import InvalidOptionError
from rackward.placement_service.errors import PlacementServiceError

LOOPBACK = "127.0.0.1"
DEFAULT_ADDRESS = f"{LOOPBACK}:9480"
"""Where the controller serves, and its client asks, unless told otherwise."""
_BACKLOG = 512
_LAST_PORT = 65535


class Address(NamedTuple):
    """An address and a port, as bound."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ListeningError(PlacementServiceError):
    """The address and port cannot be listened at."""


async def listen(host: str, port: int, *, mutual_tls: bool) -> socket.socket:
    """A socket that listens at the first address that ``host`` stands for.

    Port 0 lets the system choose. Raises InvalidOptionError where this address is not loopback
    and there is no ``mutual_tls``, and where host or port mean nothing; else ListeningError.
    """
    if not 0 <= port <= _LAST_PORT:
        raise InvalidOptionError(f"port {port}: give a number from 0 to {_LAST_PORT}")
    if not host:
        # What the system makes of it is all addresses of this machine.
        raise InvalidOptionError("the host to listen at is empty: give an address, or a name")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidOptionError(f"the host {host!r} to listen at is not known: {error}") from error
    family, _, _, _, bound = found[0]
    if not mutual_tls and not ipaddress.ip_address(bound[0]).is_loopback:
        raise InvalidOptionError(
            f"the placement service would listen at {bound[0]}, for anybody: give it mutual TLS "
            f"(ca_file, cert_file, key_file), or let it listen at {LOOPBACK}"
        )
    try:
        listening = socket.create_server(bound[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ListeningError(
            f"{Address(*bound[:2])} cannot be listened at: {error.strerror}"
        ) from error
    listening.setblocking(False)
    return listening


def address_of(name: object) -> Address:
    """What a socket calls itself or its peer, of any family."""
    match name:
        case (str(host), int(port), *_):
            return Address(host, port)
    return Address("?", 0)
