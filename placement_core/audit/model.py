"""The values that an audit consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from placement_core.cluster import TopicPartition


class Severity(Enum):
    """How bad it is; the first is the worst."""

    CRITICAL = "critical"
    """Data cannot be read or written now."""
    WARNING = "warning"
    """The next failure may do that, or load is badly spread."""
    NOTICE = "notice"
    """Worth knowing; nothing is at risk."""


class Kind(Enum):
    """What was found."""

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
    """One thing that was found.

    ``subject`` is a topic, ``broker 5`` or ``rack a``; ``message`` says what is wrong with it, with
    the values, and what to do; ``partitions`` are all those concerned, where it is about some.
    """

    severity: Severity
    kind: Kind
    subject: str
    message: str
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """What a broker or a rack carries; leaders are present ones, preferred those of the layout."""

    brokers: int
    replicas: int
    leaders: int
    preferred: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts over the whole layout.

    brokers, racks
        Share per broker, and per rack (its id; None: brokers that do not say).
    partitions, replicas
        All there are, replicas on brokers that are gone among them.
    offline, below_min_in_sync, under_replicated, not_preferred, against_rack_rules
        Partitions of which that is true; ``against_rack_rules`` is None where racks are not known.
    lost_offline, lost_below_min_in_sync
        Per rack (and per node above, where racks have levels), the partitions that are served now
        and would be without any replica, or with too few to be written, if it were lost.
    """

    brokers: Mapping[int, Share]
    racks: Mapping[str | None, Share]
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
    """Figures, and findings from the worst on."""

    figures: Figures
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Severity | None:
        """The severity of the worst finding; None where nothing was found."""
        return self.findings[0].severity if self.findings else None
