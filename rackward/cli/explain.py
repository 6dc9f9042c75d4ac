"""``rackward groups explain``: why groups read from other racks, and remedies."""

from __future__ import annotations

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assignors.explain import RemedyKind, partition_ranges
from rack_traffic.advice import command, layout_step
from rackward.cli import options
from rackward.cli.live import step_reporter
from rackward.cli.options import ClusterOptions
from rackward.cli.output import (
    escape_controls,
    number,
    print_json,
    rack_name,
    stderr,
    stdout,
    table,
    text,
)
from rackward.groups.explain import (
    FindingRow,
    GroupExplanation,
    check_explainable,
    explain_live_group,
)
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import select_groups
from rackward.kafka import read_state
from rackward.kafka.groups import SHARE, STREAMS
from rackward.kafka.tolerant_reader import TolerantReader
from rackward.units import format_count

EPILOG = """
\b
Examples:
  rackward groups explain billing
  rackward groups explain billing --mapping 10.0.1.0/24=az1,10.0.2.0/24=az2

A partition is off-rack if the rack that it is read from is known and is not that of the member that
reads it. Such partitions are listed by reason, with remedies that the group's protocol permits. "At
best" is the optimum that rackward's assignor reaches with balanced loads, computed exactly; the
figure of a remedy is the optimum after this remedy alone. See docs/audit.md.

A group may use any client and must be stable. Nothing is changed. In a share group, a partition
counts once for each member that reads it. With a pattern, such as 'orders-*', groups that cannot be
explained are named on stderr.

Exit status: 0 success; 2 error (reason on stderr), such as a named group that does not exist, has
no members, is rebalancing, or is not a group of consumers, and a pattern that matches none.
"""

UNKNOWN = "unknown"

_MAX_TOPICS = 4
_MAX_RACKS = 20
_MAX_BETTER_MEMBERS = 3


class Skipped(msgspec.Struct, frozen=True):
    """A group that could not be explained."""

    group: str
    reason: str


class Explanations(msgspec.Struct, frozen=True):
    """Several groups, or those that a pattern matches. One name gives a `GroupExplanation`."""

    groups: list[GroupExplanation]
    skipped: list[Skipped]


RESULTS = (GroupExplanation, Explanations)


def explain(
    groups: options.Groups,
    *,
    mapping: options.RackMapping = None,
    as_json: options.Json = False,
    cluster: ClusterOptions,
) -> None:
    """Explain why partitions of groups are read from other racks, and list remedies.

    Shows the locality of each group now and at best, then its off-rack partitions by reason.
    """
    host_racks = HostRacks.parse_option("--mapping", mapping)
    explained: list[GroupExplanation] = []
    progress = step_reporter(stderr())
    with cluster.connect() as admin:
        brokers = read_state(admin, (), reassignments=False).view.racks()
        selected, refused = select_groups(admin, brokers, groups, check_explainable)
        reader = TolerantReader(admin)
        selectors = reader.replica_selectors(sorted(brokers))
        for index, live in enumerate(selected):
            progress(f"Explaining groups: {index:,} of {len(selected):,}")
            group = explain_live_group(admin, live, host_racks, selectors)
            explained.append(group.summary(mapping))
    explained.sort(key=lambda group: (-group.off_rack, group.group))
    if as_json:
        single = len(groups) == 1 and "*" not in groups[0]
        skipped = [Skipped(*each) for each in refused.items()]
        print_json("groups explain", explained[0] if single else Explanations(explained, skipped))
        return
    console = stdout()
    for index, shown in enumerate(explained):
        if index:
            console.print()
        show_explanation(shown, console, mapping)
    for reason in refused.values():
        stderr().print(f"Not explained: {reason}", style="yellow")
    for fault in reader.faults:
        stderr().print(f"Assumed that consumers read from leaders: {fault}", style="yellow")


# ---- The explanation as text of 80 columns.


def show_explanation(group: GroupExplanation, console: Console, mapping: str | None) -> None:
    """Print the locality now and at best, then why it is not better.

    ``mapping`` is the option ``--mapping``, for the commands that are recommended.
    """
    rackless = sum(member.rack is None for member in group.members)
    racks = {member.rack for member in group.members} - {None}
    console.print(
        f"Group {group.group}: {format_count(len(group.members), 'member')} in "
        f"{format_count(len(racks), 'rack') if racks else 'unknown racks'}, "
        f"{format_count(group.partitions, 'partition')} of {format_count(group.topics, 'topic')}",
        style="bold",
    )
    if group.type in (SHARE, STREAMS):
        console.print(f"Type:     {group.type} group, assigned by brokers")
    else:
        console.print(f"Assignor: {group.protocol or 'unknown'}")
    if group.leader is not None:
        console.print(f"Leader:   rackward lead, member {group.leader}")
    if group.waiting:
        leading = "another one of them leads" if group.leader else "another member leads"
        ids = ", ".join(group.waiting)
        console.print(f"Waiting:  rackward lead, member {ids}: {leading}")
    console.print()
    best = f"{group.optimum:,} off-rack if balanced, with these members and leaders"
    if group.type == SHARE:
        best = f"{group.optimum:,} off-rack with these leaders: brokers assign share groups"
    elif not group.assigned_by_rackward:
        best += "; the group's assignor ignores leader racks"
    if group.uneven:
        best += "; the assignment now is not balanced"
    unknown = group.unknown + group.unread
    counts = f"{group.off_rack:,} of {format_count(group.partitions, 'partition')} off-rack"
    if unknown:
        counts += f", {unknown:,} unknown"
    colour = "red" if group.off_rack else "" if unknown else "green"
    console.print(
        f"Locality now    {_locality(group.off_rack, unknown, group.partitions)}  {counts}",
        style=f"bold {colour}",
    )
    at_best = _locality(group.optimum, group.unknown_at_best, group.partitions)
    console.print(
        f"At best         {at_best}  {best if at_best.strip() != UNKNOWN else ''}".rstrip()
    )
    if followers := group.read_from_followers:
        console.print(
            f"From followers  {format_count(followers, 'partition')} in the member's rack: brokers "
            "have a replica selector"
        )
    if rackless:
        members = format_count(rackless, "member")
        console.print(f"The racks of {members} are unknown: see --mapping", style="yellow")
    console.print()
    headings = ("leaders", "members", "assigned", "local", "off-rack", "unknown")
    rows = table("rack", *map(number, headings))
    for each in group.racks[:_MAX_RACKS]:
        of_rack = (each.leaders, each.members, each.reads, each.local, each.off_rack, each.unknown)
        rows.add_row(rack_name(each.rack), *map(text, of_rack))
    if len(group.racks) > _MAX_RACKS:
        rows.add_row(f"... and {len(group.racks) - _MAX_RACKS:,} more")
    console.print(rows)
    console.print()
    if not group.findings:
        console.print("Every partition is read in its member's rack.")
        return
    console.print("Partitions that are not read locally, and remedies", style="bold")
    console.print(_findings(group))
    for line in _recommended_commands(group, mapping):
        # Without wrapping, so that commands can be copied.
        console.print(line, soft_wrap=True)


def _locality(off_rack: int, unknown: int, partitions: int) -> str:
    """Return the share of partitions that are local; those that are unknown are not."""
    if partitions and unknown == partitions:
        return UNKNOWN
    share = (partitions - off_rack - unknown) / partitions if partitions else 1.0
    return f"{100 * share:5.1f} %"


def _findings(group: GroupExplanation) -> Table:
    """Return each reason with its partitions and remedies, beside the number of partitions."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for finding in group.findings:
        lines = Text(_sentence(finding.why))
        # The index of docs/audit.md.
        lines.append(f" ({finding.reason.value})", style="dim")
        lines.append("\n" + "\n".join(_partition_lines(finding)), style="dim")
        for index, remedy in enumerate(finding.remedies):
            lines.append(f"\n{'Or: ' if index else ''}{_sentence(remedy.text)}")
        grid.add_row(text(finding.count), lines)
    return grid


def _partition_lines(finding: FindingRow) -> list[str]:
    topics = list(finding.partitions.items())
    lines = [
        f"{escape_controls(topic)}: {partition_ranges(tuple(numbers))}"
        for topic, numbers in topics[:_MAX_TOPICS]
    ]
    if others := topics[_MAX_TOPICS:]:
        count = sum(len(numbers) for _, numbers in others)
        lines.append(f"and {count:,} of {format_count(len(others), 'more topic')}")
    return lines


def _recommended_commands(group: GroupExplanation, mapping: str | None) -> list[str]:
    lines = []
    for step in group.rack_steps:
        lines += ["", _sentence(step.text) + ":", *(f"  {line}" for line in step.lines)]
    kinds = {remedy.kind for finding in group.findings for remedy in finding.remedies}
    if RemedyKind.MOVE_LEADERS in kinds or RemedyKind.FIT_LEADERS in kinds:
        lines += ["", "To move leaders, as far as replicas and other groups permit:"]
        lines += [f"  {line}" for line in layout_step(group.group, mapping=mapping).lines]
        if group.assigned_by_rackward:
            lines.append(f"  {command('groups', 'rebalance', group.group)}")
    better = [each for finding in group.findings for each in finding.better]
    if better:
        members = {member.id: member for member in group.members}
        shown = []
        for each in better[:_MAX_BETTER_MEMBERS]:
            member = members[each.member]
            rack = f" in {member.rack}" if member.rack else ""
            name = member.instance_id or member.client_id
            shown.append(f"{each.topic}-{each.partition} to {name}{rack}")
        more = len(better) - len(shown)
        moves = ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
        lines += ["", f"Moves that would help: {moves}."]
    return lines


def _sentence(words: str) -> str:
    return escape_controls(words[:1].upper() + words[1:])
