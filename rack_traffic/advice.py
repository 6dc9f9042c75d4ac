"""Advice for a group of any client: which library it uses, and how to make it read locally.

`rackward audit`, `groups explain`, the what-if and its report use it, so that all say the same.
Brokers do not tell the library of a member. Most applications keep the default client id of their
library, which names it; a few assignors exist in one library only. All functions are pure.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from placement_core import RACK_AWARE_SELECTOR

CLASSIC = "classic"
"""The type of groups of which a member assigns the partitions."""

OWN_PROTOCOLS = RANGE, COOPERATIVE_STICKY = (
    "leader-rack-aware-range",
    "leader-rack-aware-cooperative-sticky",
)
"""Rackward's assignors."""

STREAMS_PROTOCOL = "stream"
"""The protocol of Kafka Streams in classic groups."""

FIXED_PROTOCOLS = {
    STREAMS_PROTOCOL: "the assignment of Kafka Streams has tasks, which only Streams can assign",
    "faust": "the assignment of Faust has tables and standbys, which only Faust can assign",
}
"""Protocols of classic groups that nobody but the library itself can answer, each with why."""

RACK_AFFINITY = "rack-affinity"
"""kafka-go's assignor by racks, whose members send theirs as their user data."""

LED_PROTOCOLS = frozenset(
    {"range", "cooperative-sticky", "sticky", "roundrobin", "RoundRobinAssigner", RACK_AFFINITY}
)
"""The assignors of other clients that ``rackward lead`` answers without an option."""

BALANCED_BY_TOPIC = frozenset({"range", RANGE})
"""Assignors that balance each topic on its own, instead of all topics together."""

MAX_HOSTS = 50
"""Maximum number of hosts in a recommended ``--mapping``."""

MAX_GROUPS_IN_COMMAND = 10
"""Maximum number of groups in a recommended command; it has only one if there would be more."""


class AdvisedMember(Protocol):
    """What advice needs of a member; see `rackward.kafka.groups.GroupMember`.

    ``host`` is the address that the broker sees, such as ``/10.0.0.7``; ``can_send_rack`` whether
    what it sends has a field for its rack, None if unknown.
    """

    @property
    def id(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def can_send_rack(self) -> bool | None: ...


class AdvisedGroup(Protocol):
    """What advice needs of a group; see `rackward.kafka.groups.Group`.

    ``type`` is in lower case, ``protocol`` the name of its assignor, and ``leader`` the member of
    ``rackward lead`` that assigns it, None if another one does.
    """

    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def protocol(self) -> str: ...
    @property
    def members(self) -> Sequence[AdvisedMember]: ...
    @property
    def leader(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class MemberClient:
    """A member of a snapshot; the fields are those of AdvisedMember."""

    id: str
    client_id: str
    host: str = ""
    can_send_rack: bool | None = None


@dataclass(frozen=True, slots=True)
class ClientGroup:
    """A group of snapshots, which do not tell whether ``rackward lead`` leads it."""

    id: str
    type: str
    protocol: str
    members: tuple[MemberClient, ...]
    leader: str | None = None


# ---- Clients and assignors.


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


def library_of(group: AdvisedGroup, member: AdvisedMember) -> Library | None:
    """Return the library of a member, from its assignor or its client id; None if unknown."""
    if group.protocol in _PROTOCOLS:
        return _PROTOCOLS[group.protocol]
    return next(
        (library for form, library in _CLIENT_IDS if form.fullmatch(member.client_id)), None
    )


def libraries_of(group: AdvisedGroup) -> dict[Library | None, int]:
    """Return the number of members of each library, the most frequent first; None: unknown."""
    return dict(Counter(library_of(group, each) for each in group.members).most_common())


def main_library(group: AdvisedGroup, members: Sequence[AdvisedMember]) -> Library | None:
    """Return the library of most of ``members``."""
    libraries = [library_of(group, each) for each in members]
    return max(libraries, key=libraries.count, default=None)


def assigned_by_rackward(group: AdvisedGroup) -> bool:
    """Return whether the group's partitions are assigned by the racks of their leaders.

    By an assignor of rackward's, or by ``rackward lead``. Such a group follows when leaders move;
    any other group keeps its assignment.
    """
    by_rackward = group.protocol in OWN_PROTOCOLS or group.leader is not None
    return group.type == CLASSIC and by_rackward


def can_be_reassigned(group: AdvisedGroup) -> bool:
    """Return whether the group can be assigned by the racks of leaders: it is, or can be led."""
    return group.type == CLASSIC and (
        group.protocol in LED_PROTOCOLS or assigned_by_rackward(group)
    )


def assignor_is_fixed(group: AdvisedGroup) -> bool:
    """Return whether no other assignor can assign the group: brokers do, or its library does."""
    return group.type != CLASSIC or group.protocol in FIXED_PROTOCOLS


def reference_protocol(group: AdvisedGroup) -> str:
    """Return the name of rackward's assignor that balances as the group's assignor does."""
    return RANGE if group.protocol in BALANCED_BY_TOPIC else COOPERATIVE_STICKY


# ---- Steps.


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
    SET_REPLICA_SELECTOR = "set-replica-selector"
    USE_PARTITIONER = "use-partitioner"


NEEDS: Mapping[StepKind, str] = {
    StepKind.LEAD: "rackward lead needs Read on the groups and Describe on their topics",
    StepKind.REBALANCE: "groups rebalance needs Read on the groups and Describe on their topics",
    StepKind.MOVE_LEADERS: "leaders apply needs Alter and DescribeConfigs on the cluster, and "
    "Describe on the topics",
}
"""The rights that commands of steps need."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """One thing to do. ``lines`` are commands, or lines of the client's configuration."""

    kind: StepKind
    text: str
    lines: tuple[str, ...] = ()


def steps_text(steps: Iterable[NextStep]) -> str:
    """Return steps in one line."""
    return "; then ".join(
        f"{step.text}: {'; '.join(step.lines)}" if step.lines else step.text for step in steps
    )


def command(*arguments: str, mapping: str | None = None) -> str:
    """Return a command of rackward, quoted, with the option ``--mapping`` if there is one."""
    more = () if mapping is None else ("--mapping", mapping)
    return shlex.join(["rackward", *arguments, *more])


_GROUP_AT = {StepKind.LEAD: 2, StepKind.REBALANCE: 3}
"""Where the command of a step has its group; it may have several."""


def join_steps(steps: Iterable[tuple[str, NextStep]]) -> Iterator[tuple[list[str], NextStep]]:
    """Yield the steps of groups, each once with all its groups, which its command names."""
    joined: dict[NextStep, list[str]] = {}
    for group, step in steps:
        joined.setdefault(_for_groups(step, 1, ()), []).append(group)
    for step, groups in joined.items():
        yield groups, _for_groups(step, 0, groups)


def _for_groups(step: NextStep, named: int, groups: Sequence[str]) -> NextStep:
    """Return a step whose command names ``groups`` in place of so many that it names now."""
    at = _GROUP_AT.get(step.kind)
    if at is None:
        return step
    words = shlex.split(step.lines[0])
    words[at : at + named] = groups
    return replace(step, lines=(shlex.join(words), *step.lines[1:]))


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

_OWN_ASSIGNORS: Mapping[Library | None, str] = {
    Library.KAFKA_PYTHON: "assignors.kafka_python",
    Library.AIOKAFKA: "assignors.aiokafka",
}
"""Libraries that accept rackward's assignors, and the modules that have them."""


def rack_names(racks: Sequence[str]) -> str:
    """Return the first of the brokers' racks in words."""
    return ", ".join(racks[:3]) + (", ..." if len(racks) > 3 else "")


def fetch_rack_step(
    group: AdvisedGroup, members: Sequence[AdvisedMember], racks: Sequence[str]
) -> NextStep:
    """Return how ``members``, which join without a rack, read from followers."""
    library = main_library(group, members)
    line = _FETCH_RACK_LINES.get(library, _FETCH_RACK_LINES[None])
    return NextStep(
        StepKind.SET_CLIENT_RACK,
        f"set {_rack_setting(library)}, unless it is set, to the broker.rack of its host "
        f"({rack_names(racks)}): brokers have a replica selector",
        (line.format(rack=racks[0]),),
    )


def _rack_setting(library: Library | None) -> str:
    if library is Library.CONNECT:
        return "consumer.client.rack of each worker"
    return "client.rack of each member"


def rack_steps(
    group: AdvisedGroup,
    members: Sequence[AdvisedMember],
    racks: Sequence[str],
    mapping: str | None = None,
) -> tuple[NextStep, ...]:
    """Return how ``members``, whose racks are unknown, get one: by a setting, or by a mapping.

    ``racks`` are the brokers', at least one; ``mapping`` is the present option ``--mapping``.
    """
    library, rack = main_library(group, members), racks[0]
    names = rack_names(racks)
    steps = []
    if library in _OWN_ASSIGNORS and group.protocol not in OWN_PROTOCOLS:
        # These libraries send no rack with their own assignors.
        steps.append(own_assignor_step(group, library, rack))
    elif group.protocol in OWN_PROTOCOLS:
        steps.append(
            NextStep(
                StepKind.SET_CLIENT_RACK,
                f"give each member the rack of its host ({names}); see rackward rack --help",
                (f"RACKWARD_RACK={rack}",),
            )
        )
    elif library in _RACK_LINES and any(each.can_send_rack is not False for each in members):
        steps.append(
            NextStep(
                StepKind.SET_CLIENT_RACK,
                f"set {_rack_setting(library)} to the broker.rack of its host ({names})",
                (_RACK_LINES[library].format(rack=rack),),
            )
        )
    return (*steps, mapping_step(hosts_of(members), racks, mapping))


def hosts_of(members: Iterable[AdvisedMember]) -> tuple[str, ...]:
    """Return the hosts of members as ``--mapping`` takes them, at most MAX_HOSTS, sorted."""
    # ``/10.0.0.7``, or ``name/10.0.0.7``; the interface of fe80::1%eth0 is one of the broker's.
    hosts = {each.host.rpartition("/")[2].partition("%")[0] for each in members}
    return tuple(sorted(hosts - {""}))[:MAX_HOSTS]


def mapping_step(hosts: Sequence[str], racks: Sequence[str], mapping: str | None) -> NextStep:
    """Return how to give commands the racks of ``hosts``; clients stay as they are."""
    pairs = [*([mapping] if mapping else []), *(f"{host}=RACK" for host in hosts or ("HOST",))]
    return NextStep(
        StepKind.MAP_HOSTS,
        "or leave clients as they are, and give commands the racks of their hosts "
        f"({rack_names(racks)}), one by one or as networks (10.0.1.0/24)",
        (f"--mapping {shlex.quote(','.join(pairs))}",),
    )


def rackless_steps(
    groups: int,
    libraries: Iterable[Library | None],
    hosts: Sequence[str],
    racks: Sequence[str],
    mapping: str | None,
) -> tuple[NextStep, ...]:
    """Return the first steps of a cluster of which ``groups`` send no rack: the setting of each
    of their libraries, and a mapping of ``hosts``."""
    lines = []
    for library in sorted({*libraries}, key=lambda each: each.value if each else "~"):
        name = "others" if library is None else library.value
        if library in _OWN_ASSIGNORS:
            text = f'{_OWN_ASSIGNORS[library]}.{_class_name(COOPERATIVE_STICKY)}(rack="RACK")'
        elif library in _RACK_LINES:
            text = _RACK_LINES[library].format(rack="RACK")
        else:
            text = "its client sends no rack: use --mapping"
        lines.append(f"{name}: {text}")
    subject = "1 group sends" if groups == 1 else f"{groups:,} groups send"
    return (
        NextStep(
            StepKind.SET_CLIENT_RACK,
            f"{subject} no rack, so what crosses is unknown: set the rack of each member to the "
            f"broker.rack of its host ({rack_names(racks)})",
            tuple(lines),
        ),
        mapping_step(hosts, racks, mapping),
    )


# ---- Assignors.


def assignor_step(group: AdvisedGroup, rack: str = "RACK", mapping: str | None = None) -> NextStep:
    """Return how the group is assigned by the racks of leaders.

    ``rack`` stands for that of a member in lines of configuration.
    """
    if assigned_by_rackward(group):
        return NextStep(
            StepKind.REBALANCE,
            "rebalance it: leaders or racks have changed since it was assigned",
            (command("groups", "rebalance", group.id, mapping=mapping),),
        )
    library = main_library(group, group.members)
    if library in _OWN_ASSIGNORS:
        return own_assignor_step(group, library, rack)
    if group.protocol not in LED_PROTOCOLS:
        option = f"{group.protocol}=STRATEGY"
        return NextStep(
            StepKind.LEAD,
            f"run rackward lead, if members of {group.protocol} apply any assignment "
            "(docs/leading.md)",
            (command("lead", group.id, "--protocol", option, mapping=mapping),),
        )
    lead = command("lead", group.id, "--take-over", "remove", mapping=mapping)
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


def _class_name(protocol: str) -> str:
    return (
        "LeaderRackAwareRangeAssignor"
        if protocol == RANGE
        else "LeaderRackAwareCooperativeStickyAssignor"
    )


def own_assignor_step(
    group: AdvisedGroup,
    library: Library | None,
    rack: str,
    protocol: str | None = None,
    weights: str = "",
) -> NextStep:
    """Return how members of a Python library use rackward's assignor ``protocol``, by default the
    one that balances as theirs does."""
    name = _class_name(protocol or reference_protocol(group))
    return NextStep(
        StepKind.USE_ASSIGNOR,
        "use rackward's assignor in all members, each with the rack of its host "
        "(docs/rolling-change.md)",
        (
            f"from {_OWN_ASSIGNORS[library]} import {name}",
            f'partition_assignment_strategy=[{name}(rack="{rack}"{weights})]',
        ),
    )


# ---- Leaders.


def layout_step(
    group: str,
    sharing: Sequence[str] = (),
    mapping: str | None = None,
    moves: int | None = None,
) -> NextStep:
    """Return how leaders are moved for a group and those that share its topics.

    ``moves`` is the number of leaders that move; None: unknown.
    """
    # The same command for all groups that are laid out together.
    names = sorted([group, *sharing])
    if len(names) > MAX_GROUPS_IN_COMMAND:
        names = [group]
    plan = command("leaders", "plan", *names, mapping=mapping)
    leaders = "partition leaders" if moves is None else f"{moves:,} partition leaders"
    if moves == 1:
        leaders = "1 partition leader"
    text = f"move {leaders} to the racks of the members"
    if left_out := 1 + len(sharing) - len(names):
        text += f" (add the {left_out:,} other groups that share topics)"
    return NextStep(
        StepKind.MOVE_LEADERS,
        text,
        (f"{plan} -o leaders.json", "rackward leaders apply leaders.json"),
    )


# ---- The changes that the scenarios of the what-if stand for.


def scenario_steps(
    group: AdvisedGroup, protocol: str, *, by_bytes: bool = False
) -> tuple[NextStep, ...] | None:
    """Return how the group gets the assignment of ``protocol``, one of OWN_PROTOCOLS.

    None if its client cannot have it: ``by_bytes``, with weights, needs rackward's assignor in the
    members.
    """
    library = main_library(group, group.members)
    if library in _OWN_ASSIGNORS:
        weights = ", weights=..." if by_bytes else ""
        step = own_assignor_step(group, library, "RACK", protocol, weights)
        if by_bytes:
            step = NextStep(
                step.kind, f"{step.text}, with weights: bytes from partition_hours", step.lines
            )
        return (step,)
    if by_bytes or assignor_is_fixed(group):
        return None
    if protocol == reference_protocol(group):
        return (assignor_step(group),)
    other = "range" if protocol == RANGE else "cooperative-sticky"
    change = NextStep(
        StepKind.USE_ASSIGNOR,
        f"change the assignor of all members to {other} (docs/rolling-change.md)",
    )
    lead = command("lead", group.id, "--take-over", "remove", mapping=None)
    return change, NextStep(StepKind.LEAD, "run rackward lead", (lead,))


def follower_steps(
    group: AdvisedGroup, racks: Sequence[str], *, selected: bool
) -> tuple[NextStep, ...]:
    """Return how the group reads from followers; ``selected``: all brokers select by rack."""
    line = _FETCH_RACK_LINES.get(main_library(group, group.members), _FETCH_RACK_LINES[None])
    member_step = NextStep(
        StepKind.SET_CLIENT_RACK,
        "set client.rack of each member to the broker.rack of its host",
        (line.format(rack="RACK" if not racks else racks[0]),),
    )
    if selected:
        return (member_step,)
    broker_step = NextStep(
        StepKind.SET_REPLICA_SELECTOR,
        "set the replica selector of every broker",
        (f"replica.selector.class={RACK_AWARE_SELECTOR}",),
    )
    return broker_step, member_step
