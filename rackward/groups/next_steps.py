"""Advice for a group: which client it uses, why it reads across racks, and what to do next.

Brokers do not tell the library of a member. Most applications keep the default client id of their
library, which names it; a few assignors exist in one library only. All functions are pure.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from assignors.explain import LocalityFinding, Reason, Remedy, RemedyKind, reason_text, remedy_text
from placement_core import parse_rack
from rackward.groups.readers import BALANCED_BY_TOPIC, assigned_by_rackward, reference_protocol
from rackward.kafka.groups import (
    CLASSIC,
    OWN_PROTOCOLS,
    RACK_AFFINITY,
    STREAMS_PROTOCOL,
    Group,
    GroupKind,
    GroupMember,
)
from rackward.lead.protocols import DEFAULT_PROTOCOLS

MAX_GROUPS_IN_COMMAND = 10
"""Maximum number of groups in a recommended command; it has only one if there would be more."""


class Library(Enum):
    """A client library, with its name in tables."""

    JAVA = "Java"
    LIBRDKAFKA = "librdkafka"
    KAFKA_PYTHON = "kafka-python"
    AIOKAFKA = "aiokafka"
    FRANZ_GO = "franz-go"
    SARAMA = "Sarama"
    KAFKA_GO = "kafka-go"
    KAFKAJS = "KafkaJS"
    STREAMS = "Kafka Streams"
    CONNECT = "Kafka Connect"


_CLIENT_IDS = (
    (re.compile(r".*-StreamThread-\d+-.*"), Library.STREAMS),
    (re.compile(r"connector-consumer-.*-\d+"), Library.CONNECT),
    (re.compile(r"consumer-.*-\d+"), Library.JAVA),
    (re.compile(r"rdkafka.*"), Library.LIBRDKAFKA),
    (re.compile(r"kafka-python-.*"), Library.KAFKA_PYTHON),
    (re.compile(r"aiokafka-.*"), Library.AIOKAFKA),
    (re.compile(r"kgo"), Library.FRANZ_GO),
    (re.compile(r"sarama"), Library.SARAMA),
    (re.compile(r".*github\.com/segmentio/kafka-go.*"), Library.KAFKA_GO),
    (re.compile(r"kafkajs"), Library.KAFKAJS),
)
"""The client ids that libraries use by default."""

_PROTOCOLS = {
    STREAMS_PROTOCOL: Library.STREAMS,
    "RoundRobinAssigner": Library.KAFKAJS,
    RACK_AFFINITY: Library.KAFKA_GO,
}
"""Assignors that exist in one library only."""


def library_of(group: Group, member: GroupMember) -> Library | None:
    """Return the library of a member, from its assignor or its client id; None if unknown."""
    if group.protocol in _PROTOCOLS:
        return _PROTOCOLS[group.protocol]
    return next(
        (library for form, library in _CLIENT_IDS if form.fullmatch(member.client_id)), None
    )


def libraries_of(group: Group) -> dict[Library | None, int]:
    """Return the number of members of each library, the most frequent first; None: unknown."""
    return dict(Counter(library_of(group, each) for each in group.members).most_common())


class LedBy(Enum):
    """Who assigns a group's partitions."""

    RACKWARD = "rackward's assignor"
    LEAD = "rackward lead"
    BROKERS = "brokers"
    CLIENT = "client"


def led_by(group: Group) -> LedBy:
    """Return who assigns the partitions of the group."""
    if group.type != CLASSIC:
        return LedBy.BROKERS
    if group.protocol in OWN_PROTOCOLS:
        return LedBy.RACKWARD
    return LedBy.LEAD if group.leader is not None else LedBy.CLIENT


def can_be_reassigned(group: Group) -> bool:
    """Return whether the group can be assigned by the racks of leaders: it is, or can be led."""
    return group.type == CLASSIC and (
        group.protocol in DEFAULT_PROTOCOLS or assigned_by_rackward(group)
    )


def assignor_is_fixed(group: Group) -> bool:
    """Return whether no other assignor can assign the group: brokers do, or Kafka Streams does."""
    return group.type != CLASSIC or group.protocol == STREAMS_PROTOCOL


class StepKind(Enum):
    """What to do."""

    SET_BROKER_RACK = "set-broker-rack"
    SET_CLIENT_RACK = "set-client-rack"
    MAP_HOSTS = "map-hosts"
    USE_ASSIGNOR = "use-assignor"
    LEAD = "lead"
    REBALANCE = "rebalance"
    MOVE_LEADERS = "move-leaders"
    SEPARATE_TOPICS = "separate-topics"
    USE_PARTITIONER = "use-partitioner"


@dataclass(frozen=True, slots=True)
class NextStep:
    """One thing to do. ``lines`` are commands, or lines of the client's configuration."""

    kind: StepKind
    text: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gains:
    """What would change a group, as input of `next_steps`.

    rackless_brokers
        Live brokers without a rack.
    racks
        The racks of the brokers, sorted.
    rackless_members
        Ids of the members whose rack is unknown.
    assignor_helps
        Whether an assignment by the racks of leaders reads more partitions locally.
    layout_helps
        Whether moved leaders do, on top of that.
    sharing
        The other groups that the layout takes into account, sorted.
    mapping
        The option ``--mapping``, for the commands.
    members_not_sending_rack
        Ids of the members that join without a rack, if brokers have a replica selector.
    co_partitioned
        Partitions that rackward's range assignor would read locally if it assigned each topic on
        its own.
    """

    rackless_brokers: Sequence[int]
    racks: Sequence[str]
    rackless_members: frozenset[str]
    assignor_helps: bool
    layout_helps: bool
    sharing: Sequence[str] = ()
    mapping: str | None = None
    members_not_sending_rack: frozenset[str] = frozenset()
    co_partitioned: int = 0


def next_steps(group: Group, gains: Gains) -> tuple[NextStep, ...]:
    """Return what to do next for the group, in order; nothing if nothing would help."""
    steps = []
    if gains.rackless_brokers:
        ids = ", ".join(map(str, gains.rackless_brokers))
        noun = "broker" if len(gains.rackless_brokers) == 1 else "brokers"
        steps.append(NextStep(StepKind.SET_BROKER_RACK, f"set broker.rack of {noun} {ids}"))
    if gains.members_not_sending_rack and gains.racks:
        steps.append(_fetch_rack_step(group, gains))
    elif gains.rackless_members and gains.racks:
        steps.append(_rack_step(group, gains))
    elif gains.assignor_helps and can_be_reassigned(group):
        steps.append(_assignor_step(group, gains))
    if gains.co_partitioned:
        steps.append(
            NextStep(
                StepKind.SEPARATE_TOPICS,
                f"co-partitioning costs {gains.co_partitioned} partitions: unless topics are "
                "joined, set this option of the assignor",
                ("co_partitioned=False",),
            )
        )
    if gains.layout_helps:
        steps.append(_layout_step(group, gains))
    return tuple(steps)


PRODUCER_STEP = NextStep(
    StepKind.USE_PARTITIONER,
    "producers: write to leaders in their rack (docs/producers.md)",
    (
        "Java 4.4: partitioner.rack.aware=true and client.rack=RACK",
        'kafka-python: KafkaProducer(partitioner=RackAwarePartitioner(rack="RACK"))',
        'aiokafka: partitioners.aiokafka.RackAwareProducer(rack="RACK")',
        'confluent: partitioners.confluent.Producer({"client.rack": "RACK"})',
        "franz-go: its rack-aware partitioner",
    ),
)
"""What producers do, by client library. Brokers do not tell which of them a topic has."""


# ---- Racks of members.

_RACK_LINES: Mapping[Library | None, str] = {
    Library.JAVA: "client.rack={rack}",
    Library.STREAMS: "client.rack={rack}",
    Library.CONNECT: "consumer.client.rack={rack}",
    Library.LIBRDKAFKA: '"client.rack": "{rack}"',
    Library.FRANZ_GO: 'kgo.Rack("{rack}")',
    Library.SARAMA: 'config.RackID = "{rack}"',
    Library.KAFKA_GO: 'kafka.RackAffinityGroupBalancer{{Rack: "{rack}"}}',
    None: "client.rack={rack}",
}


_FETCH_RACK_LINES: Mapping[Library | None, str] = {
    **_RACK_LINES,
    Library.KAFKA_PYTHON: 'client_rack="{rack}"',
    Library.AIOKAFKA: 'client_rack="{rack}"',
    Library.KAFKAJS: 'rackId: "{rack}"',
}
"""What makes members fetch with a rack; some of these clients join without it."""


def _fetch_rack_step(group: Group, gains: Gains) -> NextStep:
    """Return how the members without a rack read from followers."""
    members = [each for each in group.members if each.id in gains.members_not_sending_rack]
    library = _main_library(group, members)
    line = _FETCH_RACK_LINES.get(library, _FETCH_RACK_LINES[None])
    return NextStep(
        StepKind.SET_CLIENT_RACK,
        f"set {_rack_setting(library)}, unless it is set, to the broker.rack of its host "
        f"({_first_racks(gains)}): brokers have a replica selector",
        (line.format(rack=gains.racks[0]),),
    )


def _rack_setting(library: Library | None) -> str:
    if library is Library.CONNECT:
        return "consumer.client.rack of each worker"
    return "client.rack of each member"


def _first_racks(gains: Gains) -> str:
    return ", ".join(gains.racks[:3]) + (", ..." if len(gains.racks) > 3 else "")


def _rack_step(group: Group, gains: Gains) -> NextStep:
    """Return how the members without a rack get one."""
    members = [each for each in group.members if each.id in gains.rackless_members]
    library = _main_library(group, members)
    names = _first_racks(gains)
    rack = next((each for each in gains.racks if parse_rack(each) is not None), "RACK")
    if library in _OWN_ASSIGNORS and group.protocol not in OWN_PROTOCOLS:
        # These libraries send no rack with their own assignors.
        return _own_assignor_step(group, library, rack)
    if group.protocol in OWN_PROTOCOLS:
        return NextStep(
            StepKind.SET_CLIENT_RACK,
            f"give each member the rack of its host ({names}); see rackward rack --help",
            (f"RACKWARD_RACK={rack}",),
        )
    if library in _RACK_LINES and any(each.can_send_rack is not False for each in members):
        return NextStep(
            StepKind.SET_CLIENT_RACK,
            f"set {_rack_setting(library)} to the broker.rack of its host ({names})",
            (_RACK_LINES[library].format(rack=rack),),
        )
    return NextStep(
        StepKind.MAP_HOSTS,
        "give the racks of the members' hosts: their client sends none",
        (f"--mapping HOST={rack},...",),
    )


def _main_library(group: Group, members: Sequence[GroupMember]) -> Library | None:
    libraries = [library_of(group, each) for each in members]
    return max(libraries, key=libraries.count, default=None)


# ---- Assignors.

_OWN_ASSIGNORS: Mapping[Library | None, str] = {
    Library.KAFKA_PYTHON: "assignors.kafka_python",
    Library.AIOKAFKA: "assignors.aiokafka",
}
"""Libraries that accept rackward's assignors, and the modules that have them."""


def _assignor_step(group: Group, gains: Gains) -> NextStep:
    if assigned_by_rackward(group):
        return NextStep(
            StepKind.REBALANCE,
            "rebalance it: leaders or racks have changed since it was assigned",
            (_command("groups", "rebalance", group.id, mapping=gains.mapping),),
        )
    library = _main_library(group, group.members)
    if library in _OWN_ASSIGNORS:
        return _own_assignor_step(group, library, next(iter(gains.racks), "RACK"))
    lead = _command("lead", group.id, "--take-over", "remove", mapping=gains.mapping)
    if library is Library.LIBRDKAFKA:
        return NextStep(
            StepKind.LEAD,
            "run rackward lead; Python applications can switch to rackward's Consumer instead",
            (
                lead,
                "from assignors.confluent import Consumer",
                f'"partition.assignment.strategy": "{reference_protocol(group)}"',
            ),
        )
    return NextStep(StepKind.LEAD, "run rackward lead", (lead,))


def _own_assignor_step(group: Group, library: Library | None, rack: str) -> NextStep:
    by_topic = group.protocol in BALANCED_BY_TOPIC
    name = (
        "LeaderRackAwareRangeAssignor" if by_topic else "LeaderRackAwareCooperativeStickyAssignor"
    )
    return NextStep(
        StepKind.USE_ASSIGNOR,
        "use rackward's assignor in all members, each with the rack of its host "
        "(docs/rolling-change.md)",
        (
            f"from {_OWN_ASSIGNORS[library]} import {name}",
            f'partition_assignment_strategy=[{name}(rack="{rack}")]',
        ),
    )


# ---- Leaders.


def _layout_step(group: Group, gains: Gains) -> NextStep:
    # The same command for all groups that are laid out together.
    names = sorted([group.id, *gains.sharing])
    if len(names) > MAX_GROUPS_IN_COMMAND:
        names = [group.id]
    arguments = [argument for name in names for argument in ("--group", name)]
    plan = _command("leaders", "plan", *arguments, mapping=gains.mapping)
    text = "move partition leaders to the racks of the members"
    if left_out := 1 + len(gains.sharing) - len(names):
        text += f" (add the {left_out:,} other groups that share topics)"
    return NextStep(
        StepKind.MOVE_LEADERS,
        text,
        (f"{plan} -o leaders.json", "rackward leaders apply leaders.json"),
    )


def _command(*arguments: str, mapping: str | None) -> str:
    more = () if mapping is None else ("--mapping", mapping)
    return shlex.join(["rackward", *arguments, *more])


# ---- Why partitions are not read locally, and single remedies.


def leader_advice(group: Group) -> str:
    """Return why the group does not follow leaders that move, and what helps: a clause."""
    plan = shlex.join(["rackward", "leaders", "plan", "--group", group.id])
    protocol = group.protocol or group.type
    if assignor_is_fixed(group):
        by = "Kafka Streams assigns" if group.type == CLASSIC else "the brokers assign"
        return (
            f"{by} its partitions ({protocol}), regardless of leader racks: move leaders to its "
            f"members with {plan}"
        )
    reference = reference_protocol(group)
    lead = shlex.join(["rackward", "lead", group.id])
    return (
        f"its assignor ({protocol}) ignores leader racks: use the assignor {reference}, or lead "
        f"the group with {lead}, or move leaders to its members with {plan}"
    )


def finding_text(group: Group, finding: LocalityFinding) -> str:
    """Return `assignors.explain.reason_text` with the name of the group's assignor."""
    if finding.reason is not Reason.NOT_OPTIMAL:
        return reason_text(finding)
    if assigned_by_rackward(group):
        return (
            "other members could read them locally: leaders or racks have changed since the "
            "assignment, or the group uses weights"
        )
    if group.kind is GroupKind.SHARE:
        return "the brokers give them to members in other racks"
    protocol = group.protocol or group.type
    return (
        f"other members could read them locally: the group's assignor ({protocol}) ignores leader "
        "racks"
    )


def remedy_advice(group: Group, remedy: Remedy, without_replica: int) -> str:
    """Return `assignors.explain.remedy_text` with the names of assignors, and missing replicas.

    ``without_replica`` is the number of leaders to move that have no replica in their new rack.
    """
    by_rackward = assigned_by_rackward(group)
    if remedy.kind is RemedyKind.REBALANCE:
        name, after = shlex.quote(group.id), f"{remedy.off_rack_after} off-rack at best"
        if by_rackward:
            return f"rebalance the group (rackward groups rebalance {name}): {after}"
        return (
            f"use the assignor {reference_protocol(group)}, or lead the group (rackward lead "
            f"{name}): {after}"
        )
    if remedy.kind is RemedyKind.SET_MEMBER_RACK and not by_rackward:
        members = "this member" if len(remedy.members) == 1 else "these members"
        can_send = {each.can_send_rack for each in group.members if each.id in remedy.members}
        mapping = f"give the racks of {members} with --mapping"
        if can_send == {True}:
            return f"set client.rack of {members}, or give their racks with --mapping"
        if can_send == {False}:
            return f"{mapping}: their client does not send one"
        return f"{mapping}, or set client.rack where clients send it"
    note = f" ({without_replica:,} have no replica there)" if without_replica else ""
    return remedy_text(remedy) + note
