"""Flow records from the kernel's own counters of connections: conntrack, read over netlink.

The kernel's table of TCP connections, with their bytes, is that of the network namespace of this
process. A connection stays listed with its counters after it was closed: for 120 s after FIN, 10 s
after RST. The kernel also sends the final counters of each connection that it removes, for example
because its ports are used again, but perhaps not of those that were opened before the subscription
to them. Numbers and layouts are those of linux/netlink.h, linux/netfilter/nfnetlink.h and
linux/netfilter/nfnetlink_conntrack.h.

What connections sent between two samples is written to files ``flows-TIME-....json.gz``: JSON
lines, one file per sample. A row has ``start`` and ``end`` (ISO 8601, UTC), ``source_address``,
``source_port``, ``destination_address``, ``destination_port``, the ``bytes`` and ``packets`` that
the source sent in that time, and as ``reporter`` the network namespace, of which several may see a
connection. A file appears whole or not at all.
"""

from __future__ import annotations

import errno
import gzip
import json
import logging
import math
import os
import socket
import struct
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from placement_core import RackwardError
from rack_traffic.atomic_write import write_atomically

_log = logging.getLogger(__name__)

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


# ---- Samples, and their files.

_EVENT_INTERVAL = 0.2
_ZERO = Count(0, 0)

_NOTHING_TRACKED = (
    "no connection is tracked. If connections are open, switch tracking on with a rule: "
    "iptables -A OUTPUT -m conntrack --ctstate INVALID"
)


class FlowCounter:
    """What each connection sent since the previous `take`, from its growing counters.

    ``connections`` are those at the start; what they sent before does not count.
    """

    def __init__(self, connections: Iterable[Connection]) -> None:
        self._last: dict[bytes, tuple[Count, Count]] = {}
        self._grown: defaultdict[Flow, Count] = defaultdict(lambda: _ZERO)
        self.listed(connections)
        self._grown.clear()

    def listed(self, connections: Iterable[Connection]) -> None:
        """Count a list of all connections."""
        last = {}
        for each in connections:
            if each.sent is not None and each.received is not None:
                self._count(each)
                last[each.key] = each.sent, each.received
        # Those that are missing were removed without a final count.
        self._last = last

    def ended(self, connections: Iterable[Connection]) -> None:
        """Count connections that were removed, before any list of a later time."""
        for each in connections:
            self._count(each)
            self._last.pop(each.key, None)

    def take(self) -> dict[Flow, Count]:
        """Return what was sent since the previous call, by direction, without zeros."""
        grown = dict(self._grown)
        self._grown.clear()
        return grown

    def _count(self, connection: Connection) -> None:
        if connection.sent is None or connection.received is None:
            return
        sent, received = self._last.get(connection.key, (_ZERO, _ZERO))
        if connection.sent < sent or connection.received < received:
            # Another connection on the same ports.
            sent = received = _ZERO
        flow = connection.flow
        for direction, now, before in (
            (flow, connection.sent, sent),
            (flow.reverse(), connection.received, received),
        ):
            if now != before:
                grown = self._grown[direction]
                self._grown[direction] = Count(
                    grown.bytes + now.bytes - before.bytes,
                    grown.packets + now.packets - before.packets,
                )


def sample_flows(
    folder: Path, *, interval: float, duration: float | None, stop: threading.Event
) -> None:
    """Sample every ``interval`` seconds until ``duration`` has passed or ``stop`` is set.

    Then sample once more. Raises FlowSamplingError and OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with closing(Conntrack()) as conntrack:
        connections = conntrack.read().connections
        start = time.time()
        _log.info("sampling %d connections every %g s into %s", len(connections), interval, folder)
        _warn(connections)
        counter = FlowCounter(connections)
        due = time.monotonic()
        deadline = math.inf if duration is None else due + duration
        overruns = 0
        while not stop.is_set() and due < deadline:
            due = min(due + interval, deadline)
            while (remaining := due - time.monotonic()) > 0 and not stop.is_set():
                stop.wait(min(remaining, _EVENT_INTERVAL))
                counter.ended(conntrack.ended())
            listing = conntrack.read()
            end = time.time()
            counter.ended(listing.ended)
            counter.listed(listing.connections)
            _write(folder, start, end, counter.take())
            start = end
            if conntrack.overruns > overruns:
                overruns = conntrack.overruns
                _log.warning("too many connections ended at once: bytes of some are missing")


def _warn(connections: Sequence[Connection]) -> None:
    if not connections:
        _log.warning(_NOTHING_TRACKED)
    if uncounted := sum(each.sent is None for each in connections):
        _log.warning(
            "%d connections are not counted, because they were opened before accounting was "
            "switched on: restart clients and brokers",
            uncounted,
        )


def _write(folder: Path, start: float, end: float, sent: Mapping[Flow, Count]) -> None:
    if not sent:
        return
    common = {"start": _iso(start), "end": _iso(end), "reporter": _reporter()}
    rows = (common | flow._asdict() | count._asdict() for flow, count in sorted(sent.items()))
    name = f"flows-{datetime.fromtimestamp(end, UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex}.json.gz"
    with write_atomically(folder / name) as file, gzip.open(file, "wt") as lines:
        lines.writelines(f"{json.dumps(row)}\n" for row in rows)


def _reporter() -> str:
    return f"{socket.gethostname()} {os.readlink('/proc/self/ns/net')}"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
