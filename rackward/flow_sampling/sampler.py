"""Writes what connections sent between two samples as flow records.

Files are ``flows-TIME-....json.gz``: JSON lines, one file per sample. A row has ``start`` and
``end`` (ISO 8601, UTC), ``source_address``, ``source_port``, ``destination_address``,
``destination_port``, the ``bytes`` and ``packets`` that the source sent in that time, and as
``reporter`` the network namespace, of which several may see a connection. A file appears whole or
not at all.
"""

from __future__ import annotations

import gzip
import json
import logging
import math
import os
import socket
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from rack_traffic.atomic_write import write_atomically
from rackward.flow_sampling.conntrack import Connection, Conntrack, Count, Flow

_log = logging.getLogger(__name__)

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
