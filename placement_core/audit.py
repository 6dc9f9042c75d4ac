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
from typing import NamedTuple

import numpy as np

from placement_core.cluster import ClusterView, TopicPartition, by_topic
from placement_core.errors import InvalidOptionError, format_brokers
from placement_core.placers.under_replicated import ReplicationTarget, counted_replicas
from placement_core.rack_bounds import RackTree
from placement_core.racks import RackPath, parse_rack

Partitions = list[TopicPartition]

MAX_NAMED = 10
"""The maximum number of broker ids in a message."""

_REASSIGN, _LEADER_LAYOUT = "plan a reassignment", "plan a leader layout"


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
    RACK_RULE = "not spread over racks"
    RACK_UNKNOWN = "rack not known"
    ONE_RACK = "one rack"
    UNEVEN_REPLICAS = "uneven replicas"
    UNEVEN_LEADERS = "uneven leaders"
    NOT_PREFERRED = "leader not preferred"
    PLACEHOLDERS = "waiting for brokers"
    MOVING = "moving"
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
class BrokerCounts:
    """Replicas, current leaders and preferred leaders on a live broker."""

    id: int
    rack: str | None
    replicas: int
    leaders: int
    preferred: int


@dataclass(frozen=True, slots=True)
class RackCounts:
    """Live brokers, replicas, current leaders and preferred leaders in a rack."""

    rack: str | None
    brokers: int
    replicas: int
    leaders: int
    preferred: int


@dataclass(frozen=True, slots=True)
class LostRack:
    """The partitions that are available now and that the loss of ``rack`` would leave without any
    replica, or with too few for writing."""

    rack: str
    offline: int
    below_min_in_sync: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts over a whole layout.

    partitions, replicas
        All of them, including replicas on brokers that are not live.
    offline, below_min_in_sync, under_replicated, not_preferred, against_rack_rules
        The number of such partitions; ``against_rack_rules``, those not spread over racks as evenly
        as possible, is None if racks are not known.
    lost_with_rack
        Per rack, and per node above if racks have levels.
    """

    partitions: int
    replicas: int
    offline: int
    below_min_in_sync: int
    under_replicated: int
    not_preferred: int
    against_rack_rules: int | None
    lost_with_rack: tuple[LostRack, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit: figures, and findings with the worst first.

    Of ``racks``, brokers without one are the last.
    """

    figures: Figures
    brokers: tuple[BrokerCounts, ...]
    racks: tuple[RackCounts, ...]
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
    layout = _Layout(view, in_sync, min_isr, targets or {})
    affected = {
        check.kind: [partition for partition in view.replicas if check.affects(layout, partition)]
        for check in _CHECKS
    }
    lost = {rack: _lost_with(layout, brokers) for rack, brokers in _failure_domains(layout).items()}
    brokers = _broker_counts(layout)
    racks = _rack_counts(brokers)
    findings = [
        *_by_topic(layout, affected),
        *_rack_losses(layout, lost),
        *_rack_faults(layout),
        *_uneven_racks(layout, racks, tolerance),
        *_uneven_brokers(brokers, racks, tolerance),
    ]
    severities = list(Severity)
    return Audit(
        figures=Figures(
            partitions=len(view.replicas),
            replicas=sum(map(len, view.replicas.values())),
            offline=len(affected[Kind.OFFLINE]),
            below_min_in_sync=len(affected[Kind.BELOW_MIN_IN_SYNC]),
            under_replicated=len(affected[Kind.UNDER_REPLICATED]),
            not_preferred=len(affected[Kind.NOT_PREFERRED]),
            against_rack_rules=len(affected[Kind.RACK_RULE]) if layout.tree else None,
            lost_with_rack=tuple(LostRack(rack, *map(len, each)) for rack, each in lost.items()),
        ),
        brokers=brokers,
        racks=racks,
        findings=tuple(sorted(findings, key=lambda f: severities.index(f.severity))),
    )


class _Layout:
    """The layout to audit.

    ``racks`` has the rack of each live broker; ``leaders`` the current leaders or, if they are
    unknown, the preferred ones that are live; ``in_sync`` the in-sync replicas of each partition on
    live brokers; ``min_isr`` the min.insync.replicas of each topic. ``tree`` is the tree of racks,
    and ``rack_of`` the index of each live broker's; None and empty if a rack is unknown.
    """

    def __init__(
        self,
        view: ClusterView,
        in_sync: Mapping[TopicPartition, Collection[int]] | None,
        min_isr: int | Mapping[str, int],
        targets: Mapping[TopicPartition, ReplicationTarget],
    ) -> None:
        self.view, self.targets = view, targets
        # Names of one rack, such as "a" and "/a", become the first of them.
        name_of: dict[RackPath | None, str | None] = {}
        self.racks = {
            broker: name_of.setdefault(parse_rack(rack), rack)
            for broker, rack in sorted(view.racks().items())
        }
        self.leaders = view.leaders_or_preferred()
        rows = view.replicas if in_sync is None else in_sync
        self.in_sync = {
            partition: frozenset(b for b in rows.get(partition, ()) if b in self.racks)
            for partition in view.replicas
        }
        self.min_isr = {
            topic: min_isr if isinstance(min_isr, int) else min_isr.get(topic, 1)
            for topic in sorted({partition.topic for partition in view.replicas})
        }
        for topic, number in self.min_isr.items():
            if number < 1:
                raise InvalidOptionError(
                    f"min.insync.replicas of {topic} is {number}: give at least 1"
                )
        self.tree: RackTree | None = None
        self.rack_of: dict[int, int] = {}
        paths = [path for rack in self.racks.values() if (path := parse_rack(rack)) is not None]
        if paths and len(paths) == len(self.racks):
            self.tree = RackTree.of(paths)
            self.rack_of = dict(zip(self.racks, self.tree.rack_of.tolist(), strict=True))
        self._follows_rules: dict[tuple[int, ...], bool] = {}

    def missing_replicas(self, partition: TopicPartition) -> int:
        """Return the number of replicas that no broker holds yet (KIP-409)."""
        target = self.targets.get(partition)
        if target is None:
            return 0
        counted = counted_replicas(self.view.replicas[partition], target, self.racks)
        return target.replication_factor - len(counted)

    def violates_rack_rules(self, partition: TopicPartition) -> bool:
        """Return whether no set that satisfies the rules contains the replicas on live brokers.

        With more replicas than brokers, and if a rack is unknown, partitions are not judged.
        """
        row = self.view.replicas[partition]
        if self.tree is None or len(row) > len(self.racks):
            return False
        racks = sorted(self.rack_of[broker] for broker in row if broker in self.rack_of)
        key = (len(row), *racks)
        if key not in self._follows_rules:
            lower, upper = self.tree.bounds(len(row))
            counts = np.bincount(self.tree.nodes[racks].reshape(-1), minlength=len(lower))
            self._follows_rules[key] = bool(
                self.tree.can_extend(
                    counts[None, :], lower[None, :], upper[None, :], np.array([len(row)])
                )[0]
            )
        return not self._follows_rules[key]


# ---- Findings by topic: what is wrong with some of its partitions, and what to do.


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


def _by_topic(layout: _Layout, affected: Mapping[Kind, Partitions]) -> Iterator[Finding]:
    """Yield a finding for each topic that a check affects."""
    for check in _CHECKS:
        for topic, partitions in by_topic(affected[check.kind]).items():
            message = f"{format_partitions(partitions)} {check.describe(layout, partitions)}"
            yield Finding(check.severity, check.kind, topic, message, tuple(partitions))


def _offline(layout: _Layout, partitions: Partitions) -> str:
    holders = {broker for partition in partitions for broker in layout.view.replicas[partition]}
    return (
        f"without a leader: start {format_brokers(holders, MAX_NAMED)} again, at least one that "
        "was in sync"
    )


def _below_min_isr(layout: _Layout, partitions: Partitions) -> str:
    return (
        "with fewer in-sync replicas than "
        f"min.insync.replicas={layout.min_isr[partitions[0].topic]}, so that writes with acks=all "
        f"fail: {_remedy(layout, partitions)}"
    )


def _against_rack_rules(layout: _Layout, partitions: Partitions) -> str:
    first, racks = partitions[0], layout.racks
    row = layout.view.replicas[first]
    where = ", ".join(f"{broker} in {racks[broker]}" for broker in row if broker in racks)
    return (
        f"not spread over racks as evenly as possible ({first.partition} is on brokers {where}): "
        "plan a reassignment"
    )


def _led_by_another(layout: _Layout, partitions: Partitions) -> str:
    preferred = {layout.view.replicas[partition][0] for partition in partitions}
    remedy = "elect preferred leaders"
    if down := preferred - layout.racks.keys():
        remedy = f"{format_brokers(down, MAX_NAMED)} is down: start it again, or reassign"
    return f"not led by the preferred replica: {remedy}"


def _with_placeholders(layout: _Layout, partitions: Partitions) -> str:
    racks = sorted({rack for rack in layout.racks.values() if rack is not None})
    live = len(layout.racks)
    required = max(layout.targets[partition].replication_factor for partition in partitions)
    if live < required:
        in_racks = f" in rack{'s' if len(racks) != 1 else ''} {', '.join(racks)}"
        remedy = (
            f"{live} live broker{'s' if live != 1 else ''}{in_racks if racks else ''}, but "
            f"{required} are needed: start {required - live} more, best in a rack without any"
        )
    else:
        remedy = "there are enough brokers: check that rackward controller is running"
    counts = {layout.missing_replicas(partition) for partition in partitions}
    maximum = max(counts)
    return (
        f"with placeholders for {'up to ' if len(counts) > 1 else ''}{maximum} "
        f"replica{'s' if maximum != 1 else ''} each; {remedy}"
    )


def _remedy(layout: _Layout, partitions: Partitions) -> str:
    missing = {
        broker
        for partition in partitions
        for broker in set(layout.view.replicas[partition]) - layout.in_sync[partition]
    }
    if down := missing - layout.racks.keys():
        return f"start {format_brokers(down, MAX_NAMED)} again, or reassign the replicas"
    if missing:
        return f"check why {format_brokers(missing, MAX_NAMED)} does not replicate"
    return "lower min.insync.replicas, or raise the replication factor"


class _Check(NamedTuple):
    """A fault of single partitions; ``describe`` returns the text about those of one topic."""

    severity: Severity
    kind: Kind
    affects: Callable[[_Layout, TopicPartition], bool]
    describe: Callable[[_Layout, Partitions], str]


_CHECKS = (
    _Check(Severity.CRITICAL, Kind.OFFLINE, lambda layout, p: p not in layout.leaders, _offline),
    _Check(
        Severity.CRITICAL,
        Kind.BELOW_MIN_IN_SYNC,
        lambda layout, p: p in layout.leaders and len(layout.in_sync[p]) < layout.min_isr[p.topic],
        _below_min_isr,
    ),
    _Check(
        Severity.WARNING,
        Kind.UNDER_REPLICATED,
        lambda layout, p: len(layout.in_sync[p]) < len(layout.view.replicas[p]),
        lambda layout, partitions: (
            f"with replicas that are not in sync: {_remedy(layout, partitions)}"
        ),
    ),
    _Check(Severity.WARNING, Kind.RACK_RULE, _Layout.violates_rack_rules, _against_rack_rules),
    _Check(
        Severity.WARNING,
        Kind.PLACEHOLDERS,
        lambda layout, p: layout.missing_replicas(p) > 0,
        _with_placeholders,
    ),
    _Check(
        Severity.NOTICE,
        Kind.NOT_PREFERRED,
        lambda layout, p: layout.view.leader(p) not in (None, *layout.view.replicas[p][:1]),
        _led_by_another,
    ),
)


# ---- Racks: their loss, and brokers without one.


def _failure_domains(layout: _Layout) -> dict[str, frozenset[int]]:
    """Return the brokers of each rack and of each node above, without nodes that have all."""
    domains: dict[RackPath, set[int]] = {}
    name_of: dict[RackPath, str] = {}
    for broker, rack in layout.racks.items():
        path = parse_rack(rack) or ()
        for level in range(1, len(path) + 1):
            node = path[:level]
            domains.setdefault(node, set()).add(broker)
            name_of.setdefault(node, "/" + "/".join(node) if f"{rack}".startswith("/") else path[0])
    return {
        name: frozenset(domains[node])
        for node, name in sorted(name_of.items(), key=lambda item: item[1])
        if len(domains[node]) < len(layout.racks)
    }


def _lost_with(layout: _Layout, brokers: frozenset[int]) -> tuple[Partitions, Partitions]:
    """Return the partitions that the loss of ``brokers`` would make unavailable.

    First those that have a leader now and would have no in-sync replica; then those that can be
    written now and would be below min.insync.replicas.
    """
    offline: Partitions = []
    below: Partitions = []
    for partition, in_sync in layout.in_sync.items():
        if partition not in layout.leaders:
            continue
        remaining = len(in_sync - brokers)
        if not remaining and in_sync:
            offline.append(partition)
        elif remaining < layout.min_isr[partition.topic] <= len(in_sync):
            below.append(partition)
    return offline, below


def _rack_losses(
    layout: _Layout, lost: Mapping[str, tuple[Partitions, Partitions]]
) -> Iterator[Finding]:
    sizes = Counter(partition.topic for partition in layout.view.replicas)
    effects = (
        (Kind.RACK_LOSS_OFFLINE, "without any replica"),
        (Kind.RACK_LOSS_BELOW_MIN_IN_SYNC, "with fewer than min.insync.replicas"),
    )
    for rack, by_effect in lost.items():
        for (kind, effect), partitions in zip(effects, by_effect, strict=True):
            if partitions:
                yield Finding(
                    Severity.WARNING,
                    kind,
                    f"rack {rack}",
                    f"its loss leaves {_format_topics(partitions, sizes)} {effect}: spread the "
                    "replicas over racks by a reassignment, with a higher replication factor if "
                    "it is too low",
                    tuple(sorted(partitions)),
                )


def _format_topics(partitions: Partitions, sizes: Mapping[str, int]) -> str:
    topics = by_topic(partitions)
    first = ", ".join(
        f"{format_partitions(of_topic, sizes[topic])} of {topic}"
        for topic, of_topic in list(topics.items())[:3]
    )
    more = len(topics) - 3
    return first + (f" and partitions of {more} more topics" if more > 0 else "")


def _rack_faults(layout: _Layout) -> Iterator[Finding]:
    paths = {broker: parse_rack(rack) for broker, rack in layout.racks.items()}
    without = {broker for broker, path in paths.items() if path is None}
    if without and len(without) < len(paths):
        brokers = format_brokers(without, MAX_NAMED)
        yield Finding(
            Severity.WARNING,
            Kind.RACK_UNKNOWN,
            brokers,
            f"{brokers} of {len(paths)} without broker.rack, others with, so that replicas "
            "cannot be spread over racks: set broker.rack everywhere",
        )
    if len(paths) > 1 and len(set(paths.values())) == 1:
        which = "no broker has a rack" if without else "all brokers are in one rack"
        yield Finding(
            Severity.NOTICE,
            Kind.ONE_RACK,
            "cluster",
            f"{which}, so that rack rules have no effect: set broker.rack if there are several",
        )


# ---- Balance.


def _broker_counts(layout: _Layout) -> tuple[BrokerCounts, ...]:
    replicas = Counter(broker for row in layout.view.replicas.values() for broker in row)
    preferred = Counter(row[0] for row in layout.view.replicas.values() if row)
    leaders = Counter(layout.leaders.get(partition) for partition in layout.view.replicas)
    return tuple(
        BrokerCounts(id, rack, replicas[id], leaders[id], preferred[id])
        for id, rack in layout.racks.items()
    )


def _rack_counts(brokers: Iterable[BrokerCounts]) -> tuple[RackCounts, ...]:
    by_rack: dict[str | None, list[BrokerCounts]] = {}
    for broker in brokers:
        by_rack.setdefault(broker.rack, []).append(broker)
    return tuple(
        RackCounts(
            rack,
            len(by_rack[rack]),
            sum(broker.replicas for broker in by_rack[rack]),
            sum(broker.leaders for broker in by_rack[rack]),
            sum(broker.preferred for broker in by_rack[rack]),
        )
        for rack in sorted(by_rack, key=lambda rack: (rack is None, rack or ""))
    )


def _uneven_racks(
    layout: _Layout, racks: Collection[RackCounts], tolerance: float
) -> Iterator[Finding]:
    sizes = {each.rack: each.brokers for each in racks}
    unless_intended = f"leave it if the consumers are there, else {_LEADER_LAYOUT}"
    for severity, kind, what, bounds, remedy in (
        (Severity.WARNING, Kind.UNEVEN_REPLICAS, "replicas", _replica_bounds(layout), _REASSIGN),
        (Severity.NOTICE, Kind.UNEVEN_LEADERS, "leaders", {}, unless_intended),
    ):
        loads: dict[str | None, int] = {each.rack: getattr(each, what) for each in racks}
        for rack, fair in _fair_shares(sum(loads.values()), sizes, bounds).items():
            if _is_off(loads[rack], fair, tolerance, sizes[rack]):
                message = (
                    f"{loads[rack]} {what} instead of {fair:.0f} that a rack of its size has in an "
                    f"even layout: {remedy}"
                )
                yield Finding(severity, kind, _rack_name(rack), message)


def _uneven_brokers(
    brokers: Iterable[BrokerCounts], racks: Iterable[RackCounts], tolerance: float
) -> Iterator[Finding]:
    totals = {each.rack: each for each in racks}
    for broker in brokers:
        total = totals[broker.rack]
        for kind, what, remedy in (
            (Kind.UNEVEN_REPLICAS, "replicas", _REASSIGN),
            (Kind.UNEVEN_LEADERS, "leaders", _LEADER_LAYOUT),
        ):
            load, fair = getattr(broker, what), getattr(total, what) / total.brokers
            if _is_off(load, fair, tolerance, 1):
                message = (
                    f"{load} {what} instead of {fair:.0f} that the brokers of "
                    f"{_rack_name(broker.rack)} have on average: {remedy}"
                )
                yield Finding(Severity.WARNING, kind, f"broker {broker.id}", message)


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


def _replica_bounds(layout: _Layout) -> dict[str | None, tuple[int, int]]:
    """Return the minimum and maximum replicas per rack that the rack rules permit."""
    if layout.tree is None:
        return {}
    nodes = layout.tree.nodes[:, -1]
    node_of = {rack: nodes[layout.rack_of[broker]] for broker, rack in layout.racks.items()}
    bounds: dict[str | None, tuple[int, int]] = dict.fromkeys(node_of, (0, 0))
    for factor, count in Counter(map(len, layout.view.replicas.values())).items():
        lower, upper = layout.tree.bounds(min(factor, len(layout.racks)))
        for rack, node in node_of.items():
            low, high = bounds[rack]
            bounds[rack] = (low + count * int(lower[node]), high + count * int(upper[node]))
    return bounds


def _is_off(load: int, fair: float, tolerance: float, minimum: int) -> bool:
    """Return whether ``load`` differs from ``fair`` by the tolerance and by ``minimum``."""
    return abs(load - fair) > fair * tolerance and abs(load - fair) >= minimum


def _rack_name(rack: str | None) -> str:
    return f"rack {rack}" if rack else "no rack"
