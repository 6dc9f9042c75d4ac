"""The protocols of other clients: their names, what members own, and which assignor answers.

A broker chooses one of the protocols that all members of a group list, and the group's leader
assigns by its name. A protocol decides how the members apply an assignment:

============================== ============ =================================================
protocol                       strategy     what a member says that it owns or owned
============================== ============ =================================================
range, roundrobin              eager        nothing
RoundRobinAssigner (KafkaJS)   eager        nothing
rack-affinity (kafka-go)       eager        nothing; its rack (user data)
sticky                         eager        previous assignment, generation (user data)
cooperative-sticky             cooperative  owned partitions, generation (fields, user data)
leader-rack-aware-...          either       as in :mod:`assignors.consumer_protocol`
============================== ============ =================================================

The user data of ``sticky`` (Java, franz-go, Sarama, kafka-python), and of librdkafka's
``cooperative-sticky``, big-endian::

    int32 count, each: string topic, int32 count, each: int32 partition
    int32                                     the generation (absent in version 0)

Java's ``cooperative-sticky`` sends an int32 generation. User data that is neither is ignored.

Members that say nothing get back what they had in the last assignment that is known, see
`match_previous`.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from assignors.consumer_protocol import (
    NO_GENERATION,
    ConsumerProtocolError,
    MemberSubscription,
    SubscriptionReader,
    split_user_data,
)
from assignors.encoding import read_members as to_columns
from assignors.group import Members
from placement_core import InvalidOptionError
from rack_traffic.advice import FIXED_PROTOCOLS, RACK_AFFINITY
from rackward.kafka.groups import GroupKind, read_affinity_rack


@dataclass(frozen=True, slots=True)
class ProtocolStrategy:
    """How a protocol is answered.

    ``by_topic``: partition i of all topics goes to one member, as Range does it; otherwise balanced
    over all topics. ``cooperative``: members keep partitions while they join, and what another
    member still owns is withheld for a round.
    """

    by_topic: bool
    cooperative: bool


PROTOCOL_STRATEGIES = {
    "range": ProtocolStrategy(by_topic=True, cooperative=False),
    "sticky": ProtocolStrategy(by_topic=False, cooperative=False),
    "cooperative-sticky": ProtocolStrategy(by_topic=False, cooperative=True),
}
"""The strategies that ``--protocol NAME=STRATEGY`` can give, by name."""

RACKWARD_PROTOCOLS = {
    "leader-rack-aware-range": PROTOCOL_STRATEGIES["range"],
    "leader-rack-aware-cooperative-sticky": PROTOCOL_STRATEGIES["cooperative-sticky"],
}
"""The protocols of rackward's own assignors, whose members send the user data of those."""

DEFAULT_PROTOCOLS: Mapping[str, ProtocolStrategy] = {
    "range": PROTOCOL_STRATEGIES["range"],
    "cooperative-sticky": PROTOCOL_STRATEGIES["cooperative-sticky"],
    "sticky": PROTOCOL_STRATEGIES["sticky"],
    "roundrobin": PROTOCOL_STRATEGIES["sticky"],
    "RoundRobinAssigner": PROTOCOL_STRATEGIES["sticky"],
    RACK_AFFINITY: PROTOCOL_STRATEGIES["sticky"],
    **RACKWARD_PROTOCOLS,
}
"""The protocols that are answered without any option."""

NO_WAITING = frozenset({"roundrobin", "RoundRobinAssigner"})
"""Protocols under which some client's leader fails if a member subscribes to nothing.

kafka-python's raises KeyError out of the application's poll, and KafkaJS's assigns partitions to
that member. So we are no member of such a group while another member leads it.
"""

CONSUMER_PROTOCOL_TYPE = "consumer"


def parse_protocols(option: str, pairs: Iterable[str]) -> dict[str, ProtocolStrategy]:
    """Return DEFAULT_PROTOCOLS and those that ``NAME=STRATEGY`` adds or changes.

    Raises InvalidOptionError, which begins with ``option``.
    """
    protocols = dict(DEFAULT_PROTOCOLS)
    for pair in pairs:
        name, equals, strategy = (part.strip() for part in pair.partition("="))
        if not equals or not name or strategy not in PROTOCOL_STRATEGIES:
            raise InvalidOptionError(
                f"{option} {pair}: write NAME=STRATEGY with one of the strategies"
                f" {', '.join(PROTOCOL_STRATEGIES)}"
            )
        if name in FIXED_PROTOCOLS:
            raise InvalidOptionError(f"{option} {pair}: {FIXED_PROTOCOLS[name]}; {_PLAN}")
        protocols[name] = PROTOCOL_STRATEGIES[strategy]
    return protocols


def why_refused(
    kind: GroupKind, protocol_type: str, protocol: str, known: Collection[str]
) -> str | None:
    """Return why a group's assignment cannot be made here, and what helps; None if it can.

    ``protocol_type`` and ``protocol`` are empty if brokers do not tell them; ``known`` are the
    protocols that are answered.
    """
    if kind in _REFUSED_KINDS:
        return _REFUSED_KINDS[kind].format(protocol_type=protocol_type, plan=_PLAN)
    if protocol in FIXED_PROTOCOLS:
        return f"{FIXED_PROTOCOLS[protocol]}; {_PLAN}"
    if protocol and protocol not in known:
        return (
            f"its assignor is {protocol}, which is not known here: if its members apply any"
            f" assignment, add --protocol {protocol}=STRATEGY; {_PLAN}"
        )
    return None


_PLAN = "rackward leaders plan moves leaders to its members"

_REFUSED_KINDS = {
    GroupKind.CONSUMER: (
        "brokers assign the groups of the new protocol (group.protocol=consumer), and it is led"
        " once it is a classic group; {plan}"
    ),
    GroupKind.SHARE: "brokers assign share groups; {plan}",
    GroupKind.STREAMS: "brokers assign the tasks of streams groups; {plan}",
    GroupKind.CONNECT: (
        "it has the workers of a Connect cluster, which read no partitions; the group of a sink"
        " connector, connect-NAME, can be led"
    ),
    GroupKind.OTHER: "it is a group of type {protocol_type}, not of consumers",
}


# ---- What members own.


@dataclass(frozen=True, slots=True)
class RawMember:
    """A member of a JoinGroup or DescribeGroups response, with the bytes that it has sent.

    ``client_id`` and ``host`` are as brokers describe the member; the former is part of the id of a
    dynamic member, ``host`` is None if it is not known. ``assignment`` is its present one.
    """

    id: str
    instance_id: str | None
    metadata: bytes
    client_id: str = ""
    host: str | None = None
    assignment: bytes = b""


Owned = Mapping[str, Sequence[int]]
"""Topic to partitions."""


@dataclass(frozen=True, slots=True)
class PreviousAssignment:
    """The last assignment of a group that is known: what each member had, and its generation."""

    members: Sequence[RawMember] = ()
    owned: Mapping[str, Owned] = field(default_factory=dict)
    generation: int = NO_GENERATION

    @classmethod
    def of(cls, members: Sequence[RawMember]) -> PreviousAssignment:
        """Return the assignment that the members of a described group have."""
        reader = SubscriptionReader()
        owned = {}
        for member in members:
            with suppress(ConsumerProtocolError):
                owned[member.id] = reader.read_assignment(member.assignment)
        return cls(members, owned, 0)


def client_id_of(member_id: str) -> str:
    """Return the client id in a dynamic member's id: all but a dash and the UUID."""
    return member_id[:-37] if len(member_id) > 37 else member_id


def read_members(
    protocol: str,
    strategy: ProtocolStrategy,
    members: Sequence[RawMember],
    previous: PreviousAssignment,
    racks: Mapping[str, str] | None = None,
) -> Members:
    """Return the members that read, with what they own or owned until they joined.

    Members without topics and claims, such as the leader itself, are left out. ``racks`` are racks
    by member id, for members that do not send one. Never raises because of what a member sent.
    """
    reader = SubscriptionReader()
    own = protocol in RACKWARD_PROTOCOLS
    read = {
        member.id: reader.read(member.metadata)
        if own
        else _read_foreign(reader, member.metadata, protocol, cooperative=strategy.cooperative)
        for member in members
    }
    reading = [m for m in members if read[m.id].topics or read[m.id].owned or read[m.id].errors]
    silent = [m for m in reading if not read[m.id].owned] if not strategy.cooperative else []
    had = match_previous(silent, previous)
    joined = []
    for member in reading:
        subscription = read[member.id]
        if member.id in had:
            subscription = replace(
                subscription,
                owned=had[member.id],
                generation=previous.generation,
                released=True,
            )
        if subscription.rack is None and racks and member.id in racks:
            subscription = replace(subscription, rack=racks[member.id])
        joined.append((member.id, member.instance_id, subscription))
    return to_columns(joined)


def match_previous(members: Sequence[RawMember], previous: PreviousAssignment) -> dict[str, Owned]:
    """Return what each member had, by member id; members that are new are left out.

    A member is recognised by its member id, which it keeps while it runs; else by its instance id;
    else by client id and host, if that is known: then members of equal names are matched in the
    order of their ids, each with one that is gone.
    """
    left = {member.id: member for member in previous.members}
    matched = {member.id: left.pop(member.id) for member in members if member.id in left}
    by_instance = {member.instance_id: member for member in left.values() if member.instance_id}
    by_name: dict[str, list[RawMember]] = {}
    for member in sorted(left.values(), key=lambda member: member.id):
        if not member.instance_id:
            name = member.client_id or client_id_of(member.id)
            by_name.setdefault(name, []).append(member)
    for member in sorted(members, key=lambda member: member.id):
        if member.id in matched:
            continue
        if member.instance_id:
            if member.instance_id in by_instance:
                matched[member.id] = by_instance.pop(member.instance_id)
            continue
        candidates = by_name.get(member.client_id or client_id_of(member.id), [])
        for at, candidate in enumerate(candidates):
            if None in (candidate.host, member.host) or candidate.host == member.host:
                matched[member.id] = candidates.pop(at)
                break
    had = {member_id: previous.owned.get(known.id, {}) for member_id, known in matched.items()}
    return {member_id: owned for member_id, owned in had.items() if owned}


# ---- Subscriptions with the user data of other clients.


def read_foreign_user_data(data: bytes) -> tuple[Owned, int]:
    """Return what user data of ``sticky`` and ``cooperative-sticky`` says: the previous assignment
    and its generation. Of another layout, it says nothing. Never raises."""
    if len(data) == 4:
        return {}, _generation(data)
    # kafka-python 3 writes an int16 version first, which no other client does.
    for start in (0, 2):
        # As in an assignment, after its version.
        try:
            owned = SubscriptionReader().read_assignment(b"\0\0" + data[start:])
        except ConsumerProtocolError:
            continue
        size = 4 + sum(6 + len(topic.encode()) + 4 * len(owned[topic]) for topic in owned)
        rest = data[start + size :]
        if len(rest) in (0, 4):
            return owned, _generation(rest)
    return {}, NO_GENERATION


def _generation(data: bytes) -> int:
    """Return an int32 generation; -1 for no bytes."""
    if not data:
        return NO_GENERATION
    generation: int = struct.unpack(">i", data)[0]
    return max(generation, NO_GENERATION)


def _read_foreign(
    reader: SubscriptionReader, metadata: bytes, protocol: str, *, cooperative: bool
) -> MemberSubscription:
    """Return the subscription of a member whose user data is not rackward's.

    A cooperative member owns what its fields say. What an eager member claims in whichever place it
    has released.
    """
    plain, user_data = split_user_data(metadata)
    subscription = reader.read(plain)
    if protocol == RACK_AFFINITY:
        return replace(subscription, rack=read_affinity_rack(user_data))
    owned, generation = read_foreign_user_data(user_data)
    generation = max(subscription.generation, generation)
    if subscription.owned:
        return replace(subscription, generation=generation, released=not cooperative)
    return replace(subscription, owned=dict(owned), generation=generation, released=bool(owned))
