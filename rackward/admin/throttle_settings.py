"""Settings that throttle replication, and the changes that set and remove ours: pure functions.

Kafka throttles the copying of those replicas that a topic lists in
``leader.replication.throttled.replicas`` and ``follower.replication.throttled.replicas`` (as
``partition:broker``) to the brokers' ``leader.replication.throttled.rate`` and
``follower.replication.throttled.rate`` (bytes per second). A run that is killed leaves both
behind. Its successor, which may be on another machine, has only the cluster to find out which
settings are rackward's. So they are marked there:

* Entries of the lists have a zero in front of the partition. ``03:1`` means the same to Kafka as
  ``3:1``, and no other tool writes it. All other entries of a list are left alone.
* The rates are set as the default of all brokers. They bound listed replicas only, any broker
  accepts the change (also while others are down), and a rate that was set for a single broker
  stays in force there.
* The same request, which Kafka applies as a whole or not at all, sets a marker key that holds our
  rate and the rates from before: ``rackward.throttle.50000000.before.none.7000000``. Kafka stores
  keys that it does not know; it hides their values, so the information is in the name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from placement_core import InvalidOptionError, TopicPartition
from placement_core.cluster import Move
from rackward.admin.configs import ConfigChange, ConfigOp
from rackward.units import format_brokers, format_bytes, format_count, format_list

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LISTS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
ALL_REPLICAS = "*"
MAX_LIST_LENGTH = 32_000
"""Characters. Kafka accepts configuration values of up to 32,767 bytes."""

_MARKER = re.compile(r"rackward\.throttle\.([0-9]+)\.before\.([0-9]+|none)\.([0-9]+|none)")
_OUR_ENTRY = re.compile(r"0([0-9]+):([0-9]+)")

Lists = Mapping[str, Mapping[str, str]]
"""Topic to key to list, as configured."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per second that a broker sends (``leader``) and receives (``follower``) for listed
    replicas; None: not set."""

    leader: int | None = None
    follower: int | None = None

    def __str__(self) -> str:
        if self.leader == self.follower and self.leader is not None:
            return f"{format_bytes(self.leader)}/s in each direction"
        parts = (("sending", self.leader), ("receiving", self.follower))
        shown = [f"{verb} {format_bytes(rate)}/s" for verb, rate in parts if rate is not None]
        return ", ".join(shown) or "no rate"


@dataclass(frozen=True, slots=True)
class ThrottleMarker:
    """The rate that one run of ours set, and the rates that were set before."""

    rate: int
    before: Rates

    @property
    def key(self) -> str:
        """The marker's configuration key."""
        before = [
            "none" if rate is None else str(rate)
            for rate in (self.before.leader, self.before.follower)
        ]
        return f"rackward.throttle.{self.rate}.before.{'.'.join(before)}"

    @classmethod
    def parse(cls, key: str) -> ThrottleMarker | None:
        """Return the marker in a configuration key, None if it is another key."""
        match = _MARKER.fullmatch(key)
        if match is None:
            return None
        leader, follower = (None if text == "none" else int(text) for text in match.groups()[1:])
        return cls(int(match[1]), Rates(leader, follower))


@dataclass(frozen=True, slots=True)
class BrokerThrottle:
    """The default rates of all brokers, and our markers: one, unless several runs collided."""

    rates: Rates = field(default_factory=Rates)
    markers: tuple[ThrottleMarker, ...] = ()

    @classmethod
    def parse(cls, values: Mapping[str, str | None]) -> BrokerThrottle:
        """Return the throttle in the brokers' configuration."""
        rates = [
            int(text) if (text := values.get(key)) else None for key in (LEADER_RATE, FOLLOWER_RATE)
        ]
        markers = [
            marker for key in sorted(values) if (marker := ThrottleMarker.parse(key)) is not None
        ]
        return cls(Rates(*rates), tuple(markers))

    def set_changes(self, rate: int) -> list[ConfigChange]:
        """Return the changes that throttle to ``rate``; what the first run found is preserved."""
        before = self.markers[0].before if self.markers else self.rates
        marker = ThrottleMarker(rate, before)
        return [
            ConfigChange(LEADER_RATE, ConfigOp.SET, str(rate)),
            ConfigChange(FOLLOWER_RATE, ConfigOp.SET, str(rate)),
            *(ConfigChange(each.key, ConfigOp.DELETE) for each in self.markers if each != marker),
            ConfigChange(marker.key, ConfigOp.SET, "-"),
        ]

    def remove_changes(self) -> list[ConfigChange]:
        """Return the changes that restore the former rates: none without a marker. A rate that
        another tool has set since is left alone."""
        if not self.markers:
            return []
        ours, before = {marker.rate for marker in self.markers}, self.markers[0].before
        changes = [ConfigChange(marker.key, ConfigOp.DELETE) for marker in self.markers]
        for key, rate, former in (
            (LEADER_RATE, self.rates.leader, before.leader),
            (FOLLOWER_RATE, self.rates.follower, before.follower),
        ):
            if rate in ours:
                changes.append(
                    ConfigChange(key, ConfigOp.DELETE)
                    if former is None
                    else ConfigChange(key, ConfigOp.SET, str(former))
                )
        return changes


@dataclass(frozen=True, slots=True)
class ThrottleSettings:
    """All throttle settings of a cluster, whichever tool made them.

    ``default`` is the throttle of all brokers, ``overrides`` are the rates of single brokers, which
    take precedence, ``lists`` those of topics that are not empty. ``hidden`` are the topics whose
    lists this user may not read. Both are left out if there is no rate, which is required for lists
    to have an effect, and no marker.
    """

    default: BrokerThrottle = field(default_factory=BrokerThrottle)
    overrides: Mapping[int, Rates] = field(default_factory=dict)
    lists: Lists = field(default_factory=dict)
    hidden: tuple[str, ...] = ()

    @property
    def in_force(self) -> bool:
        """Whether replicas are throttled, or a run of ours has left its marker."""
        return bool(self.default.markers or self.lists)

    @property
    def not_read(self) -> str | None:
        """What this user may not read, with the right for it, as a clause; None: nothing."""
        if not self.hidden:
            return None
        return (
            f"replicas of {format_count(len(self.hidden), 'topic')} ({format_list(self.hidden, 3)})"
            " may be throttled: to see them, grant this user DescribeConfigs on the topics"
        )

    @property
    def text(self) -> str:
        """The rates, the replicas and who has set them, as a clause."""
        rates = [] if self.default.rates == Rates() else [str(self.default.rates)]
        by_rate: dict[Rates, list[int]] = {}
        for broker, each in sorted(self.overrides.items()):
            by_rate.setdefault(each, []).append(broker)
        rates += [f"{each} on {format_brokers(ids)}" for each, ids in by_rate.items()]
        entire = sorted(t for t, lists in self.lists.items() if ALL_REPLICAS in lists.values())
        others = sorted(self.lists.keys() - set(entire))
        replicas = [
            f"{what} of {format_count(len(topics), 'topic')} ({format_list(topics, 3)})"
            for what, topics in (("all replicas", entire), ("some replicas", others))
            if topics
        ]
        setter = "set by a run of rackward" if self.default.markers else "not set by rackward"
        return (
            f"{'; '.join(rates) or 'no rate'}, for {' and '.join(replicas) or 'no replicas'}, "
            f"{setter}"
        )


def throttled_replicas(moves: Iterable[Move]) -> dict[str, dict[str, list[str]]]:
    """Return topic to key to our entries for the moves; moves that copy nothing have none.

    All present replicas are listed as senders, since each may become the leader meanwhile. Kafka
    never throttles one that is in sync.
    """
    entries: dict[str, dict[str, list[str]]] = {}
    for move in moves:
        if not move.adding:
            continue
        topic, partition = move.partition
        lists = entries.setdefault(topic, {key: [] for key in LISTS})
        lists[LEADER_REPLICAS] += [f"0{partition}:{broker}" for broker in move.before]
        lists[FOLLOWER_REPLICAS] += [f"0{partition}:{broker}" for broker in move.adding]
    return entries


def add_replica_changes(moves: Iterable[Move], lists: Lists) -> dict[str, list[ConfigChange]]:
    """Return topic to the changes that add our entries for ``moves`` to its ``lists``.

    A list of ``*`` covers all replicas and accepts no entries. Raises InvalidOptionError if a list
    would become longer than Kafka accepts.
    """
    changes: dict[str, list[ConfigChange]] = {}
    for topic, entries in throttled_replicas(moves).items():
        for key, ours in entries.items():
            present = lists.get(topic, {}).get(key, "")
            existing = set(present.split(","))
            missing = [entry for entry in ours if entry not in existing]
            if missing and ALL_REPLICAS not in existing:
                _check_length(topic, len(present) + sum(len(entry) + 1 for entry in missing))
                changes.setdefault(topic, []).append(
                    ConfigChange(key, ConfigOp.APPEND, ",".join(missing))
                )
    return changes


def _check_length(topic: str, characters: int) -> None:
    if characters > MAX_LIST_LENGTH:
        raise InvalidOptionError(
            f"too many replicas of {topic} to throttle at a time ({characters} characters of "
            f"configuration, at most {MAX_LIST_LENGTH}): lower --batch-count"
        )


def remove_replica_changes(
    lists: Lists, keep: Collection[TopicPartition] = ()
) -> dict[str, list[ConfigChange]]:
    """Return topic to the changes that remove our entries from its ``lists``, except those of the
    partitions ``keep``. A list that would be left empty is deleted."""
    changes: dict[str, list[ConfigChange]] = {}
    for topic, values in lists.items():
        for key in LISTS:
            if key not in values:
                continue
            present = [entry for entry in values[key].split(",") if entry]
            ours = [
                entry
                for entry in present
                if (match := _OUR_ENTRY.fullmatch(entry))
                and TopicPartition(topic, int(match[1])) not in keep
            ]
            if not ours:
                continue
            change = (
                ConfigChange(key, ConfigOp.DELETE)
                if len(ours) == len(present)
                else ConfigChange(key, ConfigOp.SUBTRACT, ",".join(ours))
            )
            changes.setdefault(topic, []).append(change)
    return changes


def throttled_partitions(lists: Lists) -> set[TopicPartition]:
    """Return the partitions that have entries of ours."""
    return {
        TopicPartition(topic, int(match[1]))
        for topic, values in lists.items()
        for key in LISTS
        for entry in values.get(key, "").split(",")
        if (match := _OUR_ENTRY.fullmatch(entry))
    }
