"""The audit of a layout: all checks, and those of rack rules, preferred leaders and balance.

Balance is checked in two steps, so that each finding has one remedy:

- *Racks* are compared with the share that they have if all brokers carry the same, within what the
  rack rules permit: with as many replicas as racks, the brokers of a small rack must carry more.
  Uneven leaders of racks are a notice only, since a leader layout may intend them.
- *Brokers* are compared with the average of their rack.

A broker or a rack is uneven if it is off by more than the tolerance and by at least one replica or
leader per broker, since whole numbers cannot always be equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from placement_core.audit.model import (
    MAX_NAMED,
    Audit,
    AuditInput,
    Figures,
    Finding,
    Kind,
    Partitions,
    ReplicaCounts,
    Severity,
    availability_findings,
    failure_domains,
    format_partitions,
    group_by_topic,
    partitions_lost_with,
    placeholder_findings,
    rack_loss_findings,
    unavailable_partitions,
)
from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError, format_brokers
from placement_core.placers.under_replicated import ReplicationTarget
from placement_core.rack_bounds import RackTree
from placement_core.racks import parse_rack


def audit(
    view: ClusterView,
    *,
    in_sync: Mapping[TopicPartition, Collection[int]] | None = None,
    min_isr: int | Mapping[str, int] = 1,
    tolerance: float = 0.1,
    targets: Mapping[TopicPartition, ReplicationTarget] | None = None,
) -> Audit:
    """Return the figures of a layout and what is wrong or uneven in it.

    If ``view.leaders`` is None, preferred leaders on live brokers count as the current ones.

    in_sync
        The in-sync replicas of each partition. Default: all that are on live brokers.
    min_isr
        min.insync.replicas, for all topics or per topic (1 for a topic that is not in it).
    tolerance
        The share by which a broker or a rack may be off its fair share.
    targets
        Partitions that shall have more replicas than they were created with; each one that is
        missing is a placeholder.

    Raises InvalidOptionError if ``tolerance`` or ``min_isr`` is out of range.
    """
    if not 0 <= tolerance < float("inf"):
        raise InvalidOptionError(f"tolerance is {tolerance!r}: give a share, such as 0.1")
    data = AuditInput.of(view, in_sync, min_isr)
    offline, below, under = unavailable_partitions(data)
    violations = _rack_rule_violations(data)
    not_preferred = _not_preferred(data)
    by_broker, by_rack = _replica_counts(data)
    sizes = Counter(partition.topic for partition in view.replicas)
    findings = [*availability_findings(data, offline, below, under)]
    lost_offline, lost_below = {}, {}
    for domain, brokers in failure_domains(data).items():
        would_be_offline, would_be_below = partitions_lost_with(data, brokers)
        lost_offline[domain], lost_below[domain] = len(would_be_offline), len(would_be_below)
        findings += rack_loss_findings(domain, would_be_offline, would_be_below, sizes)
    findings += _rack_findings(data)
    findings += _rack_rule_findings(data, violations or [])
    findings += _balance_findings(data, by_broker, by_rack, tolerance)
    findings += _preferred_findings(data, not_preferred)
    findings += placeholder_findings(data, targets or {})
    severities = list(Severity)
    return Audit(
        figures=Figures(
            brokers=by_broker,
            racks=by_rack,
            partitions=len(view.replicas),
            replicas=sum(map(len, view.replicas.values())),
            offline=len(offline),
            below_min_in_sync=len(below),
            under_replicated=len(under),
            not_preferred=len(not_preferred),
            against_rack_rules=None if violations is None else len(violations),
            lost_offline=lost_offline,
            lost_below_min_in_sync=lost_below,
        ),
        findings=tuple(sorted(findings, key=lambda f: severities.index(f.severity))),
    )


def _rack_findings(data: AuditInput) -> Iterator[Finding]:
    """Yield findings about the racks themselves."""
    without = {broker for broker, rack in data.racks.items() if parse_rack(rack) is None}
    if without and len(without) < len(data.racks):
        brokers = format_brokers(without, MAX_NAMED)
        yield Finding(
            Severity.WARNING,
            Kind.RACK_UNKNOWN,
            brokers,
            f"{brokers} of {len(data.racks)} without broker.rack, others with, so that replicas "
            "cannot be spread over racks: set broker.rack everywhere",
        )
    known = {parse_rack(rack) for rack in data.racks.values()}
    if len(data.racks) > 1 and len(known) == 1:
        which = "no broker has a rack" if None in known else "all brokers are in one rack"
        yield Finding(
            Severity.NOTICE,
            Kind.ONE_RACK,
            "cluster",
            f"{which}, so that rack rules have no effect: set broker.rack if there are several",
        )


def _rack_tree(data: AuditInput) -> tuple[RackTree, dict[int, int]] | None:
    """Return the tree of racks and each broker's position in it; None if a rack is unknown."""
    paths = {broker: parse_rack(rack) for broker, rack in sorted(data.racks.items())}
    known = [path for path in paths.values() if path is not None]
    if not known or len(known) < len(paths):
        return None
    return RackTree.of(known), {broker: position for position, broker in enumerate(paths)}


def _rack_rule_violations(data: AuditInput) -> Partitions | None:
    """Return the partitions that violate the rack rules; None if a rack is unknown.

    A partition does if no set that satisfies the rules contains its replicas on live brokers. With
    more replicas than brokers it is not judged.
    """
    with_tree = _rack_tree(data)
    if with_tree is None:
        return None
    tree, position = with_tree
    verdicts: dict[tuple[int, ...], bool] = {}
    violations = []
    for partition, replicas in data.view.replicas.items():
        racks = sorted(int(tree.rack_of[position[b]]) for b in replicas if b in position)
        key = (len(replicas), *racks)
        if key not in verdicts:
            verdicts[key] = _satisfies_rules(tree, racks, len(replicas))
        if not verdicts[key]:
            violations.append(partition)
    return violations


def _satisfies_rules(tree: RackTree, racks: list[int], replicas: int) -> bool:
    """Return whether replicas in ``racks`` can be part of a valid set of ``replicas``."""
    if replicas > len(tree.rack_of):
        return True
    lower, upper = tree.bounds(replicas)
    counts = np.bincount(tree.nodes[racks].reshape(-1), minlength=len(lower))[None, :]
    return bool(tree.can_extend(counts, lower[None, :], upper[None, :], np.array([replicas]))[0])


def _rack_rule_findings(data: AuditInput, violations: Partitions) -> Iterator[Finding]:
    """Yield findings by topic."""
    racks = data.racks
    for topic, partitions in group_by_topic(violations).items():
        replicas = data.view.replicas[partitions[0]]
        where = ", ".join(f"{broker} in {racks[broker]}" for broker in replicas if broker in racks)
        yield Finding(
            Severity.WARNING,
            Kind.RACK_RULE,
            topic,
            f"{format_partitions(partitions)} not spread over racks as evenly as possible "
            f"({partitions[0].partition} is on brokers {where}): plan a reassignment",
            tuple(partitions),
        )


def _not_preferred(data: AuditInput) -> Partitions:
    """Return the partitions whose leader is not their first replica."""
    return [
        partition
        for partition, leader in data.view.known_leaders.items()
        if data.view.replicas.get(partition, (leader,))[0] != leader
    ]


def _preferred_findings(data: AuditInput, not_preferred: Partitions) -> Iterator[Finding]:
    """Yield findings by topic."""
    for topic, partitions in group_by_topic(not_preferred).items():
        preferred = {data.view.replicas[partition][0] for partition in partitions}
        down = preferred - data.racks.keys()
        remedy = (
            f"{format_brokers(down, MAX_NAMED)} is down: start it again, or reassign"
            if down
            else "elect preferred leaders"
        )
        yield Finding(
            Severity.NOTICE,
            Kind.NOT_PREFERRED,
            topic,
            f"{format_partitions(partitions)} not led by the preferred replica: {remedy}",
            tuple(partitions),
        )


def _replica_counts(
    data: AuditInput,
) -> tuple[dict[int, ReplicaCounts], dict[str | None, ReplicaCounts]]:
    """Return the counts of every live broker and every rack."""
    replicas: Counter[int] = Counter()
    leaders: Counter[int | None] = Counter()
    preferred: Counter[int] = Counter()
    for partition, row in data.view.replicas.items():
        replicas.update(row)
        preferred.update(row[:1])
        leaders[data.leaders.get(partition)] += 1
    by_broker = {
        broker: ReplicaCounts(1, replicas[broker], leaders[broker], preferred[broker])
        for broker in sorted(data.racks)
    }
    by_rack: dict[str | None, ReplicaCounts] = {}
    for rack in sorted(set(data.racks.values()), key=lambda rack: (rack is None, rack or "")):
        inside = [by_broker[broker] for broker, its_rack in data.racks.items() if its_rack == rack]
        by_rack[rack] = ReplicaCounts(
            len(inside),
            sum(counts.replicas for counts in inside),
            sum(counts.leaders for counts in inside),
            sum(counts.preferred for counts in inside),
        )
    return by_broker, by_rack


def _balance_findings(
    data: AuditInput,
    by_broker: Mapping[int, ReplicaCounts],
    by_rack: Mapping[str | None, ReplicaCounts],
    tolerance: float,
) -> Iterator[Finding]:
    """Yield findings about racks, then brokers, that are off their fair share."""
    sizes = {rack: counts.brokers for rack, counts in by_rack.items()}
    for kind, loads, bounds in (
        (
            Kind.UNEVEN_REPLICAS,
            {rack: counts.replicas for rack, counts in by_rack.items()},
            _replica_bounds(data),
        ),
        (Kind.UNEVEN_LEADERS, {rack: counts.leaders for rack, counts in by_rack.items()}, {}),
    ):
        for rack, fair in _fair_shares(sum(loads.values()), sizes, bounds).items():
            if _is_off(loads[rack], fair, tolerance, sizes[rack]):
                basis = "that a rack of its size has in an even layout"
                yield _uneven(kind, _rack_name(rack), loads[rack], fair, basis, is_rack=True)
    for broker, counts in by_broker.items():
        of_rack = by_rack[data.racks[broker]]
        for kind, load, total in (
            (Kind.UNEVEN_REPLICAS, counts.replicas, of_rack.replicas),
            (Kind.UNEVEN_LEADERS, counts.leaders, of_rack.leaders),
        ):
            fair = total / of_rack.brokers
            if _is_off(load, fair, tolerance, 1):
                basis = f"that the brokers of {_rack_name(data.racks[broker])} have on average"
                yield _uneven(kind, f"broker {broker}", load, fair, basis, is_rack=False)


def _fair_shares(
    total: int,
    sizes: Mapping[str | None, int],
    bounds: Mapping[str | None, tuple[int, int]],
) -> dict[str | None, float]:
    """Return how much of ``total`` each rack has if its brokers are as even as ``bounds`` permit.

    All brokers have the same load, except in racks at a bound. That load is found by bisection.
    """

    def shares(load: float) -> dict[str | None, float]:
        result: dict[str | None, float] = {}
        for rack, size in sizes.items():
            lower, upper = bounds.get(rack, (0, total))
            result[rack] = min(max(size * load, lower), upper)
        return result

    low, high = 0.0, float(total)
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(shares(middle).values()) < total else (low, middle)
    return shares(high)


def _replica_bounds(data: AuditInput) -> dict[str | None, tuple[int, int]]:
    """Return the minimum and maximum replicas per rack that the rack rules permit."""
    with_tree = _rack_tree(data)
    if with_tree is None:
        return {}
    tree, position = with_tree
    node_of = {
        rack: tree.nodes[tree.rack_of[position[broker]], -1] for broker, rack in data.racks.items()
    }
    factors = Counter(len(row) for row in data.view.replicas.values())
    bounds: dict[str | None, tuple[int, int]] = dict.fromkeys(node_of, (0, 0))
    for factor, count in factors.items():
        lower, upper = tree.bounds(min(factor, len(position)))
        for rack, node in node_of.items():
            low, high = bounds[rack]
            bounds[rack] = (low + count * int(lower[node]), high + count * int(upper[node]))
    return bounds


def _is_off(load: int, fair: float, tolerance: float, minimum: int) -> bool:
    """Return whether ``load`` differs from ``fair`` by the tolerance and by ``minimum``."""
    return abs(load - fair) > fair * tolerance and abs(load - fair) >= minimum


def _uneven(
    kind: Kind, subject: str, load: int, fair: float, basis: str, *, is_rack: bool
) -> Finding:
    severity, what, remedy = Severity.WARNING, "replicas", "plan a reassignment"
    if kind is Kind.UNEVEN_LEADERS:
        what, remedy = "leaders", "plan a leader layout"
        if is_rack:
            severity = Severity.NOTICE
            remedy = "leave it if the consumers are there, else plan a leader layout"
    return Finding(
        severity, kind, subject, f"{load} {what} instead of {fair:.0f} {basis}: {remedy}"
    )


def _rack_name(rack: str | None) -> str:
    return f"rack {rack}" if rack else "no rack"
