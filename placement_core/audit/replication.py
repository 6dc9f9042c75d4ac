"""Checks of replication: availability now, after the loss of a rack, and unfilled placeholders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from placement_core.audit.model import (
    AuditInput,
    Finding,
    Kind,
    Partitions,
    Severity,
    format_partitions,
    group_by_topic,
)
from placement_core.cluster import TopicPartition
from placement_core.errors import format_brokers
from placement_core.racks import parse_rack
from placement_core.under_replication import ReplicationTarget, counted_replicas

MAX_NAMED = 10
"""The maximum number of broker ids in a message."""


def unavailable_partitions(data: AuditInput) -> tuple[Partitions, Partitions, Partitions]:
    """Return the partitions that are offline, below min.insync.replicas, and under-replicated.

    The second list does not repeat the first; the third has all partitions that lack an in-sync
    replica.
    """
    offline, below, under = [], [], []
    for partition, replicas in data.view.replicas.items():
        in_sync = data.in_sync[partition]
        if partition not in data.leaders:
            offline.append(partition)
        elif len(in_sync) < data.min_isr[partition.topic]:
            below.append(partition)
        if len(in_sync) < len(replicas):
            under.append(partition)
    return offline, below, under


def availability_findings(
    data: AuditInput, offline: Partitions, below: Partitions, under: Partitions
) -> Iterator[Finding]:
    """Yield findings by topic about the lists of :func:`unavailable_partitions`."""
    for topic, partitions in group_by_topic(offline).items():
        holders = {b for partition in partitions for b in data.view.replicas[partition]}
        yield Finding(
            Severity.CRITICAL,
            Kind.OFFLINE,
            topic,
            f"{format_partitions(partitions)} without a leader: start "
            f"{format_brokers(holders, MAX_NAMED)} again, at least one that was in sync",
            tuple(partitions),
        )
    for topic, partitions in group_by_topic(below).items():
        yield Finding(
            Severity.CRITICAL,
            Kind.BELOW_MIN_IN_SYNC,
            topic,
            f"{format_partitions(partitions)} with fewer in-sync replicas than "
            f"min.insync.replicas={data.min_isr[topic]}, so that writes with acks=all fail: "
            f"{_remedy(data, partitions)}",
            tuple(partitions),
        )
    for topic, partitions in group_by_topic(under).items():
        yield Finding(
            Severity.WARNING,
            Kind.UNDER_REPLICATED,
            topic,
            f"{format_partitions(partitions)} with replicas that are not in sync: "
            f"{_remedy(data, partitions)}",
            tuple(partitions),
        )


def _remedy(data: AuditInput, partitions: Partitions) -> str:
    missing = {
        broker
        for partition in partitions
        for broker in set(data.view.replicas[partition]) - data.in_sync[partition]
    }
    if down := missing - data.racks.keys():
        return f"start {format_brokers(down, MAX_NAMED)} again, or reassign the replicas"
    if missing:
        return f"check why {format_brokers(missing, MAX_NAMED)} does not replicate"
    return "lower min.insync.replicas, or raise the replication factor"


def failure_domains(data: AuditInput) -> dict[str, frozenset[int]]:
    """Return the brokers of each rack and of each node above, without nodes that have all."""
    domains: dict[str, set[int]] = {}
    for broker, rack in data.racks.items():
        path = parse_rack(rack)
        if path is None:
            continue
        is_path = isinstance(rack, str) and rack.startswith("/")
        for level in range(1, len(path) + 1):
            name = "/" + "/".join(path[:level]) if is_path else path[0]
            domains.setdefault(name, set()).add(broker)
    return {
        name: frozenset(domains[name])
        for name in sorted(domains)
        if len(domains[name]) < len(data.racks)
    }


def partitions_lost_with(
    data: AuditInput, brokers: frozenset[int]
) -> tuple[Partitions, Partitions]:
    """Return the partitions that the loss of ``brokers`` would make unavailable.

    First those that have a leader now and would have no in-sync replica; then those that can be
    written now and would be below min.insync.replicas.
    """
    offline: Partitions = []
    below: Partitions = []
    for partition, in_sync in data.in_sync.items():
        if partition not in data.leaders:
            continue
        remaining = len(in_sync - brokers)
        if not remaining and in_sync:
            offline.append(partition)
        elif remaining < data.min_isr[partition.topic] <= len(in_sync):
            below.append(partition)
    return offline, below


def rack_loss_findings(
    domain: str, offline: Partitions, below: Partitions, sizes: Mapping[str, int]
) -> Iterator[Finding]:
    """Yield findings about the loss of a failure domain; ``sizes``: partitions per topic."""
    for kind, partitions, effect in (
        (Kind.RACK_LOSS_OFFLINE, offline, "without any replica"),
        (Kind.RACK_LOSS_BELOW_MIN_IN_SYNC, below, "with fewer than min.insync.replicas"),
    ):
        if partitions:
            yield Finding(
                Severity.WARNING,
                kind,
                f"rack {domain}",
                f"its loss leaves {_format_topics(partitions, sizes)} {effect}: spread the "
                "replicas over racks by a reassignment, with a higher replication factor if it "
                "is too low",
                tuple(sorted(partitions)),
            )


def _format_topics(partitions: Partitions, sizes: Mapping[str, int]) -> str:
    topics = group_by_topic(partitions)
    first = ", ".join(
        f"{format_partitions(of_topic, sizes[topic])} of {topic}"
        for topic, of_topic in list(topics.items())[:3]
    )
    more = len(topics) - 3
    return first + (f" and partitions of {more} more topics" if more > 0 else "")


def placeholder_findings(
    data: AuditInput, targets: Mapping[TopicPartition, ReplicationTarget]
) -> Iterator[Finding]:
    """Yield findings by topic about placeholders: replicas that no broker holds yet (KIP-409)."""
    missing: dict[TopicPartition, int] = {}
    for partition in sorted(targets.keys() & data.view.replicas.keys()):
        target = targets[partition]
        counted = counted_replicas(data.view.replicas[partition], target, data.racks)
        if len(counted) < target.replication_factor:
            missing[partition] = target.replication_factor - len(counted)
    racks = sorted({rack for rack in data.racks.values() if rack is not None})
    live = len(data.racks)
    for topic, partitions in group_by_topic(missing).items():
        required = max(targets[partition].replication_factor for partition in partitions)
        if live < required:
            in_racks = f" in rack{'s' if len(racks) != 1 else ''} {', '.join(racks)}"
            remedy = (
                f"{live} live broker{'s' if live != 1 else ''}{in_racks if racks else ''}, but "
                f"{required} are needed: start {required - live} more, best in a rack without any"
            )
        else:
            remedy = "there are enough brokers: check that rackward controller is running"
        counts = Counter(missing[partition] for partition in partitions)
        maximum = max(counts)
        yield Finding(
            Severity.WARNING,
            Kind.PLACEHOLDERS,
            topic,
            f"{format_partitions(partitions)} with placeholders for "
            f"{'up to ' if len(counts) > 1 else ''}{maximum} replica{'s' if maximum != 1 else ''} "
            f"each; {remedy}",
            tuple(partitions),
        )
