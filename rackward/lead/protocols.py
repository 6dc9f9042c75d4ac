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
from dataclasses import dataclass, field, replace

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange
from assignors.consumer_protocol import (
    EMPTY_SUBSCRIPTION,
    NO_GENERATION,
    ConsumerProtocolError,
    MemberSubscription,
    SubscriptionReader,
    split_user_data,
)
from assignors.group import Members
from assignors.model import Assignor
from assignors.subscriptions import read_members as to_columns
from placement_core import InvalidOptionError
from rackward.kafka.groups import RACK_AFFINITY, read_affinity_rack


@dataclass(frozen=True, slots=True)
class Strategy:
    """How a protocol is answered.

    ``by_topic``: partition i of all topics goes to one member, as Range does it; otherwise balanced
    over all topics. ``cooperative``: members keep partitions while they join, and what another
    member still owns is withheld for a round.
    """

    by_topic: bool
    cooperative: bool

    def assignor(self) -> Assignor:
        """Return the assignor that answers."""
        return LeaderRackAwareRange() if self.by_topic else LeaderRackAwareCooperativeSticky()


STRATEGIES = {
    "range": Strategy(by_topic=True, cooperative=False),
    "sticky": Strategy(by_topic=False, cooperative=False),
    "cooperative-sticky": Strategy(by_topic=False, cooperative=True),
}
"""The strategies that ``--protocol NAME=STRATEGY`` can give, by name."""

OWN_PROTOCOLS = {
    "leader-rack-aware-range": STRATEGIES["range"],
    "leader-rack-aware-cooperative-sticky": STRATEGIES["cooperative-sticky"],
}
"""The protocols of rackward's own assignors, whose members send the user data of those."""

DEFAULT_PROTOCOLS: Mapping[str, Strategy] = {
    "range": STRATEGIES["range"],
    "cooperative-sticky": STRATEGIES["cooperative-sticky"],
    "sticky": STRATEGIES["sticky"],
    "roundrobin": STRATEGIES["sticky"],
    "RoundRobinAssigner": STRATEGIES["sticky"],
    RACK_AFFINITY: STRATEGIES["sticky"],
    **OWN_PROTOCOLS,
}
"""The protocols that are answered without any option."""

NO_WAITING = frozenset({"roundrobin", "RoundRobinAssigner"})
"""Protocols under which some client's leader fails if a member subscribes to nothing.

kafka-python's raises KeyError out of the application's poll, and KafkaJS's assigns partitions to
that member. So we are no member of such a group while another member leads it.
"""

CONSUMER = "consumer"
"""The protocol type of groups of consumers."""

STREAMS_PROTOCOL = "stream"
"""The protocol of Kafka Streams, whose assignment carries tasks and not only partitions."""


def parse_protocols(option: str, pairs: Iterable[str]) -> dict[str, Strategy]:
    """Return DEFAULT_PROTOCOLS and those that ``NAME=STRATEGY`` adds or changes.

    Raises InvalidOptionError, which begins with ``option``.
    """
    protocols = dict(DEFAULT_PROTOCOLS)
    for pair in pairs:
        name, equals, strategy = (part.strip() for part in pair.partition("="))
        if not equals or not name or strategy not in STRATEGIES:
            raise InvalidOptionError(
                f"{option} {pair}: write NAME=STRATEGY with one of the strategies"
                f" {', '.join(STRATEGIES)}"
            )
        if name == STREAMS_PROTOCOL:
            raise InvalidOptionError(
                f"{option} {pair}: {REFUSED_STREAMS}; rackward leaders plan serves every protocol"
            )
        protocols[name] = STRATEGIES[strategy]
    return protocols


REFUSED_STREAMS = "the assignment of Kafka Streams has tasks, which only Streams can assign"


def why_refused(
    protocol_type: str, protocol: str, known: Collection[str], *, new_protocol: bool
) -> str | None:
    """Return why a group's assignment cannot be made here, and what helps; None if it can.

    ``protocol_type`` and ``protocol`` are empty if brokers do not tell them; ``known`` are the
    protocols that are answered.
    """
    alternative = "rackward leaders plan serves every protocol"
    if new_protocol:
        return (
            "brokers assign the groups of the new protocol (group.protocol=consumer);"
            f" {alternative}"
        )
    if protocol_type not in ("", CONSUMER):
        return f"it is a group of type {protocol_type}, not of consumers; {alternative}"
    if protocol == STREAMS_PROTOCOL:
        return f"{REFUSED_STREAMS}; {alternative}"
    if protocol and protocol not in known:
        return (
            f"its assignor is {protocol}, which is not known here: if its members apply any"
            f" assignment, add --protocol {protocol}=STRATEGY; {alternative}"
        )
    return None


def listed_protocols(protocols: Iterable[str], in_use: str | None) -> list[tuple[str, bytes]]:
    """Return the names and the subscription to join with; ``in_use`` is the first.

    All are listed, so that no member that joins with another one of them is refused. A member votes
    for the first of its list that all members support, so a group keeps the protocol that it uses
    unless its other members vote otherwise.
    """
    names = sorted(protocols, key=lambda name: name != in_use)
    return [(name, EMPTY_SUBSCRIPTION) for name in names]


# ---- What members own.


@dataclass(frozen=True, slots=True)
class Previous:
    """What a member had in an assignment; ``host`` is None if it is not known."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str | None
    owned: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class PreviousAssignment:
    """The last assignment of a group that is known, and its generation."""

    members: Sequence[Previous] = ()
    generation: int = NO_GENERATION


@dataclass(frozen=True, slots=True)
class RawMember:
    """A member of a JoinGroup response.

    ``client_id`` and ``host`` are as brokers describe the member; the former is part of the id of a
    dynamic member, ``host`` is None if it is not known.
    """

    id: str
    instance_id: str | None
    metadata: bytes
    client_id: str = ""
    host: str | None = None


def client_id_of(member_id: str) -> str:
    """Return the client id in a dynamic member's id: all but a dash and the UUID."""
    return member_id[:-37] if len(member_id) > 37 else member_id


def read_members(
    protocol: str,
    strategy: Strategy,
    members: Sequence[RawMember],
    previous: PreviousAssignment,
    racks: Mapping[str, str] | None = None,
) -> Members:
    """Return the members that read, with what they own or owned until they joined.

    Members without topics and claims, such as the leader itself, are left out. ``racks`` are racks
    by member id, for members that do not send one. Never raises because of what a member sent.
    """
    reader = SubscriptionReader()
    own = protocol in OWN_PROTOCOLS
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


def match_previous(
    members: Sequence[RawMember], previous: PreviousAssignment
) -> dict[str, Mapping[str, Sequence[int]]]:
    """Return what each member had, by member id; members that are new are left out.

    A member is recognised by its member id, which it keeps while it runs; else by its instance id;
    else by client id and host, if that is known: then members of equal names are matched in the
    order of their ids, each with one that is gone.
    """
    left = {each.member_id: each for each in previous.members}
    found: dict[str, Mapping[str, Sequence[int]]] = {}
    unmatched: list[RawMember] = []
    for member in sorted(members, key=lambda member: member.id):
        if (known := left.pop(member.id, None)) is not None:
            found[member.id] = known.owned
        else:
            unmatched.append(member)
    by_instance = {each.instance_id: each for each in left.values() if each.instance_id}
    by_name: dict[str, list[Previous]] = {}
    for each in sorted(left.values(), key=lambda each: each.member_id, reverse=True):
        if not each.instance_id:
            by_name.setdefault(each.client_id, []).append(each)
    for member in unmatched:
        if member.instance_id:
            if (known := by_instance.pop(member.instance_id, None)) is not None:
                found[member.id] = known.owned
            continue
        candidates = by_name.get(member.client_id or client_id_of(member.id), [])
        for at in range(len(candidates) - 1, -1, -1):
            host = candidates[at].host
            if host is None or member.host is None or host == member.host:
                found[member.id] = candidates.pop(at).owned
                break
    return {member_id: owned for member_id, owned in found.items() if owned}


# ---- Subscriptions with the user data of other clients.


@dataclass(frozen=True, slots=True)
class ForeignUserData:
    """What user data of ``sticky`` and ``cooperative-sticky`` says."""

    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation: int = NO_GENERATION


def read_foreign_user_data(data: bytes) -> ForeignUserData:
    """Return previous assignment and generation; empty if the layout is another. Never raises."""
    if len(data) == 4:
        return ForeignUserData(generation=_generation(data))
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
            return ForeignUserData(owned, _generation(rest))
    return ForeignUserData()


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
    more = read_foreign_user_data(user_data)
    generation = max(subscription.generation, more.generation)
    if subscription.owned:
        return replace(subscription, generation=generation, released=not cooperative)
    return replace(
        subscription, owned=dict(more.owned), generation=generation, released=bool(more.owned)
    )
