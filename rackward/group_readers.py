"""Who reads which topics in which racks: out of live groups, or as it is told by hand."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from placement_core import InvalidOptionError
from placement_core.leaders import Readers
from placement_core.plugins import parse_properties
from rackward.admin import AdminConnection, AdminError, ClusterState
from rackward.admin.groups import (
    CLASSIC,
    CONSUMER,
    Group,
    GroupMember,
    ListedGroup,
    describe_classic_groups,
    describe_consumer_groups,
    list_groups,
)

RackOf = Callable[[GroupMember], str | None]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

BALANCED_BY_TOPIC = frozenset({"range", "leader-rack-aware-range"})
"""Assignors that give every member its share of each topic, and not of all together."""


@dataclass(frozen=True, slots=True)
class HostRacks:
    """Racks of hosts, by name, address or network; the narrowest network wins."""

    hosts: Mapping[str, str]
    networks: tuple[tuple[Network, str], ...]

    @classmethod
    def read(cls, option: str, text: str) -> HostRacks:
        """``host=rack,10.0.1.0/24=rack,...``. Raises InvalidOptionError, naming the option."""
        try:
            given = parse_properties(text)
        except InvalidOptionError as error:
            raise InvalidOptionError(f"{option}: {error}") from error
        hosts, networks = {}, []
        for host, rack in given.items():
            if not rack:
                raise InvalidOptionError(f"{option}: {host} has no rack: write {host}=RACK")
            if "/" not in host:
                hosts[host] = rack
                continue
            try:
                networks.append((ipaddress.ip_network(host), rack))
            except ValueError as error:
                raise InvalidOptionError(f"{option}: {host} is no network: {error}") from error
        networks.sort(key=lambda each: -each[0].prefixlen)
        return cls(hosts, tuple(networks))

    def rack(self, host: str) -> str | None:
        """The rack of a member's host, as brokers write it (``/10.0.1.7``); None: not known."""
        name = host.lstrip("/")
        if (found := self.hosts.get(name)) is not None:
            return found
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return None
        return next((rack for network, rack in self.networks if address in network), None)


def racks_of_members(option: str, mapping: str | None) -> RackOf:
    """The rack that a member says, else that of its host in ``mapping`` (see `HostRacks`).

    Raises InvalidOptionError, naming the option.
    """
    hosts = None if mapping is None else HostRacks.read(option, mapping)

    def rack_of(member: GroupMember) -> str | None:
        return member.rack or (hosts.rack(member.host) if hosts is not None else None)

    return rack_of


def find_groups(
    admin: AdminConnection, brokers: Iterable[int], wanted: Collection[str]
) -> dict[str, Group]:
    """Those of the groups that there are, with their members.

    Raises InvalidOptionError for one that is not of consumers by its type, and AdminError.
    """
    found: dict[str, Group] = {}
    for broker in sorted(brokers):
        listed = [each for each in list_groups(admin, broker) if each.id in wanted]
        for each in listed:
            if each.type not in (CLASSIC, CONSUMER):
                raise InvalidOptionError(
                    f"group {each.id} is a {each.type} group: only those of consumers are read "
                    "by rack"
                )
        for describe, chosen in _by_protocol(listed):
            groups, refused = describe(admin, broker, chosen)
            for error in refused.values():
                raise error
            found.update((group.id, group) for group in groups)
    return found


def read_groups(
    admin: AdminConnection, state: ClusterState, wanted: Sequence[str]
) -> tuple[Group, ...]:
    """The groups of those names, in that order, with their members.

    Raises InvalidOptionError for one that there is not, or that has no members, and AdminError.
    """
    found = find_groups(admin, state.view.racks(), wanted)
    for name in wanted:
        if name not in found:
            raise InvalidOptionError(
                f"--group {name}: there is no such group that this user may see: check the name"
            )
        if not any(topics_of(found[name], member) for member in found[name].members):
            raise InvalidOptionError(
                f"--group {name}: it has no members now that say what they read "
                f"(state {found[name].state}): start it, or say who reads with --readers"
            )
    return tuple(found[name] for name in wanted)


def readers_of(group: Group, rack_of: RackOf) -> list[Readers]:
    """The group as sets of consumers that share their topics evenly.

    A group that balances topic by topic (range) is one set per topic; else there is one per
    subscription, and members whose subscriptions differ are counted apart.
    """
    subscribed = {member.id: topics_of(group, member) for member in group.members}
    if group.protocol in BALANCED_BY_TOPIC:
        return [
            Readers(
                f"{group.id}: {topic}",
                frozenset({topic}),
                _count(rack_of, [m for m in group.members if topic in subscribed[m.id]]),
            )
            for topic in sorted(frozenset().union(*subscribed.values()))
        ]
    sets = sorted(set(subscribed.values()) - {frozenset()}, key=sorted)
    return [
        Readers(
            group.id if len(sets) == 1 else f"{group.id}: {', '.join(sorted(topics))}",
            topics,
            _count(rack_of, [m for m in group.members if subscribed[m.id] == topics]),
        )
        for topics in sets
    ]


def readers_by_hand(option: str, text: str, topics: Collection[str]) -> Readers:
    """``a=2,b=1``: so many consumers in each rack, that share ``topics`` evenly.

    Raises InvalidOptionError, which names the option.
    """
    try:
        given = parse_properties(text)
        consumers: dict[str | None, int] = {rack: int(n) for rack, n in given.items()}
        if not any(consumers.values()):
            raise InvalidOptionError("nobody reads: give a count of consumers per rack")
        return Readers("readers", frozenset(topics), consumers)
    except ValueError as error:
        told = error if isinstance(error, InvalidOptionError) else "write RACK=NUMBER,..."
        raise InvalidOptionError(f"{option} {text}: {told}") from error


def without_rack(groups: Sequence[Group], rack_of: RackOf) -> int:
    """Members whose rack is not known."""
    return sum(rack_of(member) is None for group in groups for member in group.members)


def _by_protocol(
    listed: Sequence[ListedGroup],
) -> list[tuple[Callable[..., tuple[list[Group], dict[str, AdminError]]], list[str]]]:
    new = [each.id for each in listed if each.type == CONSUMER]
    classic = [each.id for each in listed if each.type != CONSUMER]
    found = [(describe_consumer_groups, new), (describe_classic_groups, classic)]
    return [(describe, chosen) for describe, chosen in found if chosen]


def topics_of(group: Group, member: GroupMember) -> frozenset[str]:
    """What a member subscribes to; where it does not say (a pattern), what its group reads."""
    if member.topics:
        return member.topics
    return frozenset(topic for each in group.members for topic in each.assignment)


def _count(rack_of: RackOf, members: Sequence[GroupMember]) -> dict[str | None, int]:
    counted = Counter(rack_of(member) for member in members)
    return dict(sorted(counted.items(), key=lambda each: (each[0] is None, each[0] or "")))
