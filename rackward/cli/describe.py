"""``rackward topics describe``: replicas, leaders and problems of topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from placement_core import InvalidOptionError, TopicPartition
from placement_core.audit import Finding, Kind
from placement_core.placers.under_replicated import ReplicationTarget
from rackward.cli import options
from rackward.cli.completion import complete_topics
from rackward.cli.options import ClusterOptions
from rackward.cli.output import escape_controls, number, print_json, rack_name, stdout, table, text
from rackward.cli.plan_output import (
    MAX_BROKER_ROWS,
    MAX_LISTED_PARTITIONS,
    format_range,
    replicas_text,
)
from rackward.kafka import (
    AdminConnection,
    ClusterState,
    UnauthorizedError,
    check_topics,
    read_reassignments,
    read_state,
)
from rackward.kafka.configs import read_min_isr
from rackward.topics.creator import read_replication_targets
from rackward.topics.health import (
    NOTED,
    UNHEALTHY,
    Health,
    listed_topics,
    partition_health,
    read_throttle_findings,
)
from rackward.topics.pending_replicas import layout_with_placeholders
from rackward.units import format_count, matches_name, rackless_last

EPILOG = """
\b
Examples:
  rackward topics describe orders
  rackward topics describe 'orders-*' --sort partitions --top 10
  rackward topics describe --unhealthy

A partition is unhealthy if it has no leader, has fewer replicas in sync than min.insync.replicas,
has replicas that are not in sync, could be spread better over the racks, or has placeholders: -1
and -2 are the replicas that a topic created with --allow-under-replicated is waiting for.

Exit status: 0 success, also if there are problems; 2 error (reason on stderr).

"""

MAX_TOPICS = 40
"""Maximum number of topics on a terminal without --top; pipes and JSON have all."""
_MAX_FINDINGS = 6
_MAX_RACKS = 4
_MAX_RACKS_LENGTH = 12


class DescribedBroker(msgspec.Struct, frozen=True):
    """A broker, and the leaders and replicas on it, over all topics."""

    id: int
    rack: str | None
    address: str | None
    live: bool
    leaders: int
    replicas: int


class DescribedRack(msgspec.Struct, frozen=True):
    """The brokers, leaders and replicas of a rack; None: brokers without a rack."""

    rack: str | None
    brokers: int
    leaders: int
    replicas: int


class DescribedPartition(msgspec.Struct, frozen=True):
    """A partition.

    replicas
        -1, -2, ... are placeholders of replicas that are waiting for brokers.
    adding, removing
        Those of a reassignment in progress.
    """

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    notes: tuple[Kind, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_unhealthy(self) -> bool:
        """Whether the partition has a problem."""
        return any(note in UNHEALTHY for note in self.notes)

    @property
    def note_text(self) -> Text:
        """The notes that no other column shows."""
        parts = []
        for note in self.notes:
            if note is Kind.MOVING:
                moves = [*(f"+{b}" for b in self.adding), *(f"-{b}" for b in self.removing)]
                parts.append(f"moving {' '.join(moves)}")
            elif note is not Kind.UNDER_REPLICATED:
                # The column "not in sync" shows that.
                parts.append(note.value)
        return Text(", ".join(parts), style="red" if self.is_unhealthy else "")


class DescribedTopic(msgspec.Struct, frozen=True):
    """A topic.

    min_in_sync
        Its min.insync.replicas; null: this user may not read it.
    unhealthy
        The number of its unhealthy partitions.
    partitions
        All, or with ``--unhealthy`` the unhealthy ones.
    """

    name: str
    id: str | None
    internal: bool
    min_in_sync: int | None
    unhealthy: int
    partitions: tuple[DescribedPartition, ...]


class TopicsDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Brokers, racks and topics.

    racks
        Brokers without a rack are last.
    topics
        Unhealthy ones first.
    total_topics, total_partitions
        Those of the cluster, or of the named topics, listed or not.
    not_shown
        What this user may not read, with the reason.
    """

    cluster_id: str | None
    total_topics: int
    total_partitions: int
    brokers: tuple[DescribedBroker, ...]
    racks: tuple[DescribedRack, ...]
    topics: tuple[DescribedTopic, ...]
    findings: tuple[Finding, ...]
    not_shown: tuple[str, ...]

    def only_unhealthy(self) -> TopicsDescription:
        """Return the description with unhealthy partitions only."""
        topics = []
        for topic in self.topics:
            partitions = tuple(each for each in topic.partitions if each.is_unhealthy)
            topics.append(msgspec.structs.replace(topic, partitions=partitions))
        return msgspec.structs.replace(self, topics=tuple(topics))


RESULTS = (TopicsDescription,)


class TopicColumn(StrEnum):
    """The columns by which topics can be sorted."""

    TOPIC = "topic"
    PARTITIONS = "partitions"
    REPLICAS = "replicas"
    UNHEALTHY = "unhealthy"


_ORDERS: Mapping[TopicColumn, Callable[[DescribedTopic], Any]] = {
    TopicColumn.TOPIC: lambda topic: topic.name,
    TopicColumn.PARTITIONS: lambda topic: -len(topic.partitions),
    TopicColumn.REPLICAS: lambda topic: -sum(len(each.replicas) for each in topic.partitions),
    TopicColumn.UNHEALTHY: lambda topic: -topic.unhealthy,
}


def describe(
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC",
            help="Topics; * matches any characters. Default: all topics.",
            autocompletion=complete_topics,
        ),
    ] = None,
    *,
    unhealthy: Annotated[
        bool, typer.Option("--unhealthy", help="Only unhealthy topics and partitions.")
    ] = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Include Kafka's internal topics.")
    ] = False,
    sort: Annotated[
        TopicColumn | None,
        typer.Option(
            help="Sort topics: by name, or by a figure from the largest. Default: unhealthy ones "
            "first, then by name."
        ),
    ] = None,
    top: options.Top = None,
    all_partitions: options.AllPartitions = False,
    as_json: options.Json = False,
    cluster: ClusterOptions,
) -> None:
    """Show leaders and replicas by rack, and problems.

    Topics are listed one per line, unhealthy ones first. Partitions are listed if topics are named
    or with --unhealthy, up to 60; --all-partitions lists them all.
    """
    with cluster.connect() as admin:
        description = _read_description(
            admin,
            cluster.properties(),
            topics or [],
            internal=internal,
            unhealthy=unhealthy,
        )
    if sort is not None:
        ordered = sorted(description.topics, key=_ORDERS[sort])
        description = msgspec.structs.replace(description, topics=tuple(ordered))
    if as_json:
        shown = description.only_unhealthy() if unhealthy else description
        print_json("topics describe", msgspec.structs.replace(shown, topics=shown.topics[:top]))
    else:
        show_description(
            description,
            stdout(),
            top=top,
            all_partitions=all_partitions,
            named=bool(topics),
            only_unhealthy=unhealthy,
        )


def _read_description(
    admin: AdminConnection,
    properties: Mapping[str, object],
    patterns: Collection[str],
    *,
    internal: bool,
    unhealthy: bool,
) -> TopicsDescription:
    named = {name for name in patterns if "*" not in name}
    state = read_state(
        admin,
        named if named and len(named) == len(set(patterns)) else None,
        internal=internal or bool(named),
        reassignments=False,
    )
    check_topics(state, named)
    if patterns:
        state = state.only([*named, *_matching(state, set(patterns) - named, internal=internal)])
    not_shown = []
    try:
        state = state.with_reassignments(read_reassignments(admin))
    except UnauthorizedError as error:
        not_shown.append(str(error))
    min_isr: dict[str, int] = {}
    try:
        min_isr = read_min_isr(admin, state.topics)
    except UnauthorizedError as error:
        not_shown.append(str(error))
    targets, reason = read_replication_targets(admin, properties, state)
    if reason is not None:
        not_shown.append(f"placeholders: {reason}")
    throttled, reason = read_throttle_findings(admin, reassigning=bool(state.reassignments))
    if reason is not None:
        not_shown.append(f"throttles: {reason}")
    health = partition_health(state, min_isr, targets)
    health = replace(health, findings=(*throttled, *health.findings))
    names = listed_topics(state, health, unhealthy=unhealthy)
    return description_of(state, health, min_isr, names, not_shown, targets)


def _matching(state: ClusterState, patterns: Collection[str], *, internal: bool) -> Iterator[str]:
    """Yield the topics that the patterns match. Raises InvalidOptionError if one matches none."""
    names = [name for name in state.topics if internal or name not in state.internal]
    for pattern in patterns:
        matching = [name for name in names if matches_name(name, pattern)]
        if not matching:
            raise InvalidOptionError(
                f"topic {pattern}: no topic matches it, or this user may not describe any"
            )
        yield from matching


def description_of(
    state: ClusterState,
    health: Health,
    min_isr: Mapping[str, int],
    topics: Sequence[str],
    not_shown: Sequence[str] = (),
    targets: Mapping[TopicPartition, ReplicationTarget] | None = None,
) -> TopicsDescription:
    """Return the description of ``topics``; ``targets`` are those of partitions with
    placeholders."""
    view = state.view
    replicas = layout_with_placeholders(view.replicas, targets or {}, view.racks())
    partitions: dict[str, list[DescribedPartition]] = {name: [] for name in topics}
    for tp in view.replicas:
        if tp.topic in partitions:
            moving = state.reassignments.get(tp)
            partitions[tp.topic].append(
                DescribedPartition(
                    tp.partition,
                    view.leader(tp),
                    replicas[tp],
                    tuple(state.in_sync[tp]),
                    health.notes.get(tp, ()),
                    () if moving is None else tuple(moving.adding),
                    () if moving is None else tuple(moving.removing),
                )
            )
    brokers = _brokers(state)
    by_rack: dict[str | None, list[DescribedBroker]] = {}
    for broker in brokers:
        by_rack.setdefault(broker.rack, []).append(broker)
    return TopicsDescription(
        cluster_id=state.cluster_id,
        total_topics=len(state.topics),
        total_partitions=len(view.replicas),
        brokers=brokers,
        racks=tuple(
            DescribedRack(
                rack,
                len(by_rack[rack]),
                sum(broker.leaders for broker in by_rack[rack]),
                sum(broker.replicas for broker in by_rack[rack]),
            )
            for rack in sorted(by_rack, key=rackless_last)
        ),
        topics=tuple(
            DescribedTopic(
                name,
                state.topic_ids[name],
                name in state.internal,
                min_isr.get(name),
                sum(each.is_unhealthy for each in listed),
                tuple(listed),
            )
            for name, listed in partitions.items()
        ),
        findings=health.findings,
        not_shown=tuple(not_shown),
    )


def _brokers(state: ClusterState) -> tuple[DescribedBroker, ...]:
    leaders = Counter(state.view.known_leaders.values())
    replicas = Counter(broker for row in state.view.replicas.values() for broker in row)
    live = state.view.racks()
    known = {**{broker.id: broker.rack for broker in state.fenced}, **live}
    return tuple(
        DescribedBroker(
            id, known.get(id), state.addresses.get(id), id in live, leaders[id], replicas[id]
        )
        for id in sorted({*known, *replicas})
    )


# ---- The description as tables.


def show_description(
    description: TopicsDescription,
    console: Console,
    *,
    top: int | None,
    all_partitions: bool,
    named: bool,
    only_unhealthy: bool,
) -> None:
    """Print brokers, then topics, then partitions if they are few.

    ``named``: the topics were named on the command line. ``top`` is the maximum number of topics;
    None: as many as a screen has room for, or all in a pipe.
    """
    console.print(_headline(description), style="bold")
    console.print()
    if not named:
        console.print(_broker_table(description))
        console.print()
    topics = description.topics[: top if top or console.soft_wrap else MAX_TOPICS]
    if topics:
        console.print(_topic_table(description, topics))
        console.print()
    if hidden := len(description.topics) - len(topics):
        console.print(f"... and {hidden:,} more topics: --top {hidden + len(topics)} lists all\n")
    if only_unhealthy:
        topics = description.only_unhealthy().topics
    count = sum(len(topic.partitions) for topic in topics)
    if count and (all_partitions or named or only_unhealthy):
        if all_partitions or count <= MAX_LISTED_PARTITIONS:
            console.print(_partition_table(description, topics))
            console.print()
        else:
            console.print(f"{count:,} partitions: --all-partitions lists them\n")
    for finding in description.findings[:_MAX_FINDINGS]:
        subject = "" if finding.message.startswith(finding.subject) else f"{finding.subject}: "
        console.print(f"{finding.severity.value}: {subject}{finding.message}")
    if (hidden := len(description.findings) - _MAX_FINDINGS) > 0:
        console.print(f"... and {hidden:,} more findings: see rackward placement check")
    if not description.topics:
        console.print("No unhealthy topics." if only_unhealthy else "No topics.")
    for reason in description.not_shown:
        console.print(f"Not shown: {reason}")


def _headline(description: TopicsDescription) -> str:
    brokers = description.brokers
    racks = {broker.rack for broker in brokers if broker.live and broker.rack is not None}
    down = sum(not broker.live for broker in brokers)
    return (
        f"{format_count(len(brokers), 'broker')}{f' ({down} down)' if down else ''} in "
        f"{format_count(len(racks), 'rack')}; {format_count(description.total_topics, 'topic')}, "
        f"{format_count(description.total_partitions, 'partition')}, "
        f"{format_count(sum(broker.replicas for broker in brokers), 'replica')}"
    )


def _broker_table(description: TopicsDescription) -> Table:
    rows = table("rack", number("broker"), "address", *map(number, ("leaders", "replicas")))
    many = len(description.brokers) > MAX_BROKER_ROWS
    for rack in description.racks:
        name = rack_name(rack.rack)
        there = [broker for broker in description.brokers if broker.rack == rack.rack]
        if many:
            down = sum(not broker.live for broker in there)
            rows.add_row(
                name,
                f"{len(there)} brokers",
                Text(f"{down} down" if down else "", style="red"),
                format_range([broker.leaders for broker in there]),
                format_range([broker.replicas for broker in there]),
            )
            continue
        for index, broker in enumerate(there):
            address = Text(escape_controls(broker.address or ""))
            rows.add_row(
                "" if index else name,
                str(broker.id),
                address if broker.live else Text("down", style="red"),
                text(broker.leaders),
                text(broker.replicas),
            )
    return rows


def _topic_table(description: TopicsDescription, topics: Sequence[DescribedTopic]) -> Table:
    racks = [each.rack for each in description.racks if each.rack is not None]
    by_rack = racks and len(racks) <= _MAX_RACKS and sum(map(len, racks)) <= _MAX_RACKS_LENGTH
    headings = ["partitions", "replicas", "min in\nsync"]
    if by_rack:
        headings.append("leaders in\n" + " / ".join(racks))
    rows = table("topic", *map(number, headings), "notes")
    broker_racks = {broker.id: broker.rack for broker in description.brokers if broker.live}
    for topic in topics:
        factors = sorted({sum(b >= 0 for b in each.replicas) for each in topic.partitions})
        cells = [
            text(len(topic.partitions)),
            "-".join(map(str, dict.fromkeys((factors[0], factors[-1])))),
        ]
        cells.append("?" if topic.min_in_sync is None else str(topic.min_in_sync))
        if by_rack:
            leaders = Counter(
                broker_racks.get(-1 if each.leader is None else each.leader)
                for each in topic.partitions
            )
            cells.append(" / ".join(str(leaders[rack]) for rack in racks))
        rows.add_row(topic.name, *cells, _notes_text(topic))
    return rows


def _notes_text(topic: DescribedTopic) -> Text:
    notes = Counter(note for partition in topic.partitions for note in partition.notes)
    count = len(topic.partitions)
    parts = [
        note.value if notes[note] == count else f"{notes[note]:,} {note.value}"
        for note in NOTED
        if notes[note]
    ]
    unhealthy = any(note in UNHEALTHY for note in notes)
    return Text("\n".join(parts) or "healthy", style="red" if unhealthy else "")


def _partition_table(description: TopicsDescription, topics: Sequence[DescribedTopic]) -> Table:
    shown = [topic for topic in topics if topic.partitions]
    several = len(shown) > 1
    racks = {broker.id: broker.rack for broker in description.brokers}
    headings = (number("partition"), number("leader"), "replicas", "not in\nsync", "notes")
    rows = table(*(["topic"] if several else []), *headings)
    for topic in shown:
        for index, each in enumerate(topic.partitions):
            behind = [b for b in each.replicas if b >= 0 and b not in each.in_sync]
            rows.add_row(
                *(["" if index else topic.name] if several else []),
                str(each.partition),
                "none" if each.leader is None else str(each.leader),
                replicas_text(each.replicas, racks),
                " ".join(map(str, behind)),
                each.note_text,
            )
    return rows
