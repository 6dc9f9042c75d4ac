"""What to do next for a live group, and why it reads across racks, in words.

The advice itself is that of :mod:`rack_traffic.advice`, which the report has as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from assignors.explain import LocalityFinding, Reason, Remedy, RemedyKind, reason_text, remedy_text
from rack_traffic.advice import (
    CLASSIC,
    OWN_PROTOCOLS,
    NextStep,
    StepKind,
    assigned_by_rackward,
    assignor_is_fixed,
    assignor_step,
    can_be_reassigned,
    command,
    fetch_rack_step,
    layout_step,
    rack_steps,
    reference_protocol,
)
from rackward.kafka.groups import Group, GroupKind, GroupMember
from rackward.units import format_brokers


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


def next_steps(
    group: Group,
    *,
    racks: Sequence[str],
    rackless_brokers: Sequence[int] = (),
    rackless: Sequence[GroupMember] = (),
    not_sending_rack: Sequence[GroupMember] = (),
    assignor_helps: bool = False,
    layout_helps: bool = False,
    sharing: Sequence[str] = (),
    mapping: str | None = None,
    co_partitioned: int = 0,
) -> tuple[NextStep, ...]:
    """Return what to do next for the group, in order; nothing if nothing would help.

    racks, rackless_brokers
        The racks of the brokers, sorted, and the live brokers without one.
    rackless
        The members whose rack is unknown.
    not_sending_rack
        The members that join without a rack, if brokers have a replica selector.
    assignor_helps
        Whether an assignment by the racks of leaders reads more partitions locally.
    layout_helps
        Whether moved leaders do, on top of that.
    sharing
        The other groups that the layout takes into account, sorted.
    mapping
        The option ``--mapping``, for the commands.
    co_partitioned
        Partitions that rackward's range assignor would read locally if it assigned each topic on
        its own.
    """
    steps = []
    if rackless_brokers:
        text = f"set broker.rack of {format_brokers(rackless_brokers)}"
        steps.append(NextStep(StepKind.SET_BROKER_RACK, text))
    if not_sending_rack and racks:
        steps.append(fetch_rack_step(group, not_sending_rack, racks))
    elif rackless and racks:
        steps.extend(rack_steps(group, rackless, racks, mapping))
    elif assignor_helps and can_be_reassigned(group):
        steps.append(assignor_step(group, next(iter(racks), "RACK"), mapping))
    if co_partitioned:
        steps.append(
            NextStep(
                StepKind.SEPARATE_TOPICS,
                f"co-partitioning costs {co_partitioned} partitions: unless topics are "
                "joined, set this option of the assignor",
                ("co_partitioned=False",),
            )
        )
    if layout_helps:
        steps.append(layout_step(group.id, sharing, mapping))
    return tuple(steps)


# ---- Why partitions are not read locally, and single remedies.


def leader_advice(group: Group) -> str:
    """Return why the group does not follow leaders that move, and what helps: a clause."""
    plan = layout_step(group.id).lines[0].removesuffix(" -o leaders.json")
    protocol = group.protocol or group.type
    if assignor_is_fixed(group):
        by = "Kafka Streams assigns" if group.type == CLASSIC else "the brokers assign"
        return (
            f"{by} its partitions ({protocol}), regardless of leader racks: move leaders to its "
            f"members with {plan}"
        )
    return (
        f"its assignor ({protocol}) ignores leader racks: {_assignor_advice(group)}, or move "
        f"leaders to its members with {plan}"
    )


def _assignor_advice(group: Group) -> str:
    """Return how the group is assigned by the racks of leaders: a clause."""
    step = assignor_step(group)
    if step.kind is StepKind.USE_ASSIGNOR:
        return f"{step.text}: {reference_protocol(group)}"
    return f"{step.text} ({step.lines[0]})"


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
        after = f"{remedy.off_rack_after} off-rack at best"
        if by_rackward:
            return f"rebalance the group ({command('groups', 'rebalance', group.id)}): {after}"
        return f"{_assignor_advice(group)}: {after}"
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
