"""A description of topics as tables that fit a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement_core import ReplicaLists, TopicPartition
from placement_core.under_replication import Wanted
from rackward.admin import ClusterState
from rackward.admin.topics import NewPartitions
from rackward.cli.console import table
from rackward.cli.options import Placing
from rackward.cli.render.load import MOST_BROKERS, NO_RACK, totals_json, totals_table
from rackward.controller.pending_replicas import with_placeholders
from rackward.topics.health import Health, Note
from rackward.topics.planner import TopicsPlan, Totals, totals

# ---- A plan of new partitions as tables and as JSON.

MAX_PLANNED_PARTITIONS = 60
"""Partitions that are shown one by one, over all topics, unless all are asked for."""
LEAST_PARTITIONS = 6
"""But as many of each topic."""

_MOST_RACK = 10
_MARGIN = 2
_GAP = 3


def show_plan(plan: TopicsPlan, placing: Placing, console: Console, *, every: bool) -> None:
    """Print the layout of each topic, and the totals."""
    racks = plan.after.racks()
    most = max(LEAST_PARTITIONS, MAX_PLANNED_PARTITIONS // len(plan.wanted))
    for wanted in plan.wanted:
        console.print(_heading(wanted, placing), style="bold")
        show_rows(wanted.rows, racks, console, first=wanted.first, most=None if every else most)
        for key, value in wanted.configs.items():
            console.print(f"  {key}={value}")
        console.print()
    console.print(totals_table("What brokers carry, over all topics", plan.totals))


def show_rows(
    rows: ReplicaLists,
    racks: Mapping[int, str | None],
    console: Console,
    *,
    first: int = 0,
    most: int | None = MAX_PLANNED_PARTITIONS,
) -> None:
    """Print replica lists side by side, the first being partition ``first``'s: ``most`` of them,
    or all where that is None."""
    shown = rows[:most]
    cells = [(str(number), replicas_text(row, racks)) for number, row in enumerate(shown, first)]
    grid = _grid(cells, console.width - _MARGIN)
    console.print(Padding(grid, (0, 0, 0, _MARGIN), expand=False))
    if hidden := len(rows) - len(shown):
        console.print(f"  ... and {hidden:,} more: --every-partition shows them")


def plan_json(plan: TopicsPlan, placing: Placing) -> dict[str, Any]:
    """The plan's fields of a command's JSON."""
    return {
        "placement": placing.name,
        "seed": placing.seed,
        "topics": [
            {
                "name": wanted.topic,
                "first_partition": wanted.first,
                "partitions": wanted.first + len(wanted.rows),
                "replication_factor": len(wanted.rows[0]),
                "configs": dict(wanted.configs),
                "replicas": {
                    str(number): list(row) for number, row in enumerate(wanted.rows, wanted.first)
                },
            }
            for wanted in plan.wanted
        ],
        **totals_json(plan.totals),
    }


def replicas_text(row: tuple[int, ...], racks: Mapping[int, str | None]) -> str:
    """``0:a 2:b 4:c``, or ``0 2 4`` where racks are not known or have long names."""
    names = {broker: racks.get(broker) for broker in row}
    longest = max((len(rack or "") for rack in racks.values()), default=0)
    if longest > _MOST_RACK or not any(racks.values()):
        return " ".join(map(str, row))
    return " ".join(
        f"{broker}:{names[broker] or '-'}" if broker >= 0 else str(broker) for broker in row
    )


def _heading(wanted: NewPartitions, placing: Placing) -> str:
    replicas = len(wanted.rows[0])
    copies = f"{replicas} replica{'s' if replicas > 1 else ''}"
    how = f"placed by {placing.name}"
    if placing.seed is not None:
        how += f", seed {placing.seed}"
    count = len(wanted.rows)
    if wanted.first:
        last = wanted.first + count - 1
        return f"{wanted.topic}: partitions {wanted.first} to {last} are new, {copies}; {how}"
    return f"{wanted.topic}: {count:,} partition{'s' if count > 1 else ''}, {copies}; {how}"


def _grid(cells: list[tuple[str, str]], width: int) -> Table:
    """Pairs side by side, down the first column and then the next."""
    left = max((len(number) for number, _ in cells), default=1)
    right = max((len(text) for _, text in cells), default=1)
    columns = max(1, min(len(cells), (min(width, 200) + _GAP) // (left + 2 + right + _GAP)))
    lines = -(-len(cells) // columns)
    grid = Table.grid(padding=(0, _GAP))
    for _ in range(columns):
        grid.add_column(no_wrap=True)
    for line in _lines(cells, lines, columns, left):
        grid.add_row(*line)
    return grid


def _lines(
    cells: list[tuple[str, str]], lines: int, columns: int, left: int
) -> Iterator[list[str]]:
    for line in range(lines):
        places = (line + column * lines for column in range(columns))
        yield [
            f"{cells[place][0]:>{left}}  {cells[place][1]}" if place < len(cells) else ""
            for place in places
        ]


MOST_PARTITIONS = 60
"""Partitions that are shown one by one, unless all are asked for."""

_MOST_FINDINGS = 6
_MOST_RACKS = 4
_MOST_RACK_NAMES = 12


@dataclass(frozen=True, slots=True)
class Description:
    """``topics``: those to show, in order; ``not_shown``: what this user may not see, and why;
    ``wanted``: what partitions with placeholders shall have."""

    state: ClusterState
    health: Health
    min_in_sync: Mapping[str, int]
    topics: tuple[str, ...]
    unhealthy_only: bool
    not_shown: tuple[str, ...]
    wanted: Mapping[TopicPartition, Wanted] = field(default_factory=dict)

    @property
    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The lists, with placeholders for what is still to come."""
        view = self.state.view
        return with_placeholders(view.replicas, self.wanted, view.racks())

    @property
    def totals(self) -> Totals:
        """What brokers and racks carry, by the preferred leaders, of all topics in the state."""
        return totals(self.state.view, self.state.view)


def show_description(
    found: Description, console: Console, *, limit: int, every: bool, named: bool
) -> None:
    """Print it: brokers, then topics, then partitions where these are few or named."""
    console.print(_headline(found), style="bold")
    console.print()
    if not named:
        console.print(_brokers(found))
        console.print()
    shown = found.topics[:limit] if limit else found.topics
    places = _places(found, shown)
    if shown:
        # A line each for people; in a pipe a topic is a line.
        console.print(_topics(found, shown, "\n" if console.is_terminal else ", "))
        console.print()
    if hidden := len(found.topics) - len(shown):
        console.print(f"... and {hidden:,} more topics: --limit 0 lists all, --match chooses\n")
    if places and (every or ((named or found.unhealthy_only) and len(places) <= MOST_PARTITIONS)):
        console.print(_partitions(found, places))
        console.print()
    elif places and (named or found.unhealthy_only):
        console.print(f"{len(places):,} partitions: --every-partition shows each\n")
    _findings(found, console)


def _headline(found: Description) -> str:
    state = found.state
    racks = {broker.rack for broker in state.view.brokers if broker.rack is not None}
    down = f" ({len(state.fenced)} down)" if state.fenced else ""
    return (
        f"{_count(len(state.view.brokers) + len(state.fenced), 'broker')}{down} in "
        f"{_count(len(racks), 'rack')}; {_count(len(state.topics), 'topic')}, "
        f"{_count(len(state.view.replicas), 'partition')}, "
        f"{_count(sum(map(len, state.view.replicas.values())), 'replica')}"
    )


def _brokers(found: Description) -> Table:
    carried, state = found.totals, found.state
    leads = Counter(state.view.leaders.values())
    live = state.view.racks()
    down = {broker.id: broker.rack for broker in state.fenced}
    made = table()
    made.add_column("rack", overflow="fold")
    made.add_column("broker", justify="right")
    made.add_column("address", overflow="fold")
    made.add_column("leaders", justify="right")
    made.add_column("replicas", justify="right")
    everyone = {**{b: r for b, (r, _) in carried.brokers.items()}, **down}
    many = len(everyone) > MOST_BROKERS
    for rack in sorted(set(everyone.values()), key=lambda each: (each is None, each or "")):
        members = sorted(broker for broker, its in everyone.items() if its == rack)
        holds = {
            b: carried.brokers[b][1].replicas_after if b in carried.brokers else 0 for b in members
        }
        if many:
            absent = sum(broker not in live for broker in members)
            note = f"{absent} down" if absent else ""
            made.add_row(
                NO_RACK if rack is None else rack,
                f"{len(members)} brokers",
                Text(note, style="red"),
                _range([leads[broker] for broker in members]),
                _range(list(holds.values())),
            )
            continue
        for number, broker in enumerate(members):
            address = Text(state.addresses.get(broker, ""))
            if broker not in live:
                address = Text("down", style="red")
            made.add_row(
                "" if number else (NO_RACK if rack is None else rack),
                str(broker),
                address,
                f"{leads[broker]:,}",
                f"{holds[broker]:,}",
            )
    return made


def _topics(found: Description, shown: tuple[str, ...], between: str) -> Table:
    racks = sorted({b.rack for b in found.state.view.brokers if b.rack is not None})
    by_rack = len(racks) <= _MOST_RACKS and sum(map(len, racks)) <= _MOST_RACK_NAMES and racks
    made = table()
    made.add_column("topic", overflow="fold")
    made.add_column("parti-\ntions", justify="right")
    made.add_column("repli-\ncas", justify="right")
    made.add_column("min in\nsync", justify="right")
    if by_rack:
        made.add_column("leaders in\n" + " / ".join(racks), justify="right")
    made.add_column("notes")
    rows: dict[str, list[TopicPartition]] = {name: [] for name in shown}
    for place in found.state.view.replicas:
        if place.topic in rows:
            rows[place.topic].append(place)
    of_broker = found.state.view.racks()
    noted: dict[str, Counter[Note]] = {name: Counter() for name in shown}
    for place, notes in found.health.notes.items():
        if place.topic in noted:
            noted[place.topic].update(notes)
    for name, places in rows.items():
        view = found.state.view
        factors = {len(view.replicas[place]) for place in places}
        cells = [f"{len(places):,}", "-".join(map(str, sorted({min(factors), max(factors)})))]
        least = found.min_in_sync.get(name)
        cells.append("?" if least is None else str(least))
        if by_rack:
            led = Counter(of_broker.get(view.leaders.get(place, -1)) for place in places)
            cells.append(" / ".join(str(led[rack]) for rack in racks))
        made.add_row(name, *cells, _notes(noted[name], len(places), between))
    return made


def _notes(noted: Counter[Note], partitions: int, between: str) -> Text:
    told = [
        note.value if noted[note] == partitions else f"{noted[note]:,} {note.value}"
        for note in Note
        if noted[note]
    ]
    unhealthy = any(note.unhealthy for note in noted)
    return Text(between.join(told) or "healthy", style="red" if unhealthy else "")


def _places(found: Description, shown: tuple[str, ...]) -> list[TopicPartition]:
    if found.unhealthy_only:
        ill = set(found.health.unhealthy())
        return [place for place in found.state.view.replicas if place in ill]
    chosen = set(shown)
    return [place for place in found.state.view.replicas if place.topic in chosen]


def _partitions(found: Description, places: list[TopicPartition]) -> Table:
    several = len({place.topic for place in places}) > 1
    view = found.state.view
    racks = {**view.racks(), **{broker.id: broker.rack for broker in found.state.fenced}}
    made = table()
    if several:
        made.add_column("topic", overflow="fold")
    made.add_column("parti-\ntion", justify="right")
    made.add_column("leader", justify="right")
    made.add_column("replicas")
    made.add_column("not in\nsync")
    made.add_column("notes")
    before = None
    lists = found.replicas
    for place in places:
        replicas = lists[place]
        held = view.replicas[place]
        behind = [broker for broker in held if broker not in found.state.in_sync[place]]
        leader = view.leaders.get(place)
        cells = [
            str(place.partition),
            "none" if leader is None else str(leader),
            replicas_text(replicas, racks),
            " ".join(map(str, behind)),
        ]
        if several:
            cells.insert(0, "" if place.topic == before else place.topic)
        made.add_row(*cells, _remarks(found, place))
        before = place.topic
    return made


def _remarks(found: Description, place: TopicPartition) -> Text:
    told = []
    notes = found.health.notes.get(place, ())
    for note in notes:
        if note is Note.MOVING:
            ongoing = found.state.ongoing[place]
            ways = [f"+{broker}" for broker in ongoing.adding]
            ways += [f"-{broker}" for broker in ongoing.removing]
            told.append(f"moving {' '.join(ways)}")
        elif note is not Note.UNDER_REPLICATED:
            # That has a column of its own.
            told.append(note.value)
    return Text(", ".join(told), style="red" if any(n.unhealthy for n in notes) else "")


def _findings(found: Description, console: Console) -> None:
    for finding in found.health.findings[:_MOST_FINDINGS]:
        subject = "" if finding.message.startswith(finding.subject) else f"{finding.subject}: "
        console.print(Text(f"{finding.severity.value}: {subject}{finding.message}"))
    if (hidden := len(found.health.findings) - _MOST_FINDINGS) > 0:
        console.print(f"... and {hidden:,} more such findings: rackward placement check")
    if not found.topics:
        console.print("No unhealthy topics." if found.unhealthy_only else "No topics.")
    for reason in found.not_shown:
        console.print(Text(f"Not shown: {reason}"))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _range(figures: list[int]) -> str:
    least, most = min(figures), max(figures)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


# ---- A description of topics as JSON.


def describe_json(found: Description) -> dict[str, Any]:
    """The fields of the command's JSON; every partition, or every unhealthy one, is there."""
    state = found.state
    ill = set(found.health.unhealthy())
    places: dict[str, list[TopicPartition]] = {name: [] for name in found.topics}
    for place in state.view.replicas:
        if place.topic in places and (place in ill or not found.unhealthy_only):
            places[place.topic].append(place)
    unhealthy = Counter(place.topic for place in ill)
    lists = found.replicas
    return {
        "cluster_id": state.cluster_id,
        "brokers": _brokers_json(found),
        "racks": _racks(found),
        "topics": [
            {
                "name": name,
                "id": state.topic_ids[name],
                "internal": name in state.internal,
                "min_in_sync": found.min_in_sync.get(name),
                "unhealthy": unhealthy[name],
                "partitions": [_partition(found, place, lists[place]) for place in places[name]],
            }
            for name in found.topics
        ],
        "findings": [
            {
                "severity": finding.severity.value,
                "kind": finding.kind.value,
                "subject": finding.subject,
                "message": finding.message,
            }
            for finding in found.health.findings
        ],
        "not_shown": list(found.not_shown),
    }


def _partition(
    found: Description, place: TopicPartition, replicas: tuple[int, ...]
) -> dict[str, Any]:
    ongoing = found.state.ongoing.get(place)
    return {
        "partition": place.partition,
        "leader": found.state.view.leaders.get(place),
        "replicas": list(replicas),
        "in_sync": list(found.state.in_sync[place]),
        "notes": [note.value for note in found.health.notes.get(place, ())],
        "adding": [] if ongoing is None else list(ongoing.adding),
        "removing": [] if ongoing is None else list(ongoing.removing),
    }


def _brokers_json(found: Description) -> list[dict[str, Any]]:
    state = found.state
    leads = Counter(state.view.leaders.values())
    holds = Counter(broker for row in state.view.replicas.values() for broker in row)
    live = state.view.racks()
    known = {**{broker.id: broker.rack for broker in state.fenced}, **live}
    return [
        {
            "id": broker,
            "rack": known.get(broker),
            "address": state.addresses.get(broker),
            "live": broker in live,
            "leaders": leads[broker],
            "replicas": holds[broker],
        }
        for broker in sorted({*known, *holds})
    ]


def _racks(found: Description) -> list[dict[str, Any]]:
    per_rack: dict[str | None, dict[str, Any]] = {}
    for broker in _brokers_json(found):
        rack = per_rack.setdefault(
            broker["rack"], {"rack": broker["rack"], "brokers": 0, "leaders": 0, "replicas": 0}
        )
        rack["brokers"] += 1
        rack["leaders"] += broker["leaders"]
        rack["replicas"] += broker["replicas"]
    return [
        per_rack[rack] for rack in sorted(per_rack, key=lambda each: (each is None, each or ""))
    ]
