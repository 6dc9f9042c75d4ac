"""Planned topics, and descriptions of existing ones, as tables and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement_core import ReplicaLists, TopicPartition
from placement_core.cluster import ClusterLoad, cluster_load
from placement_core.placers.under_replicated import ReplicationTarget
from rackward.cli.console import escape_controls, table
from rackward.cli.render.plan import (
    MAX_BROKER_ROWS,
    NO_RACK,
    format_range,
    load_json,
    load_table,
    replicas_text,
)
from rackward.kafka import ClusterState
from rackward.kafka.topics import NewPartitions
from rackward.topics.health import Health, Note
from rackward.topics.pending_replicas import layout_with_placeholders
from rackward.topics.planner import PlacementOptions, TopicsPlan
from rackward.units import format_count

MAX_LISTED_PARTITIONS = 60
"""Partitions that are listed without --all-partitions, over all topics."""
MIN_LISTED_PARTITIONS = 6
"""Partitions of each planned topic that are listed in any case."""

_MAX_GRID_WIDTH = 200
_MARGIN = 2
_GAP = 3
_MAX_FINDINGS = 6
_MAX_RACKS = 4
_MAX_RACKS_LENGTH = 12

# Planned partitions.


def show_plan(
    plan: TopicsPlan, options: PlacementOptions, console: Console, *, every_partition: bool
) -> None:
    """Print the layout of each topic, and the load of brokers and racks."""
    racks = plan.after.racks()
    limit = max(MIN_LISTED_PARTITIONS, MAX_LISTED_PARTITIONS // len(plan.new))
    for new in plan.new:
        console.print(_heading(new, options), style="bold")
        show_replica_lists(
            new.replicas,
            racks,
            console,
            first=new.first_partition,
            limit=None if every_partition else limit,
        )
        for key, value in new.configs.items():
            console.print(f"  {key}={value}")
        console.print()
    console.print(load_table("Load of brokers, all topics", plan.load))


def show_replica_lists(
    rows: ReplicaLists,
    racks: Mapping[int, str | None],
    console: Console,
    *,
    first: int = 0,
    limit: int | None = MAX_LISTED_PARTITIONS,
) -> None:
    """Print replica lists side by side; the first one is that of partition ``first``.

    ``limit`` is the maximum number of lists; None: all.
    """
    listed = rows[:limit]
    cells = [(str(number), replicas_text(row, racks)) for number, row in enumerate(listed, first)]
    grid = _grid(cells, console.width - _MARGIN)
    console.print(Padding(grid, (0, 0, 0, _MARGIN), expand=False))
    if hidden := len(rows) - len(listed):
        console.print(f"  ... and {hidden:,} more: --all-partitions lists them")


def plan_json(plan: TopicsPlan, options: PlacementOptions) -> dict[str, Any]:
    """Return the fields of a plan in a command's JSON."""
    return {
        "placement": options.name,
        "seed": options.seed,
        "topics": [
            {
                "name": new.topic,
                "first_partition": new.first_partition,
                "partitions": new.first_partition + len(new.replicas),
                "replication_factor": len(new.replicas[0]),
                "configs": dict(new.configs),
                "replicas": {
                    str(number): list(row)
                    for number, row in enumerate(new.replicas, new.first_partition)
                },
            }
            for new in plan.new
        ],
        **load_json(plan.load),
    }


def _heading(new: NewPartitions, options: PlacementOptions) -> str:
    count = format_count(len(new.replicas), "partition")
    if new.first_partition:
        last = new.first_partition + len(new.replicas) - 1
        count = f"{count} added ({new.first_partition} to {last})"
    seed = "" if options.seed is None else f", seed {options.seed}"
    replicas = format_count(len(new.replicas[0]), "replica")
    return f"{new.topic}: {count}, {replicas} each; placement {options.name}{seed}"


def _grid(cells: list[tuple[str, str]], width: int) -> Table:
    """Return pairs side by side, down the first column and then the next."""
    left = max((len(number) for number, _ in cells), default=1)
    right = max((len(text) for _, text in cells), default=1)
    column_width = left + 2 + right + _GAP
    columns = max(1, min(len(cells), (min(width, _MAX_GRID_WIDTH) + _GAP) // column_width))
    lines = -(-len(cells) // columns)
    grid = Table.grid(padding=(0, _GAP))
    for _ in range(columns):
        grid.add_column(no_wrap=True)
    for line in range(lines):
        grid.add_row(*(f"{number:>{left}}  {text}" for number, text in cells[line::lines]))
    return grid


# Descriptions as tables.


@dataclass(frozen=True, slots=True)
class Description:
    """What ``topics describe`` shows.

    topics
        Names of the topics to list, in order.
    not_shown
        What this user may not read, with the reason.
    targets
        Those of partitions with placeholders.
    """

    state: ClusterState
    health: Health
    min_isr: Mapping[str, int]
    topics: tuple[str, ...]
    unhealthy_only: bool
    not_shown: tuple[str, ...]
    targets: Mapping[TopicPartition, ReplicationTarget] = field(default_factory=dict)

    @property
    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The replica lists, with placeholders for pending replicas."""
        view = self.state.view
        return layout_with_placeholders(view.replicas, self.targets, view.racks())

    @property
    def load(self) -> ClusterLoad:
        """The load of brokers and racks, over all topics in the state."""
        return cluster_load(self.state.view, self.state.view)


def show_description(
    description: Description, console: Console, *, limit: int, every_partition: bool, named: bool
) -> None:
    """Print brokers, then topics, then partitions if they are few.

    ``named``: the topics were named on the command line. ``limit`` is the maximum number of
    topics; 0: all.
    """
    console.print(_headline(description), style="bold")
    console.print()
    if not named:
        console.print(_broker_table(description))
        console.print()
    shown = description.topics[:limit] if limit else description.topics
    partitions = _listed_partitions(description, shown)
    if shown:
        # In a pipe, a topic is one line.
        console.print(_topic_table(description, shown, "\n" if console.is_terminal else ", "))
        console.print()
    if hidden := len(description.topics) - len(shown):
        console.print(f"... and {hidden:,} more topics: --limit 0 lists all, --match selects\n")
    wanted = bool(partitions) and (every_partition or named or description.unhealthy_only)
    if wanted and (every_partition or len(partitions) <= MAX_LISTED_PARTITIONS):
        console.print(_partition_table(description, partitions))
        console.print()
    elif wanted:
        console.print(f"{len(partitions):,} partitions: --all-partitions lists them\n")
    _print_findings(description, console)


def _headline(description: Description) -> str:
    state = description.state
    racks = {broker.rack for broker in state.view.brokers if broker.rack is not None}
    down = f" ({len(state.fenced)} down)" if state.fenced else ""
    return (
        f"{format_count(len(state.view.brokers) + len(state.fenced), 'broker')}{down} in "
        f"{format_count(len(racks), 'rack')}; {format_count(len(state.topics), 'topic')}, "
        f"{format_count(len(state.view.replicas), 'partition')}, "
        f"{format_count(sum(map(len, state.view.replicas.values())), 'replica')}"
    )


def _broker_table(description: Description) -> Table:
    load, state = description.load, description.state
    leader_counts = Counter(state.view.known_leaders.values())
    live = state.view.racks()
    down = {broker.id: broker.rack for broker in state.fenced}
    rows = table()
    rows.add_column("rack", overflow="fold")
    rows.add_column("broker", justify="right")
    rows.add_column("address", overflow="fold")
    rows.add_column("leaders", justify="right")
    rows.add_column("replicas", justify="right")
    known = {**{b: r for b, (r, _) in load.brokers.items()}, **down}
    many = len(known) > MAX_BROKER_ROWS
    for rack in sorted(set(known.values()), key=lambda each: (each is None, each or "")):
        members = sorted(broker for broker, its_rack in known.items() if its_rack == rack)
        replica_counts = {
            b: load.brokers[b][1].replicas_after if b in load.brokers else 0 for b in members
        }
        if many:
            down_count = sum(broker not in live for broker in members)
            note = f"{down_count} down" if down_count else ""
            rows.add_row(
                NO_RACK if rack is None else rack,
                f"{len(members)} brokers",
                Text(note, style="red"),
                format_range([leader_counts[broker] for broker in members]),
                format_range(list(replica_counts.values())),
            )
            continue
        for number, broker in enumerate(members):
            address = Text(escape_controls(state.addresses.get(broker, "")))
            if broker not in live:
                address = Text("down", style="red")
            rows.add_row(
                "" if number else (NO_RACK if rack is None else rack),
                str(broker),
                address,
                f"{leader_counts[broker]:,}",
                f"{replica_counts[broker]:,}",
            )
    return rows


def _topic_table(description: Description, shown: tuple[str, ...], separator: str) -> Table:
    view = description.state.view
    racks = sorted({broker.rack for broker in view.brokers if broker.rack is not None})
    by_rack = racks and len(racks) <= _MAX_RACKS and sum(map(len, racks)) <= _MAX_RACKS_LENGTH
    rows = table()
    rows.add_column("topic", overflow="fold")
    rows.add_column("parti-\ntions", justify="right")
    rows.add_column("repli-\ncas", justify="right")
    rows.add_column("min in\nsync", justify="right")
    if by_rack:
        rows.add_column("leaders in\n" + " / ".join(racks), justify="right")
    rows.add_column("notes")
    partitions: dict[str, list[TopicPartition]] = {name: [] for name in shown}
    for tp in view.replicas:
        if tp.topic in partitions:
            partitions[tp.topic].append(tp)
    notes: dict[str, Counter[Note]] = {name: Counter() for name in shown}
    for tp, partition_notes in description.health.notes.items():
        if tp.topic in notes:
            notes[tp.topic].update(partition_notes)
    broker_racks = view.racks()
    for name, tps in partitions.items():
        factors = {len(view.replicas[tp]) for tp in tps}
        cells = [f"{len(tps):,}", "-".join(map(str, sorted({min(factors), max(factors)})))]
        min_isr = description.min_isr.get(name)
        cells.append("?" if min_isr is None else str(min_isr))
        if by_rack:
            leaders = Counter(broker_racks.get(view.known_leaders.get(tp, -1)) for tp in tps)
            cells.append(" / ".join(str(leaders[rack]) for rack in racks))
        rows.add_row(name, *cells, _notes_text(notes[name], len(tps), separator))
    return rows


def _notes_text(notes: Counter[Note], partitions: int, separator: str) -> Text:
    parts = [
        note.value if notes[note] == partitions else f"{notes[note]:,} {note.value}"
        for note in Note
        if notes[note]
    ]
    unhealthy = any(note.unhealthy for note in notes)
    return Text(separator.join(parts) or "healthy", style="red" if unhealthy else "")


def _listed_partitions(description: Description, shown: tuple[str, ...]) -> list[TopicPartition]:
    replicas = description.state.view.replicas
    if description.unhealthy_only:
        unhealthy = set(description.health.unhealthy())
        return [tp for tp in replicas if tp in unhealthy]
    topics = set(shown)
    return [tp for tp in replicas if tp.topic in topics]


def _partition_table(description: Description, partitions: list[TopicPartition]) -> Table:
    several = len({tp.topic for tp in partitions}) > 1
    view = description.state.view
    racks = {**view.racks(), **{broker.id: broker.rack for broker in description.state.fenced}}
    rows = table()
    if several:
        rows.add_column("topic", overflow="fold")
    rows.add_column("parti-\ntion", justify="right")
    rows.add_column("leader", justify="right")
    rows.add_column("replicas")
    rows.add_column("not in\nsync")
    rows.add_column("notes")
    previous = None
    replicas = description.replicas
    for tp in partitions:
        in_sync = description.state.in_sync[tp]
        leader = view.leader(tp)
        cells = [
            str(tp.partition),
            "none" if leader is None else str(leader),
            replicas_text(replicas[tp], racks),
            " ".join(str(broker) for broker in view.replicas[tp] if broker not in in_sync),
        ]
        if several:
            cells.insert(0, "" if tp.topic == previous else tp.topic)
        rows.add_row(*cells, _partition_notes(description, tp))
        previous = tp.topic
    return rows


def _partition_notes(description: Description, tp: TopicPartition) -> Text:
    notes = description.health.notes.get(tp, ())
    parts = []
    for note in notes:
        if note is Note.MOVING:
            reassignment = description.state.reassignments[tp]
            brokers = [f"+{broker}" for broker in reassignment.adding]
            brokers += [f"-{broker}" for broker in reassignment.removing]
            parts.append(f"moving {' '.join(brokers)}")
        elif note is not Note.UNDER_REPLICATED:
            # The column "not in sync" shows that.
            parts.append(note.value)
    return Text(", ".join(parts), style="red" if any(note.unhealthy for note in notes) else "")


def _print_findings(description: Description, console: Console) -> None:
    for finding in description.health.findings[:_MAX_FINDINGS]:
        subject = "" if finding.message.startswith(finding.subject) else f"{finding.subject}: "
        console.print(f"{finding.severity.value}: {subject}{finding.message}")
    if (hidden := len(description.health.findings) - _MAX_FINDINGS) > 0:
        console.print(f"... and {hidden:,} more findings: see rackward placement check")
    if not description.topics:
        console.print("No unhealthy topics." if description.unhealthy_only else "No topics.")
    for reason in description.not_shown:
        console.print(f"Not shown: {reason}")


# Descriptions as JSON.


def describe_json(description: Description) -> dict[str, Any]:
    """Return the fields of the command's JSON: all partitions, or all unhealthy ones."""
    state = description.state
    unhealthy_partitions = set(description.health.unhealthy())
    partitions: dict[str, list[TopicPartition]] = {name: [] for name in description.topics}
    for tp in state.view.replicas:
        if tp.topic in partitions and (
            tp in unhealthy_partitions or not description.unhealthy_only
        ):
            partitions[tp.topic].append(tp)
    unhealthy = Counter(tp.topic for tp in unhealthy_partitions)
    replicas = description.replicas
    return {
        "cluster_id": state.cluster_id,
        "brokers": _brokers_json(description),
        "racks": _racks_json(description),
        "topics": [
            {
                "name": name,
                "id": state.topic_ids[name],
                "internal": name in state.internal,
                "min_in_sync": description.min_isr.get(name),
                "unhealthy": unhealthy[name],
                "partitions": [
                    _partition_json(description, tp, replicas[tp]) for tp in partitions[name]
                ],
            }
            for name in description.topics
        ],
        "findings": [
            {
                "severity": finding.severity.value,
                "kind": finding.kind.value,
                "subject": finding.subject,
                "message": finding.message,
            }
            for finding in description.health.findings
        ],
        "not_shown": list(description.not_shown),
    }


def _partition_json(
    description: Description, tp: TopicPartition, replicas: tuple[int, ...]
) -> dict[str, Any]:
    reassignment = description.state.reassignments.get(tp)
    return {
        "partition": tp.partition,
        "leader": description.state.view.leader(tp),
        "replicas": list(replicas),
        "in_sync": list(description.state.in_sync[tp]),
        "notes": [note.value for note in description.health.notes.get(tp, ())],
        "adding": [] if reassignment is None else list(reassignment.adding),
        "removing": [] if reassignment is None else list(reassignment.removing),
    }


def _brokers_json(description: Description) -> list[dict[str, Any]]:
    state = description.state
    leader_counts = Counter(state.view.known_leaders.values())
    replica_counts = Counter(broker for row in state.view.replicas.values() for broker in row)
    live = state.view.racks()
    known = {**{broker.id: broker.rack for broker in state.fenced}, **live}
    return [
        {
            "id": broker,
            "rack": known.get(broker),
            "address": state.addresses.get(broker),
            "live": broker in live,
            "leaders": leader_counts[broker],
            "replicas": replica_counts[broker],
        }
        for broker in sorted({*known, *replica_counts})
    ]


def _racks_json(description: Description) -> list[dict[str, Any]]:
    racks_json: dict[str | None, dict[str, Any]] = {}
    for broker in _brokers_json(description):
        rack = racks_json.setdefault(
            broker["rack"], {"rack": broker["rack"], "brokers": 0, "leaders": 0, "replicas": 0}
        )
        rack["brokers"] += 1
        rack["leaders"] += broker["leaders"]
        rack["replicas"] += broker["replicas"]
    return [
        racks_json[rack] for rack in sorted(racks_json, key=lambda each: (each is None, each or ""))
    ]
