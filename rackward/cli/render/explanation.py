"""An explained group as a screen of 80 columns."""

from __future__ import annotations

import shlex
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from assignors.explain import Finding, Reason, Remedy, RemedyKind, mend, numbers_text, why
from rackward.cli.console import table
from rackward.cli.render.load import NO_RACK
from rackward.group_explanation import ExplainedGroup
from rackward.units import count_text

_MOST_TOPICS = 4
_MOST_RACKS = 20
_MOST_BETTER = 3


def show_explanation(explained: ExplainedGroup, console: Console, mapping: str | None) -> None:
    """Print how local it is and could be, then why not more; ``mapping`` is the option given."""
    group, found = explained.group, explained.found
    console.print(_headline(explained), style="bold")
    console.print(Text(f"Assigned by {group.protocol or 'an unnamed assignor'}"))
    console.print()
    best = f"{found.optimum:,} off-rack, in balance, with these members and leaders"
    if found.uneven:
        best += "; now loads are less even"
    console.print(
        f"Locality now    {_locality(found.off_rack, found.partitions)}  "
        f"{found.off_rack:,} of {count_text(found.partitions, 'partition')} off-rack",
        style="bold",
    )
    console.print(f"At best         {_locality(found.optimum, found.partitions)}  {best}")
    if explained.silent:
        console.print(
            f"{count_text(explained.silent, 'member')} of this group "
            f"{'does' if explained.silent == 1 else 'do'} not say their rack: see --mapping",
            style="yellow",
        )
    console.print()
    console.print(_racks(explained))
    console.print()
    if not found.findings:
        console.print("Every partition is read in its leader's rack.")
        return
    console.print(_findings(explained))
    for line in _commands(explained, mapping):
        # A command that is broken into lines could not be copied.
        console.print(Text(line), soft_wrap=True)


def _headline(explained: ExplainedGroup) -> str:
    racks = {rack for rack in explained.racks.values() if rack}
    standing = count_text(len(racks), "rack") if racks else "unknown racks"
    return (
        f"Group {explained.group.id}: {count_text(len(explained.racks), 'member')} in "
        f"{standing}, {count_text(explained.found.partitions, 'partition')} "
        f"of {count_text(len(explained.topics), 'topic')}"
    )


def _locality(off_rack: int, partitions: int) -> str:
    share = 1 - off_rack / partitions if partitions else 1.0
    return f"{100 * share:5.1f} %"


def _racks(explained: ExplainedGroup) -> Table:
    made = table()
    made.add_column("rack", overflow="fold")
    for name in ("leaders", "members", "they read", "in their rack"):
        made.add_column(name, justify="right")
    shares = explained.shares()
    for each in shares[:_MOST_RACKS]:
        figures = (each.leaders, each.members, each.reads, each.local)
        made.add_row(
            NO_RACK if each.rack is None else each.rack, *(f"{figure:,}" for figure in figures)
        )
    if len(shares) > _MOST_RACKS:
        made.add_row(f"... and {len(shares) - _MOST_RACKS:,} more")
    return made


def _findings(explained: ExplainedGroup) -> Table:
    made = table()
    made.add_column("parti-\ntions", justify="right")
    made.add_column("why they are not read locally", ratio=1, overflow="fold")
    made.add_column("what would mend it", ratio=1)
    made.expand = True
    for at, each in enumerate(explained.found.findings):
        if at:
            made.add_row()
        reason = Text(_sentence(why_text(explained, each)))
        reason.append("\n" + "\n".join(_partitions(each)), style="dim")
        ways = [_sentence(mend_text(explained, remedy)) for remedy in each.remedies]
        made.add_row(f"{each.count:,}", reason, "\nOr: ".join(ways))
    return made


def _partitions(found: Finding) -> list[str]:
    topics = list(found.partitions.items())
    lines = [f"{topic}: {numbers_text(numbers)}" for topic, numbers in topics[:_MOST_TOPICS]]
    if left := topics[_MOST_TOPICS:]:
        count = sum(len(numbers) for _, numbers in left)
        lines.append(f"and {count:,} of {count_text(len(left), 'more topic')}")
    return lines


def why_text(explained: ExplainedGroup, found: Finding) -> str:
    """Why, with the name of the group's assignor; see `assignors.explain.why`."""
    if found.reason is not Reason.NOT_OPTIMAL:
        return why(found)
    if explained.ours:
        return (
            "other members could read them locally: leaders or racks have changed since they "
            "were assigned, or the group weighs its traffic"
        )
    return (
        f"the group's assignor, {explained.group.protocol or 'which has no name'}, does not look "
        "at the racks of leaders: other members could read them locally"
    )


def mend_text(explained: ExplainedGroup, remedy: Remedy) -> str:
    """What to do, and for leaders whether replicas permit it; see `assignors.explain.mend`."""
    if remedy.kind is RemedyKind.REBALANCE:
        after = f": {remedy.off_rack_after} off-rack at best"
        if explained.ours:
            return f"a rebalance, such as when a member restarts{after}"
        return f"assign by {explained.assignor}{after}"
    lacking = explained.without_replica(remedy)
    return mend(remedy) + (f" ({lacking:,} have no replica there)" if lacking else "")


def _commands(explained: ExplainedGroup, mapping: str | None) -> list[str]:
    """What to type for the remedies that this command line has."""
    lines = []
    kinds = {remedy.kind for each in explained.found.findings for remedy in each.remedies}
    if RemedyKind.MOVE_LEADERS in kinds:
        asked = ["rackward", "leaders", "plan", "--group", explained.group.id]
        if mapping is not None:
            asked += ["--mapping", mapping]
        lines += [
            "",
            "To move leaders, as far as replicas and other groups permit, and rebalance:",
            f"  {shlex.join([*asked, '-o', 'leaders.json'])}",
            "  rackward leaders apply leaders.json",
        ]
    better = [
        f"{topic}-{number} to {_name(explained, member)}"
        for each in explained.found.findings
        for (topic, number), member in each.better.items()
    ]
    if better:
        more = len(better) - _MOST_BETTER
        shown = ", ".join(better[:_MOST_BETTER])
        lines += ["", f"Better off: {shown}{f' and {more:,} more' if more > 0 else ''}."]
    return lines


def _name(explained: ExplainedGroup, member: str) -> str:
    """What people call a member, and where it is."""
    found = next(each for each in explained.group.members if each.id == member)
    rack = explained.racks[member]
    return (found.instance_id or found.client_id) + (f" in {rack}" if rack else "")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


# ---- An explained group as JSON.


def explanation_json(explained: ExplainedGroup) -> dict[str, Any]:
    """The fields of the command's JSON."""
    group, found = explained.group, explained.found
    return {
        "group": group.id,
        "type": group.type,
        "state": group.state,
        "protocol": group.protocol,
        "assignor": explained.assignor,
        "partitions": found.partitions,
        "local": found.local,
        "off_rack": found.off_rack,
        "unknown": found.unknown,
        "unread": found.unread,
        "optimum": found.optimum,
        "uneven": found.uneven,
        "racks": [
            {
                "rack": each.rack,
                "leaders": each.leaders,
                "members": each.members,
                "reads": each.reads,
                "local": each.local,
            }
            for each in explained.shares()
        ],
        "members": [
            {
                "id": each.id,
                "instance_id": each.instance_id,
                "client_id": each.client_id,
                "host": each.host,
                "rack": explained.racks[each.id],
                "partitions": sum(map(len, each.assignment.values())),
                "local": explained.local(each),
            }
            for each in group.members
        ],
        "findings": [_finding_json(explained, each) for each in found.findings],
    }


def _finding_json(explained: ExplainedGroup, found: Finding) -> dict[str, Any]:
    return {
        "reason": found.reason.value,
        "off_rack": found.reason.off_rack,
        "why": why_text(explained, found),
        "rack": found.rack,
        "count": found.count,
        "led": found.led,
        "members_there": found.members_there,
        "load": found.load,
        "local": found.local,
        "members": list(found.members),
        "partitions": {topic: list(numbers) for topic, numbers in found.partitions.items()},
        "better": [
            {"topic": topic, "partition": number, "member": member}
            for (topic, number), member in found.better.items()
        ],
        "remedies": [
            {
                "kind": each.kind.value,
                "text": mend_text(explained, each),
                "off_rack_after": each.off_rack_after,
                "rack": each.rack,
                "count": each.count,
                "members": list(each.members),
                "topics": list(each.topics),
                "brokers": list(each.brokers),
                "without_replica": explained.without_replica(each),
                "moves": [
                    {"rack": rack, "partitions": {t: list(ns) for t, ns in partitions.items()}}
                    for rack, partitions in each.moves.items()
                ],
            }
            for each in found.remedies
        ],
    }
