"""One snapshot of one cluster: the requests, their order, and the rows made of the responses.

Log end offsets are read before committed offsets, so that a commit is at most a little beyond the
end of its log. End offsets and log sizes of one broker are read in direct succession, because
the pipeline divides one by the other.

If a broker does not respond, the snapshot lacks only what that broker has, and has a fault for it:
its logs' end offsets are null and its groups are absent. Without metadata there is no snapshot.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rack_traffic.advice import CLASSIC
from rackward.collector.config import ClusterSource
from rackward.groups.host_racks import HostRacks
from rackward.kafka import AdminConnection, AdminError, ClusterState
from rackward.kafka.configs import REPLICA_SELECTOR
from rackward.kafka.groups import CONSUMER, Group, GroupMember, ListedGroup
from rackward.kafka.metadata import read_topics, unauthorized_topics
from rackward.kafka.tolerant_reader import Logs, TolerantReader
from rackward.units import format_count, format_list

Row = tuple[object, ...]
"""Values in the order of their table's columns; times are datetimes in UTC."""

Tables = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Rows of each table of :mod:`rack_traffic.tables`.

    ``taken_at`` is when the snapshot was started. ``faults`` has one line for each part that could
    not be read. ``groups`` is the number of groups.
    """

    cluster: str
    taken_at: datetime
    tables: Tables
    faults: tuple[str, ...] = ()
    groups: int = 0


STREAMS = "streams"

# Brokers leave out what a user may not describe, without an error.
NO_TOPIC = "no topics are visible; if there are any, grant this user Describe on them"
NO_GROUP = "no groups are visible; if there are any, grant this user Describe on them"


def take_snapshot(
    admin: AdminConnection,
    source: ClusterSource,
    acquire: Callable[[], None],
    addresses: Callable[[str], Sequence[str | None]],
) -> Snapshot:
    """Return a snapshot of the cluster; ``acquire`` is called before every request.

    ``addresses`` returns those of a broker's host; one None if there are none.

    Raises AdminError if the metadata cannot be read, and what ``acquire`` raises.
    """
    return _SnapshotReader(TolerantReader(admin, acquire), source, addresses).run()


def collector_id() -> str:
    """Return what identifies this process among those that collect from a cluster."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass
class _SnapshotReader:
    _reader: TolerantReader
    _source: ClusterSource
    _addresses: Callable[[str], Sequence[str | None]]
    _collector: str = field(default_factory=collector_id)
    _groups_visible: bool = False
    _groups: set[str] = field(default_factory=set)
    _read_by_groups: set[str] = field(default_factory=set)
    _members: list[Row] = field(default_factory=list)
    _commits: list[Row] = field(default_factory=list)

    def run(self) -> Snapshot:
        started = datetime.now(UTC)
        self._reader.acquire()
        state = read_topics(self._reader.admin)
        visible = frozenset(state.topics)
        if not self._source.selection.internal:
            state = state.only(visible - state.internal)
        at = datetime.now(UTC)
        if not state.topics:
            self._reader.add_faults(NO_TOPIC)
        state = state.only([t for t in state.topics if self._source.selection.topics.matches(t)])
        partitions = self._read_partitions(state, at)
        configs = self._reader.broker_configs(
            [broker.id for broker in state.view.brokers], [REPLICA_SELECTOR, *LISTENER_KEYS]
        )
        brokers: list[Row] = []
        listeners: list[Row] = []
        for broker in state.view.brokers:
            values = configs.get(broker.id)
            selector = None if values is None else values.get(REPLICA_SELECTOR, "")
            host, _, port = state.addresses[broker.id].rpartition(":")
            brokers.append((self._source.name, broker.id, broker.rack, host, at, selector))
            listeners += [
                (self._source.name, broker.id, each.name, each.host, address, each.port, at)
                for each in broker_listeners(values or {}, host, int(port))
                for address in self._addresses(each.host)
            ]
        for broker in state.view.brokers:
            self._read_groups(broker.id)
        if not self._groups_visible and not self._reader.unreachable:
            self._reader.add_faults(NO_GROUP)
        self._check_visible(visible)
        tables = {
            "brokers": brokers,
            "partitions": partitions,
            "members": self._members,
            "commits": self._commits,
            "listeners": listeners,
        }
        faults = tuple(self._reader.faults)
        return Snapshot(self._source.name, started, tables, faults, len(self._groups))

    def _read_partitions(self, state: ClusterState, at: datetime) -> list[Row]:
        """Return the rows of the table partitions.

        Those of partitions without a known leader have the time ``at``, those of others the time at
        which their leader's offsets and sizes were read. What could not be read is null.
        """
        logs = Logs()
        read_at: dict[int, datetime] = {}
        for broker, tps in state.by_leader.items():
            self._reader.read_logs(broker, tps, logs)
            read_at[broker] = datetime.now(UTC)
        rows: list[Row] = []
        for tp, replicas in state.view.replicas.items():
            leader = state.view.leader(tp)
            rows.append(
                (
                    self._source.name,
                    tp.topic,
                    state.topic_ids.get(tp.topic),
                    tp.partition,
                    leader,
                    state.leader_epochs.get(tp),
                    list(replicas),
                    list(state.in_sync.get(tp, ())),
                    logs.starts.get(tp),
                    logs.ends.get(tp),
                    logs.sizes.get(tp),
                    at if leader is None else read_at.get(leader, at),
                    self._collector,
                )
            )
        return rows

    def _check_visible(self, visible: frozenset[str]) -> None:
        """Add a fault if groups read topics that this user may not describe."""
        topics = filter(self._source.selection.topics.matches, self._read_by_groups - visible)
        if names := sorted(topics):
            self._reader.acquire()
            try:
                hidden = unauthorized_topics(self._reader.admin, names)
            except AdminError as error:
                self._reader.add_faults(str(error))
                return
            if hidden:
                self._reader.add_faults(
                    f"{format_count(len(hidden), 'topic')} that groups read "
                    f"({format_list(hidden)}): grant this user Describe on them"
                )

    def _read_groups(self, broker: int) -> None:
        """Add members and committed offsets of the groups that a broker coordinates."""
        listed = self._reader.listed_groups(broker)
        self._groups_visible = self._groups_visible or bool(listed)
        selected = sorted(
            (
                group
                for group in listed
                if self._is_selected(group) and group.id not in self._groups
            ),
            key=lambda group: group.id,
        )
        ids = [group.id for group in selected]
        self._groups.update(ids)
        for groups, refused in self._reader.described_groups(broker, selected):
            at = datetime.now(UTC)
            self._reader.add_faults(*map(str, refused.values()))
            for group in groups:
                self._add_members(group, at)
        for committed, refused in self._reader.committed_offsets(broker, ids):
            at = datetime.now(UTC)
            self._reader.add_faults(*map(str, refused.values()))
            for name, offsets in sorted(committed.items()):
                self._read_by_groups.update(tp.topic for tp in offsets)
                self._commits += [
                    (self._source.name, name, tp.topic, tp.partition, offset, at, self._collector)
                    for tp, offset in sorted(offsets.items())
                    if self._source.selection.topics.matches(tp.topic)
                ]

    def _is_selected(self, group: ListedGroup) -> bool:
        """Return whether this is a selected group of consumers.

        Other groups, such as those of Connect and share groups, commit no offsets.
        """
        return (
            group.type in (CLASSIC, CONSUMER, STREAMS)
            and group.protocol_type in ("", CONSUMER, STREAMS)
            and self._source.selection.groups.matches(group.id)
        )

    def _add_members(self, group: Group, at: datetime) -> None:
        """Add a row per member; an empty group has one row with null columns."""
        common = (
            *(self._source.name, group.id, group.type, group.state, group.protocol_type),
            *(group.protocol, group.generation),
        )
        members = sorted(group.members, key=lambda member: member.id)
        rows = [_member(member, self._source.racks) for member in members]
        for row in rows or [(*(None,) * 6, [], [])]:
            self._members.append((*common, *row, at, self._collector))
        for member in group.members:
            self._read_by_groups.update(member.assignment)
            self._reader.add_faults(
                *(
                    f"group {group.id}: member {member.id} at {member.host}: {fault}"
                    for fault in member.errors
                )
            )


def _member(member: GroupMember, racks: HostRacks) -> Row:
    rack, source = racks.locate(member.rack, member.host)
    return (
        member.id,
        member.instance_id,
        member.client_id,
        canonical_address(member.host.removeprefix("/")),
        rack,
        source,
        sorted(member.topics),
        [
            {"topic": topic, "partitions": sorted(partitions)}
            for topic, partitions in sorted(member.assignment.items())
        ],
    )


# ---- The listeners of brokers: names, hosts and ports in their configuration, and addresses.

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
