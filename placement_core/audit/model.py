"""The values that an audit consists of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError


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


# ---- The layout under audit, with what all its checks need, and the words that they share.

Partitions = list[TopicPartition]


@dataclass(frozen=True, slots=True)
class Subject:
    """A layout, the replicas in sync (all on known brokers, where it is not said), and the least
    number of these that each topic needs to be written."""

    view: ClusterView
    racks: Mapping[int, str | None]
    in_sync: Mapping[TopicPartition, frozenset[int]]
    least: Mapping[str, int]

    @classmethod
    def of(
        cls,
        view: ClusterView,
        in_sync: Mapping[TopicPartition, Collection[int]] | None,
        min_in_sync: int | Mapping[str, int],
    ) -> Subject:
        """Read what is given. Raises InvalidOptionError for a ``min_in_sync`` below 1."""
        racks = view.racks()
        topics = sorted({partition.topic for partition in view.replicas})
        least = {
            topic: min_in_sync if isinstance(min_in_sync, int) else min_in_sync.get(topic, 1)
            for topic in topics
        }
        if wrong := {topic: n for topic, n in least.items() if n < 1}:
            topic, number = next(iter(wrong.items()))
            raise InvalidOptionError(f"min.insync.replicas of {topic} is {number}: at least 1")
        return cls(
            view,
            racks,
            {
                partition: frozenset(
                    broker
                    for broker in (replicas if in_sync is None else in_sync.get(partition, ()))
                    if broker in racks
                )
                for partition, replicas in view.replicas.items()
            },
            least,
        )

    def leader(self, partition: TopicPartition) -> int | None:
        """The present leader; the preferred one, in a view that knows of no leaders."""
        if self.view.leaders:
            return self.view.leaders.get(partition)
        first = next(iter(self.view.replicas[partition]), None)
        return first if first in self.racks else None


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, Partitions]:
    """Partitions in order, by topic."""
    found: dict[str, Partitions] = {}
    for partition in sorted(partitions):
        found.setdefault(partition.topic, []).append(partition)
    return found


def numbers(partitions: Collection[TopicPartition], of: int | None = None) -> str:
    """``partition 3``, ``partitions 1, 2`` or, of many, a count and the first few."""
    some = ", ".join(str(partition.partition) for partition in list(partitions)[:5])
    if len(partitions) == 1:
        return f"partition {some}"
    if of == len(partitions):
        return f"all {of} partitions"
    return f"{len(partitions)} partitions ({some}{', ...' if len(partitions) > 5 else ''})"


def brokers_named(brokers: Collection[int]) -> str:
    """``broker 5`` or ``brokers 1, 2``; of many, the first ten."""
    some = ", ".join(map(str, sorted(brokers)[:10])) + (", ..." if len(brokers) > 10 else "")
    return f"broker{'' if len(brokers) == 1 else 's'} {some}"
