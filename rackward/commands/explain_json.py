"""An explained group as JSON."""

from __future__ import annotations

from typing import Any

from assignors.explaining import Finding
from rackward.commands.explain_output import mend_text, why_text
from rackward.commands.explained_group import ExplainedGroup


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
