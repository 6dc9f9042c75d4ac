"""The values of an audit (severities, findings, figures, input), and its checks of replication."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError, format_brokers
from placement_core.placers.under_replicated import ReplicationTarget, counted_replicas
from placement_core.racks import RackPath, parse_rack

Partitions = list[TopicPartition]


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


@dataclass(frozen=True, slots=True)
class AuditInput:
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
    ) -> AuditInput:
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


def group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, Partitions]:
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


# ---- Checks of replication: availability now, after the loss of a rack, and unfilled placeholders.

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
