"""Audit of a layout: counts, and findings about faults and unevenness with what to do.

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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError, format_brokers
from placement_core.placers.under_replicated import ReplicationTarget, counted_replicas
from placement_core.rack_bounds import RackTree
from placement_core.racks import RackPath, parse_rack

Partitions = list[TopicPartition]

MAX_NAMED = 10
"""The maximum number of broker ids in a message."""


class Severity(Enum):
    """The severity of a finding, the worst first."""

    CRITICAL = "critical"
    """Data cannot be read or written now."""
    WARNING = "warning"
    """The next failure may have that effect, or load is badly distributed."""
    NOTICE = "notice"
    """For information; nothing is at risk."""


class Kind(Enum):
    """The kind of a finding."""

    OFFLINE = "offline"
    BELOW_MIN_IN_SYNC = "below min.insync.replicas"
    UNDER_REPLICATED = "under-replicated"
    RACK_LOSS_OFFLINE = "offline when a rack is lost"
    RACK_LOSS_BELOW_MIN_IN_SYNC = "below min.insync.replicas when a rack is lost"
    RACK_RULE = "replicas not spread over racks"
    RACK_UNKNOWN = "rack not known"
    ONE_RACK = "one rack"
    UNEVEN_REPLICAS = "uneven replicas"
    UNEVEN_LEADERS = "uneven leaders"
    NOT_PREFERRED = "leader not preferred"
    PLACEHOLDERS = "placeholders"
    THROTTLE = "replication throttle"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a layout.

    ``subject`` is a topic, ``broker 5`` or ``rack a``; ``message`` has the problem with its values,
    and what to do; ``partitions`` are all those affected, if the finding is about partitions.
    """

    severity: Severity
    kind: Kind
    subject: str
    message: str
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """Replicas, current leaders and preferred leaders on a broker, or on the brokers of a rack."""

    brokers: int
    replicas: int
    leaders: int
    preferred: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts over a whole layout.

    brokers, racks
        ReplicaCounts per broker id, and per rack id (None: brokers without a rack).
    partitions, replicas
        All of them, including replicas on brokers that are not live.
    offline, below_min_in_sync, under_replicated, not_preferred, against_rack_rules
        The number of such partitions; ``against_rack_rules`` is None if racks are not known.
    lost_offline, lost_below_min_in_sync
        Per rack (and per node above, if racks have levels), the partitions that are available now
        and that its loss would leave without any replica, or with too few for writing.
    """

    brokers: Mapping[int, ReplicaCounts]
    racks: Mapping[str | None, ReplicaCounts]
    partitions: int
    replicas: int
    offline: int
    below_min_in_sync: int
    under_replicated: int
    not_preferred: int
    against_rack_rules: int | None
    lost_offline: Mapping[str, int]
    lost_below_min_in_sync: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit: figures, and findings with the worst first."""

    figures: Figures
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Severity | None:
        """The severity of the worst finding; None if there is no finding."""
        return self.findings[0].severity if self.findings else None


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
    data = _Input.of(view, in_sync, min_isr)
    offline, below, under = _unavailable_partitions(data)
    violations = _rack_rule_violations(data)
    not_preferred = _not_preferred(data)
    missing = _missing_replicas(data, targets or {})
    by_broker, by_rack = _replica_counts(data)
    sizes = Counter(partition.topic for partition in view.replicas)
    critical, warning, notice = Severity
    findings = [
        *_by_topic(critical, Kind.OFFLINE, offline, lambda p: _offline(data, p)),
        *_by_topic(critical, Kind.BELOW_MIN_IN_SYNC, below, lambda p: _below_min_isr(data, p)),
        *_by_topic(warning, Kind.UNDER_REPLICATED, under, lambda p: _not_in_sync(data, p)),
    ]
    lost_offline, lost_below = {}, {}
    for domain, brokers in _failure_domains(data).items():
        would_be_offline, would_be_below = _partitions_lost_with(data, brokers)
        lost_offline[domain], lost_below[domain] = len(would_be_offline), len(would_be_below)
        findings += _rack_loss_findings(domain, would_be_offline, would_be_below, sizes)
    findings += _rack_findings(data)
    findings += _by_topic(
        warning, Kind.RACK_RULE, violations or [], lambda p: _against_rack_rules(data, p)
    )
    findings += _balance_findings(data, by_broker, by_rack, tolerance)
    findings += _by_topic(
        notice, Kind.NOT_PREFERRED, not_preferred, lambda p: _led_by_another(data, p)
    )
    findings += _by_topic(
        warning,
        Kind.PLACEHOLDERS,
        missing,
        lambda p: _with_placeholders(data, targets or {}, {one: missing[one] for one in p}),
    )
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


@dataclass(frozen=True, slots=True)
class _Input:
    """The layout to audit, with what its checks share.

    ``racks`` has the rack of each live broker; ``leaders`` the current leaders or, if they are
    unknown, the preferred ones that are live; ``in_sync`` the in-sync replicas of each partition on
    live brokers; ``min_isr`` the min.insync.replicas of each topic.
    """

    view: ClusterView
    racks: Mapping[int, str | None]
    leaders: Mapping[TopicPartition, int]
    in_sync: Mapping[TopicPartition, frozenset[int]]
    min_isr: Mapping[str, int]

    @classmethod
    def of(
        cls,
        view: ClusterView,
        in_sync: Mapping[TopicPartition, Collection[int]] | None,
        min_isr: int | Mapping[str, int],
    ) -> _Input:
        """Return the input. Raises InvalidOptionError for a ``min_isr`` below 1."""
        # Names of one rack, such as "a" and "/a", become the first of them.
        name_of: dict[RackPath | None, str | None] = {}
        racks = {
            broker: name_of.setdefault(parse_rack(rack), rack)
            for broker, rack in sorted(view.racks().items())
        }
        topics = sorted({partition.topic for partition in view.replicas})
        minimum = {
            topic: min_isr if isinstance(min_isr, int) else min_isr.get(topic, 1)
            for topic in topics
        }
        for topic, number in minimum.items():
            if number < 1:
                raise InvalidOptionError(
                    f"min.insync.replicas of {topic} is {number}: give at least 1"
                )
        rows = view.replicas if in_sync is None else in_sync
        return cls(
            view=view,
            racks=racks,
            leaders=view.leaders_or_preferred(),
            in_sync={
                partition: frozenset(b for b in rows.get(partition, ()) if b in racks)
                for partition in view.replicas
            },
            min_isr=minimum,
        )


def _group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, Partitions]:
    """Return the partitions by topic, in order."""
    by_topic: dict[str, Partitions] = {}
    for partition in sorted(partitions):
        by_topic.setdefault(partition.topic, []).append(partition)
    return by_topic


def format_partitions(partitions: Collection[TopicPartition], total: int | None = None) -> str:
    """Return ``partition 3``, or the number of partitions of one topic and the first five.

    If there are several and ``total`` is their number, return ``all 6 partitions``.
    """
    first = ", ".join(str(partition.partition) for partition in list(partitions)[:5])
    if len(partitions) == 1:
        return f"partition {first}"
    if total == len(partitions):
        return f"all {total} partitions"
    return f"{len(partitions)} partitions ({first}{', ...' if len(partitions) > 5 else ''})"


# ---- Findings by topic: what is wrong with some of its partitions, and what to do.


def _by_topic(
    severity: Severity,
    kind: Kind,
    partitions: Iterable[TopicPartition],
    describe: Callable[[Partitions], str],
) -> Iterator[Finding]:
    """Yield a finding per topic; ``describe`` returns the text about its partitions."""
    for topic, of_topic in _group_by_topic(partitions).items():
        message = f"{format_partitions(of_topic)} {describe(of_topic)}"
        yield Finding(severity, kind, topic, message, tuple(of_topic))


def _offline(data: _Input, partitions: Partitions) -> str:
    holders = {broker for partition in partitions for broker in data.view.replicas[partition]}
    return (
        f"without a leader: start {format_brokers(holders, MAX_NAMED)} again, at least one that "
        "was in sync"
    )


def _below_min_isr(data: _Input, partitions: Partitions) -> str:
    return (
        "with fewer in-sync replicas than "
        f"min.insync.replicas={data.min_isr[partitions[0].topic]}, so that writes with acks=all "
        f"fail: {_remedy(data, partitions)}"
    )


def _not_in_sync(data: _Input, partitions: Partitions) -> str:
    return f"with replicas that are not in sync: {_remedy(data, partitions)}"


def _against_rack_rules(data: _Input, partitions: Partitions) -> str:
    racks, replicas = data.racks, data.view.replicas[partitions[0]]
    where = ", ".join(f"{broker} in {racks[broker]}" for broker in replicas if broker in racks)
    return (
        f"not spread over racks as evenly as possible ({partitions[0].partition} is on brokers "
        f"{where}): plan a reassignment"
    )


def _led_by_another(data: _Input, partitions: Partitions) -> str:
    down = {data.view.replicas[partition][0] for partition in partitions} - data.racks.keys()
    remedy = (
        f"{format_brokers(down, MAX_NAMED)} is down: start it again, or reassign"
        if down
        else "elect preferred leaders"
    )
    return f"not led by the preferred replica: {remedy}"


def _with_placeholders(
    data: _Input,
    targets: Mapping[TopicPartition, ReplicationTarget],
    missing: Mapping[TopicPartition, int],
) -> str:
    racks = sorted({rack for rack in data.racks.values() if rack is not None})
    live = len(data.racks)
    required = max(targets[partition].replication_factor for partition in missing)
    if live < required:
        in_racks = f" in rack{'s' if len(racks) != 1 else ''} {', '.join(racks)}"
        remedy = (
            f"{live} live broker{'s' if live != 1 else ''}{in_racks if racks else ''}, but "
            f"{required} are needed: start {required - live} more, best in a rack without any"
        )
    else:
        remedy = "there are enough brokers: check that rackward controller is running"
    counts = set(missing.values())
    maximum = max(counts)
    return (
        f"with placeholders for {'up to ' if len(counts) > 1 else ''}{maximum} "
        f"replica{'s' if maximum != 1 else ''} each; {remedy}"
    )


def _remedy(data: _Input, partitions: Partitions) -> str:
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


# ---- Availability now, and after the loss of a rack.


def _unavailable_partitions(data: _Input) -> tuple[Partitions, Partitions, Partitions]:
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


def _missing_replicas(
    data: _Input, targets: Mapping[TopicPartition, ReplicationTarget]
) -> dict[TopicPartition, int]:
    """Return the number of replicas that no broker holds yet (KIP-409), where there are any."""
    missing = {}
    for partition in targets.keys() & data.view.replicas.keys():
        target = targets[partition]
        counted = counted_replicas(data.view.replicas[partition], target, data.racks)
        if len(counted) < target.replication_factor:
            missing[partition] = target.replication_factor - len(counted)
    return missing


def _failure_domains(data: _Input) -> dict[str, frozenset[int]]:
    """Return the brokers of each rack and of each node above, without nodes that have all."""
    domains: dict[RackPath, set[int]] = {}
    names: dict[RackPath, str] = {}
    for broker, rack in data.racks.items():
        path = parse_rack(rack)
        if path is None or rack is None:
            continue
        for level in range(1, len(path) + 1):
            name = "/" + "/".join(path[:level]) if rack.startswith("/") else rack
            names.setdefault(path[:level], name)
            domains.setdefault(path[:level], set()).add(broker)
    return {
        names[path]: frozenset(domains[path])
        for path in sorted(domains, key=names.__getitem__)
        if len(domains[path]) < len(data.racks)
    }


def _partitions_lost_with(data: _Input, brokers: frozenset[int]) -> tuple[Partitions, Partitions]:
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


def _rack_loss_findings(
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
    topics = _group_by_topic(partitions)
    first = ", ".join(
        f"{format_partitions(of_topic, sizes[topic])} of {topic}"
        for topic, of_topic in list(topics.items())[:3]
    )
    more = len(topics) - 3
    return first + (f" and partitions of {more} more topics" if more > 0 else "")


# ---- Racks.


def _rack_findings(data: _Input) -> Iterator[Finding]:
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


def _rack_tree(data: _Input) -> tuple[RackTree, dict[int, int]] | None:
    """Return the tree of racks and each broker's position in it; None if a rack is unknown."""
    paths = {broker: parse_rack(rack) for broker, rack in sorted(data.racks.items())}
    known = [path for path in paths.values() if path is not None]
    if not known or len(known) < len(paths):
        return None
    return RackTree.of(known), {broker: position for position, broker in enumerate(paths)}


def _rack_rule_violations(data: _Input) -> Partitions | None:
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


# ---- Preferred leaders and balance.


def _not_preferred(data: _Input) -> Partitions:
    """Return the partitions whose leader is not their first replica."""
    return [
        partition
        for partition, leader in data.view.known_leaders.items()
        if data.view.replicas.get(partition, (leader,))[0] != leader
    ]


def _replica_counts(
    data: _Input,
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
    data: _Input,
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


def _replica_bounds(data: _Input) -> dict[str | None, tuple[int, int]]:
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
