"""The explanation of a group's off-rack partitions, as text of 80 columns and as JSON."""

from __future__ import annotations

import shlex
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from assignors.explain import (
    LocalityFinding,
    Reason,
    Remedy,
    RemedyKind,
    partition_ranges,
    reason_text,
    remedy_text,
)
from rackward.cli.console import escape_controls, table
from rackward.cli.render.plan import NO_RACK
from rackward.groups.explain import ExplainedGroup
from rackward.groups.readers import assigned_by_rackward
from rackward.kafka.groups import Group
from rackward.units import format_count

_MAX_TOPICS = 4
_MAX_RACKS = 20
_MAX_BETTER_MEMBERS = 3


def show_explanation(explained: ExplainedGroup, console: Console, mapping: str | None) -> None:
    """Print the locality now and at best, then why it is not better.

    ``mapping`` is the option ``--mapping``, for the commands that are recommended.
    """
    explanation = explained.explanation
    console.print(_headline(explained), style="bold")
    for line in _leader_lines(explained.group):
        console.print(line)
    console.print()
    best = f"{explanation.optimum:,} off-rack if balanced, with these members and leaders"
    if not explained.uses_rackward:
        best += "; its own assignor has no regard to leaders"
    if explanation.uneven:
        best += "; the assignment now is not balanced"
    console.print(
        f"Locality now    {_locality(explanation.off_rack, explanation.partitions)}  "
        f"{explanation.off_rack:,} of {format_count(explanation.partitions, 'partition')} off-rack",
        style="bold",
    )
    console.print(
        f"At best         {_locality(explanation.optimum, explanation.partitions)}  {best}"
    )
    if followers := explained.read_from_followers:
        console.print(
            f"From followers  {format_count(followers, 'partition')} in the member's rack: brokers "
            "have a replica selector"
        )
    if explained.rackless_members:
        members = format_count(explained.rackless_members, "member")
        console.print(f"The racks of {members} are unknown: see --mapping", style="yellow")
    console.print()
    console.print(_rack_table(explained))
    console.print()
    if not explanation.findings:
        console.print("Every partition is read in its member's rack.")
        return
    console.print(_finding_table(explained, wide=console.soft_wrap))
    for line in _recommended_commands(explained, mapping):
        # Without wrapping, so that commands can be copied.
        console.print(line, soft_wrap=True)


def _headline(explained: ExplainedGroup) -> str:
    racks = {rack for rack in explained.racks.values() if rack}
    return (
        f"Group {escape_controls(explained.group.id)}: "
        f"{format_count(len(explained.racks), 'member')} in "
        f"{format_count(len(racks), 'rack') if racks else 'unknown racks'}, "
        f"{format_count(explained.explanation.partitions, 'partition')} "
        f"of {format_count(len(explained.topics), 'topic')}"
    )


def _leader_lines(group: Group) -> list[str]:
    """Return the group's assignor, and who leads the group as far as it is known."""
    lines = [f"Assignor: {escape_controls(group.protocol or 'unknown')}"]
    if group.leader is not None:
        lines.append(f"Leader:   rackward lead, member {escape_controls(group.leader)}")
    if group.waiting:
        state = "another one of them leads" if group.leader else "another member leads"
        ids = ", ".join(map(escape_controls, group.waiting))
        lines.append(f"Waiting:  rackward lead, member {ids}: {state}")
    return lines


def _locality(off_rack: int, partitions: int) -> str:
    share = 1 - off_rack / partitions if partitions else 1.0
    return f"{100 * share:5.1f} %"


def _rack_table(explained: ExplainedGroup) -> Table:
    rows = table()
    rows.add_column("rack", overflow="fold")
    for name in ("leaders", "members", "assigned", "local"):
        rows.add_column(name, justify="right")
    localities = explained.locality_by_rack()
    for each in localities[:_MAX_RACKS]:
        counts = (each.leaders, each.members, each.reads, each.local)
        name = NO_RACK if each.rack is None else escape_controls(each.rack)
        rows.add_row(name, *(f"{count:,}" for count in counts))
    if len(localities) > _MAX_RACKS:
        rows.add_row(f"... and {len(localities) - _MAX_RACKS:,} more")
    return rows


def _finding_table(explained: ExplainedGroup, *, wide: bool) -> Table:
    """Return the table of findings; ``wide``: as wide as its text, else as the terminal."""
    rows = table()
    rows.add_column("parti-\ntions", justify="right")
    rows.add_column("why they are not read locally", ratio=1, overflow="fold")
    rows.add_column("remedies", ratio=1)
    rows.expand = not wide
    for index, finding in enumerate(explained.explanation.findings):
        if index:
            rows.add_row()
        reason = Text(_sentence(finding_text(explained.group, finding)))
        reason.append("\n" + "\n".join(_partition_lines(finding)), style="dim")
        remedies = [
            _sentence(recommendation_text(explained, remedy)) for remedy in finding.remedies
        ]
        rows.add_row(f"{finding.count:,}", reason, "\nOr: ".join(remedies))
    return rows


def _partition_lines(finding: LocalityFinding) -> list[str]:
    topics = list(finding.partitions.items())
    lines = [
        f"{escape_controls(topic)}: {partition_ranges(numbers)}"
        for topic, numbers in topics[:_MAX_TOPICS]
    ]
    if others := topics[_MAX_TOPICS:]:
        count = sum(len(numbers) for _, numbers in others)
        lines.append(f"and {count:,} of {format_count(len(others), 'more topic')}")
    return lines


def finding_text(group: Group, finding: LocalityFinding) -> str:
    """Return `assignors.explain.reason_text` with the name of the group's assignor."""
    if finding.reason is not Reason.NOT_OPTIMAL:
        return escape_controls(reason_text(finding))
    if assigned_by_rackward(group):
        return (
            "other members could read them locally: leaders or racks have changed since the "
            "assignment, or the group uses weights"
        )
    protocol = escape_controls(group.protocol or "unknown")
    return (
        f"other members could read them locally: the group's assignor ({protocol}) does not "
        "consider the racks of leaders"
    )


def recommendation_text(explained: ExplainedGroup, remedy: Remedy) -> str:
    """Return `assignors.explain.remedy_text` with the names of assignors, and missing replicas."""
    group = escape_controls(shlex.quote(explained.group.id))
    if remedy.kind is RemedyKind.REBALANCE:
        after = f": {remedy.off_rack_after} off-rack at best"
        if explained.uses_rackward:
            return f"rebalance the group (rackward groups rebalance {group}){after}"
        return (
            f"use the assignor {explained.reference}, or lead the group (rackward lead {group})"
            f"{after}"
        )
    if remedy.kind is RemedyKind.SET_MEMBER_RACK and not explained.uses_rackward:
        return _rack_recommendation(explained, remedy)
    missing = explained.count_without_replica(remedy)
    note = f" ({missing:,} have no replica there)" if missing else ""
    return escape_controls(remedy_text(remedy)) + note


def _rack_recommendation(explained: ExplainedGroup, remedy: Remedy) -> str:
    """Return how members of other assignors get a rack, as far as their protocol permits."""
    members = "this member" if len(remedy.members) == 1 else "these members"
    can_send = {each.can_send_rack for each in explained.group.members if each.id in remedy.members}
    if can_send == {True}:
        return f"set client.rack of {members}, or give their racks with --mapping"
    if can_send == {False}:
        return f"give the racks of {members} with --mapping: their client does not send one"
    return f"give the racks of {members} with --mapping, or set client.rack where clients send it"


def _recommended_commands(explained: ExplainedGroup, mapping: str | None) -> list[str]:
    lines = []
    findings = explained.explanation.findings
    kinds = {remedy.kind for finding in findings for remedy in finding.remedies}
    if RemedyKind.MOVE_LEADERS in kinds or RemedyKind.FIT_LEADERS in kinds:
        command = ["rackward", "leaders", "plan", "--group", explained.group.id]
        if mapping is not None:
            command += ["--mapping", mapping]
        lines += [
            "",
            "To move leaders, as far as replicas and other groups permit:",
            f"  {escape_controls(shlex.join([*command, '-o', 'leaders.json']))}",
            "  rackward leaders apply leaders.json",
        ]
        if explained.uses_rackward:
            rebalance = shlex.join(["rackward", "groups", "rebalance", explained.group.id])
            lines.append(f"  {escape_controls(rebalance)}")
    better = [
        f"{escape_controls(topic)}-{number} to {_member_name(explained, member)}"
        for finding in findings
        for (topic, number), member in finding.better_members.items()
    ]
    if better:
        shown, more = ", ".join(better[:_MAX_BETTER_MEMBERS]), len(better) - _MAX_BETTER_MEMBERS
        lines += ["", f"Better: {shown}{f' and {more:,} more' if more > 0 else ''}."]
    return lines


def _member_name(explained: ExplainedGroup, member_id: str) -> str:
    member = next(each for each in explained.group.members if each.id == member_id)
    rack = explained.racks[member_id]
    name = (member.instance_id or member.client_id) + (f" in {rack}" if rack else "")
    return escape_controls(name)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


# JSON.


def explanation_json(explained: ExplainedGroup) -> dict[str, Any]:
    """Return the fields of the command's JSON."""
    group, explanation = explained.group, explained.explanation
    return {
        "group": group.id,
        "type": group.type,
        "state": group.state,
        "protocol": group.protocol,
        "assignor": group.protocol,
        "reference_assignor": explained.reference,
        "leader": group.leader,
        "waiting": list(group.waiting),
        "partitions": explanation.partitions,
        "local": explanation.local,
        "off_rack": explanation.off_rack,
        "unknown": explanation.unknown,
        "unread": explanation.unread,
        "optimum": explanation.optimum,
        "uneven": explanation.uneven,
        "read_from_followers": explained.read_from_followers,
        "racks": [
            {
                "rack": each.rack,
                "leaders": each.leaders,
                "members": each.members,
                "reads": each.reads,
                "local": each.local,
            }
            for each in explained.locality_by_rack()
        ],
        "members": [
            {
                "id": member.id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "rack": explained.racks[member.id],
                "partitions": sum(map(len, member.assignment.values())),
                "local": explained.local_partitions(member),
            }
            for member in group.members
        ],
        "findings": [_finding_json(explained, finding) for finding in explanation.findings],
    }


def _finding_json(explained: ExplainedGroup, finding: LocalityFinding) -> dict[str, Any]:
    return {
        "reason": finding.reason.value,
        "off_rack": finding.reason.off_rack,
        "why": finding_text(explained.group, finding),
        "rack": finding.rack,
        "count": finding.count,
        "led": finding.leaders_in_rack,
        "members_there": finding.members_in_rack,
        "load": finding.load_in_rack,
        "local": finding.local_in_rack,
        "members": list(finding.members),
        "partitions": {topic: list(numbers) for topic, numbers in finding.partitions.items()},
        "better": [
            {"topic": topic, "partition": number, "member": member}
            for (topic, number), member in finding.better_members.items()
        ],
        "remedies": [_remedy_json(explained, remedy) for remedy in finding.remedies],
    }


def _remedy_json(explained: ExplainedGroup, remedy: Remedy) -> dict[str, Any]:
    return {
        "kind": remedy.kind.value,
        "text": recommendation_text(explained, remedy),
        "off_rack_after": remedy.off_rack_after,
        "rack": remedy.rack,
        "count": remedy.count,
        "members": list(remedy.members),
        "topics": list(remedy.topics),
        "brokers": list(remedy.brokers),
        "without_replica": explained.count_without_replica(remedy),
        "moves": [
            {"rack": rack, "partitions": {t: list(ns) for t, ns in partitions.items()}}
            for rack, partitions in remedy.moves.items()
        ],
    }
