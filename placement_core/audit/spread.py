"""Replicas against the rack rules, and leaders that are not the preferred ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placement_core.audit.model import Finding, Kind, Severity
from placement_core.audit.subject import Partitions, Subject, brokers_named, by_topic, numbers
from placement_core.rack_shares import RackTree
from placement_core.racks import parse_rack


def rack_findings(subject: Subject) -> Iterator[Finding]:
    """Findings about the racks themselves."""
    without = {broker for broker, rack in subject.racks.items() if parse_rack(rack) is None}
    if without and len(without) < len(subject.racks):
        yield Finding(
            Severity.WARNING,
            Kind.RACK_UNKNOWN,
            brokers_named(without),
            f"{brokers_named(without)} of {len(subject.racks)} without broker.rack, others with, "
            "so that replicas cannot be spread over racks: set broker.rack everywhere",
        )
    known = {parse_rack(rack) for rack in subject.racks.values()}
    if len(subject.racks) > 1 and len(known) == 1:
        named = "no broker says its rack" if None in known else "all brokers stand in one rack"
        yield Finding(
            Severity.NOTICE,
            Kind.ONE_RACK,
            "cluster",
            f"{named}, so that rack rules ask for nothing: set broker.rack, if there are several",
        )


def rack_tree(subject: Subject) -> tuple[RackTree, dict[int, int]] | None:
    """The tree of racks and each broker's place in it; None unless all brokers have a rack."""
    paths = {broker: parse_rack(rack) for broker, rack in sorted(subject.racks.items())}
    known = [path for path in paths.values() if path is not None]
    if not known or len(known) < len(paths):
        return None
    return RackTree.of(known), {broker: place for place, broker in enumerate(paths)}


def against_rules(subject: Subject) -> Partitions | None:
    """Partitions whose replicas on known brokers could not be part of a lawful set; or None.

    With all replicas on known brokers, that is: whose set breaks the rules. More replicas
    than brokers cannot be judged and are passed over.
    """
    found = rack_tree(subject)
    if found is None:
        return None
    tree, place = found
    verdicts: dict[tuple[int, ...], bool] = {}
    broken = []
    for partition, replicas in subject.view.replicas.items():
        racks = sorted(int(tree.leaf[place[broker]]) for broker in replicas if broker in place)
        key = (len(replicas), *racks)
        if key not in verdicts:
            verdicts[key] = _lawful(tree, racks, len(replicas))
        if not verdicts[key]:
            broken.append(partition)
    return broken


def _lawful(tree: RackTree, racks: list[int], replicas: int) -> bool:
    if replicas > len(tree.leaf):
        return True
    least, most = tree.shares(replicas)
    counts = np.bincount(tree.nodes[racks].reshape(-1), minlength=len(least))[None, :]
    factor = np.array([replicas])
    return bool(tree.extendable(counts, least[None, :], most[None, :], factor)[0])


def rule_findings(subject: Subject, broken: Partitions) -> Iterator[Finding]:
    """Findings by topic about replicas that are not spread over racks."""
    racks = subject.racks
    for topic, found in by_topic(broken).items():
        replicas = subject.view.replicas[found[0]]
        where = ", ".join(f"{broker} in {racks[broker]}" for broker in replicas if broker in racks)
        yield Finding(
            Severity.WARNING,
            Kind.RACK_RULE,
            topic,
            f"{numbers(found)} not spread over racks as evenly as can be ({found[0].partition} is "
            f"on brokers {where}): plan a reassignment",
            tuple(found),
        )


def not_preferred(subject: Subject) -> Partitions:
    """Partitions with a leader that is not their first replica."""
    return [
        partition
        for partition, leader in subject.view.leaders.items()
        if subject.view.replicas.get(partition, (leader,))[0] != leader
    ]


def preferred_findings(subject: Subject, found: Partitions) -> Iterator[Finding]:
    """Findings by topic about leaders that are not preferred."""
    for topic, partitions in by_topic(found).items():
        wanted = {subject.view.replicas[partition][0] for partition in partitions}
        absent = wanted - subject.racks.keys()
        cure = (
            f"{brokers_named(absent)} is gone: start it again, or reassign"
            if absent
            else "elect preferred leaders"
        )
        yield Finding(
            Severity.NOTICE,
            Kind.NOT_PREFERRED,
            topic,
            f"{numbers(partitions)} not led by the preferred replica: {cure}",
            tuple(partitions),
        )
