"""A description of topics as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from placement_core import TopicPartition
from rackward.commands.describe_output import Description


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
        "brokers": _brokers(found),
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


def _brokers(found: Description) -> list[dict[str, Any]]:
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
    for broker in _brokers(found):
        rack = per_rack.setdefault(
            broker["rack"], {"rack": broker["rack"], "brokers": 0, "leaders": 0, "replicas": 0}
        )
        rack["brokers"] += 1
        rack["leaders"] += broker["leaders"]
        rack["replicas"] += broker["replicas"]
    return [
        per_rack[rack] for rack in sorted(per_rack, key=lambda each: (each is None, each or ""))
    ]
