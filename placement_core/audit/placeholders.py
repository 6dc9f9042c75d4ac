"""Placeholders: replicas that were promised to a topic and that no broker holds yet (KIP-409)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from placement_core.audit.model import Finding, Kind, Severity
from placement_core.audit.subject import Subject, by_topic, numbers
from placement_core.cluster import TopicPartition
from placement_core.filling import Wanted, held_by


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
