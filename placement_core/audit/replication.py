"""What cannot be served, what has too few copies, and what a rack takes with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from placement_core.audit.model import (
    Finding,
    Kind,
    Partitions,
    Severity,
    Subject,
    brokers_named,
    by_topic,
    numbers,
)
from placement_core.cluster import TopicPartition
from placement_core.racks import parse_rack
from placement_core.under_replication import Wanted, held_by


def states(subject: Subject) -> tuple[Partitions, Partitions, Partitions]:
    """Partitions that are offline, below min.insync.replicas, and under-replicated.

    The second does not repeat the first; the third holds all that lack a replica in sync.
    """
    offline, below, under = [], [], []
    for partition, replicas in subject.view.replicas.items():
        in_sync = subject.in_sync[partition]
        if subject.leader(partition) is None:
            offline.append(partition)
        elif len(in_sync) < subject.least[partition.topic]:
            below.append(partition)
        if len(in_sync) < len(replicas):
            under.append(partition)
    return offline, below, under


def state_findings(
    subject: Subject, offline: Partitions, below: Partitions, under: Partitions
) -> Iterator[Finding]:
    """Findings by topic."""
    for topic, found in by_topic(offline).items():
        holders = {b for partition in found for b in subject.view.replicas[partition]}
        yield Finding(
            Severity.CRITICAL,
            Kind.OFFLINE,
            topic,
            f"{numbers(found)} without a leader: start {brokers_named(holders)} again, at least "
            "one that was in sync",
            tuple(found),
        )
    for topic, found in by_topic(below).items():
        yield Finding(
            Severity.CRITICAL,
            Kind.BELOW_MIN_IN_SYNC,
            topic,
            f"{numbers(found)} with fewer than min.insync.replicas={subject.least[topic]} in "
            f"sync, so that acks=all is refused: {_cure(subject, found)}",
            tuple(found),
        )
    for topic, found in by_topic(under).items():
        yield Finding(
            Severity.WARNING,
            Kind.UNDER_REPLICATED,
            topic,
            f"{numbers(found)} with replicas that are not in sync: {_cure(subject, found)}",
            tuple(found),
        )


def _cure(subject: Subject, partitions: Partitions) -> str:
    missing = {
        broker
        for partition in partitions
        for broker in set(subject.view.replicas[partition]) - subject.in_sync[partition]
    }
    gone = missing - subject.racks.keys()
    if gone:
        return f"start {brokers_named(gone)} again, or reassign what it held"
    if missing:
        return f"see why {brokers_named(missing)} does not follow"
    return "lower min.insync.replicas, or raise the replication factor"


def places(subject: Subject) -> dict[str, frozenset[int]]:
    """Each rack, and each node above the racks, to its brokers; but for what holds all brokers."""
    found: dict[str, set[int]] = {}
    for broker, rack in subject.racks.items():
        path = parse_rack(rack)
        if path is None:
            continue
        is_path = isinstance(rack, str) and rack.startswith("/")
        for level in range(1, len(path) + 1):
            name = "/" + "/".join(path[:level]) if is_path else path[0]
            found.setdefault(name, set()).add(broker)
    everything = len(subject.racks)
    return {name: frozenset(found[name]) for name in sorted(found) if len(found[name]) < everything}


def lost_with(subject: Subject, brokers: frozenset[int]) -> tuple[Partitions, Partitions]:
    """Partitions that are served now and, without ``brokers``, would have no replica in sync
    left; and those that are written now and would have too few."""
    offline: Partitions = []
    below: Partitions = []
    for partition, in_sync in subject.in_sync.items():
        if subject.leader(partition) is None:
            continue
        left = len(in_sync - brokers)
        if not left and in_sync:
            offline.append(partition)
        elif left < subject.least[partition.topic] <= len(in_sync):
            below.append(partition)
    return offline, below


def loss_findings(
    name: str, offline: Partitions, below: Partitions, sizes: dict[str, int]
) -> Iterator[Finding]:
    """Findings about the loss of the place ``name``."""
    for kind, found, what in (
        (Kind.RACK_LOSS_OFFLINE, offline, "without any replica"),
        (Kind.RACK_LOSS_BELOW_MIN_IN_SYNC, below, "with fewer than min.insync.replicas"),
    ):
        if found:
            yield Finding(
                Severity.WARNING,
                kind,
                f"rack {name}",
                f"its loss leaves {_topics(found, sizes)} {what}: spread their replicas over "
                "racks by a reassignment, with a higher replication factor where that is too low",
                tuple(sorted(found)),
            )


def _topics(partitions: list[TopicPartition], sizes: dict[str, int]) -> str:
    topics = by_topic(partitions)
    some = ", ".join(
        f"{numbers(found, sizes[topic])} of {topic}" for topic, found in list(topics.items())[:3]
    )
    more = len(topics) - 3
    return some + (f" and partitions of {more} more topics" if more > 0 else "")


# ---- Placeholders: replicas that were promised to a topic and that no broker holds yet (KIP-409).


def missing_replicas(
    subject: Subject, wanted: Mapping[TopicPartition, Wanted]
) -> dict[TopicPartition, int]:
    """Partition to its placeholders, where it has any."""
    found = {}
    for place in sorted(wanted.keys() & subject.view.replicas.keys()):
        want = wanted[place]
        held = held_by(subject.view.replicas[place], want, subject.racks)
        if len(held) < want.replication_factor:
            found[place] = want.replication_factor - len(held)
    return found


def placeholder_findings(
    subject: Subject, wanted: Mapping[TopicPartition, Wanted]
) -> Iterator[Finding]:
    """Findings by topic: what its placeholders wait for."""
    missing = missing_replicas(subject, wanted)
    racks = {rack for rack in subject.racks.values() if rack is not None}
    live = len(subject.racks)
    for topic, found in by_topic(list(missing)).items():
        most = max(missing[place] for place in found)
        needed = max(wanted[place].replication_factor for place in found)
        if live < needed:
            there = f"{live} live broker{'s' if live != 1 else ''}"
            where = f" in rack{'s' if len(racks) != 1 else ''} {', '.join(sorted(racks))}"
            waits = (
                f"there {'are' if live != 1 else 'is'} {there}{where if racks else ''}, and "
                f"{needed} are needed: start {needed - live} more, best in a rack that has none"
            )
        else:
            waits = "there are brokers enough: see that rackward controller runs"
        counts = Counter(missing[place] for place in found)
        lack = f"{most} replica{'s' if most != 1 else ''}"
        several = "" if len(counts) == 1 else "up to "
        yield Finding(
            Severity.WARNING,
            Kind.PLACEHOLDERS,
            topic,
            f"{numbers(found)} with placeholders for {several}{lack} each; {waits}",
            tuple(found),
        )
