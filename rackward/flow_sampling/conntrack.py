"""Reads the kernel's table of TCP connections (conntrack), with their bytes, over netlink.

The table is that of the network namespace of this process. A connection stays listed with its
counters after it was closed: for 120 s after FIN, 10 s after RST. The kernel also sends the final
counters of each connection that it removes, for example because its ports are used again, but
perhaps not of those that were opened before the subscription to them.

Numbers and layouts are those of linux/netlink.h, linux/netfilter/nfnetlink.h and
linux/netfilter/nfnetlink_conntrack.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from placement_core import RackwardError

_ACCOUNTING = Path("/proc/sys/net/netfilter/nf_conntrack_acct")
_BUFFER_BYTES = 16 * 1024 * 1024
"""Room for some ten thousand connections that end between two reads."""

_NETLINK_NETFILTER = 12
_DESTROY_GROUP = 1 << 2
_SO_RCVBUFFORCE = 33
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST, _DUMP = 0x1, 0x300
_CT_NEW, _CT_GET, _CT_DELETE = 0x100, 0x101, 0x102
_HEADER = struct.Struct("=IHHII")
_FAMILY_BYTES = 4
_ATTRIBUTE = struct.Struct("=HH")
_TYPE_MASK = 0x3FFF
_TUPLE_ORIGINAL, _TUPLE_REPLY, _COUNTERS_ORIGINAL, _COUNTERS_REPLY, _ID = 1, 2, 9, 10, 12
_TUPLE_ADDRESSES, _TUPLE_PROTOCOL = 1, 2
_V4_SOURCE, _V6_SOURCE = 1, 3
_PROTOCOL, _SOURCE_PORT, _DESTINATION_PORT = 1, 2, 3
_PACKETS, _BYTES = 1, 2


class FlowSamplingError(RackwardError):
    """Connections cannot be read from the kernel."""


class Flow(NamedTuple):
    """One direction of a TCP connection."""

    source_address: str
    source_port: int
    destination_address: str
    destination_port: int

    def reverse(self) -> Flow:
        """Return the other direction."""
        return Flow(*self[2:], *self[:2])


class Count(NamedTuple):
    """What was sent in one direction, with the headers of IP and TCP."""

    bytes: int
    packets: int


class Connection(NamedTuple):
    """A connection at one time; ``key`` identifies it while it exists.

    ``flow`` is the direction from the side that opened it, with the addresses of both ends behind
    any translation by this namespace. ``sent`` is of that direction, ``received`` of the other;
    both are None if the connection was opened before accounting was switched on.
    """

    key: bytes
    flow: Flow
    sent: Count | None
    received: Count | None


class Listing(NamedTuple):
    """All connections, and those that ended since the previous read."""

    connections: list[Connection]
    ended: list[Connection]


class Conntrack:
    """A subscription to connections that end, and their list on request. Not thread-safe.

    Raises FlowSamplingError, with what to do, without the right or with accounting switched off.
    """

    def __init__(self) -> None:
        _check_accounting()
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
        self.overruns = 0
        """How often more connections ended between two reads than there was room for."""
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
            self._socket.bind((0, _DESTROY_GROUP))
        except PermissionError as error:
            self._socket.close()
            raise FlowSamplingError(
                "reading the kernel's connections needs CAP_NET_ADMIN: run it as root"
            ) from error

    def close(self) -> None:
        """End the subscription."""
        self._socket.close()

    def ended(self) -> list[Connection]:
        """Return the connections that ended since the previous read, without waiting."""
        ended: list[Connection] = []
        while True:
            try:
                messages = self._receive(socket.MSG_DONTWAIT)
            except BlockingIOError:
                return ended
            ended += [
                each for kind, body in messages if kind == _CT_DELETE and (each := _parse(body))
            ]

    def read(self) -> Listing:
        """Return all connections. One that ends meanwhile is in ``ended`` only. Raises OSError."""
        family = bytes(_FAMILY_BYTES)
        length = _HEADER.size + len(family)
        self._socket.send(_HEADER.pack(length, _CT_GET, _REQUEST | _DUMP, 1, 0) + family)
        listed: dict[bytes, Connection] = {}
        ended: list[Connection] = []
        while True:
            for kind, body in self._receive():
                if kind == _NLMSG_DONE:
                    # A part of the list may be older than an end that was received before it.
                    for each in ended:
                        listed.pop(each.key, None)
                    return Listing([*listed.values()], ended)
                if kind == _NLMSG_ERROR:
                    number = -struct.unpack_from("=i", body)[0]
                    raise OSError(number, f"listing connections: {os.strerror(number)}")
                if (connection := _parse(body)) is None:
                    continue
                if kind == _CT_NEW:
                    listed[connection.key] = connection
                elif kind == _CT_DELETE:
                    ended.append(connection)

    def _receive(self, flags: int = 0) -> list[tuple[int, memoryview]]:
        """Return type and body of each message of the next datagram."""
        while True:
            try:
                return [*_messages(memoryview(self._socket.recv(1 << 18, flags)))]
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self.overruns += 1


def _check_accounting() -> None:
    if sys.platform != "linux":
        raise FlowSamplingError("connections are counted by Linux only")
    try:
        is_on = _ACCOUNTING.read_text().strip() != "0"
    except FileNotFoundError:
        raise FlowSamplingError(
            "this kernel does not track connections: modprobe nf_conntrack"
        ) from None
    if not is_on:
        raise FlowSamplingError(
            "the kernel does not count the bytes of connections: run sysctl -w "
            "net.netfilter.nf_conntrack_acct=1, which applies to connections opened from then on"
        )


def _messages(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        yield kind, data[_HEADER.size : length]
        data = data[_aligned(length) :]


def _attributes(data: memoryview) -> dict[int, memoryview]:
    found = {}
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        found[kind & _TYPE_MASK] = data[_ATTRIBUTE.size : length]
        data = data[_aligned(length) :]
    return found


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _parse(message: memoryview) -> Connection | None:
    """Return the connection of a message; None unless it is of TCP."""
    attributes = _attributes(message[_FAMILY_BYTES:])
    original = _attributes(attributes[_TUPLE_ORIGINAL])
    protocol = _attributes(original[_TUPLE_PROTOCOL])
    if protocol[_PROTOCOL][0] != socket.IPPROTO_TCP:
        return None
    # The source is that of the first packet, and the destination who answers it.
    reply = _attributes(attributes[_TUPLE_REPLY])
    answering_port = _attributes(reply[_TUPLE_PROTOCOL])[_SOURCE_PORT]
    return Connection(
        bytes(attributes[_ID]) + bytes(attributes[_TUPLE_ORIGINAL]),
        Flow(
            _source(original),
            int.from_bytes(protocol[_SOURCE_PORT]),
            _source(reply),
            int.from_bytes(answering_port),
        ),
        _count(attributes.get(_COUNTERS_ORIGINAL)),
        _count(attributes.get(_COUNTERS_REPLY)),
    )


def _source(direction: dict[int, memoryview]) -> str:
    addresses = _attributes(direction[_TUPLE_ADDRESSES])
    if _V4_SOURCE in addresses:
        return socket.inet_ntop(socket.AF_INET, addresses[_V4_SOURCE])
    return socket.inet_ntop(socket.AF_INET6, addresses[_V6_SOURCE])


def _count(counters: memoryview | None) -> Count | None:
    if counters is None:
        return None
    values = _attributes(counters)
    return Count(int.from_bytes(values[_BYTES]), int.from_bytes(values[_PACKETS]))
