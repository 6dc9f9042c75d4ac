"""The values of an audit: severities, kinds, findings and figures; and its input."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError

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
        racks = view.racks()
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
