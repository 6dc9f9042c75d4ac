"""Replication throttles: all that are in force, and ours, which a later run can recognise.

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
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from placement_core import InvalidOptionError, TopicPartition
from placement_core.cluster import Move
from rackward.admin.client import AdminConnection
from rackward.admin.configs import (
    ALL_BROKERS,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigValue,
    ResourceType,
    alter_configs,
    describe_configs,
    read_topic_configs,
    read_visible_topic_configs,
)
from rackward.admin.errors import (
    UNKNOWN_TOPIC,
    AdminError,
    AdminTimeoutError,
    RefusedError,
    UnauthorizedError,
    UnreachableError,
)
from rackward.admin.metadata import read_state
from rackward.units import (
    Deadline,
    format_brokers,
    format_bytes,
    format_count,
    format_list,
)

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

_REMOVING = "removing the replication throttle"
_PROPAGATION_SECONDS = 15.0
_POLL_TIMEOUT_SECONDS = 1.0
_POLL_SECONDS = 0.05
_DYNAMIC_BROKER_CONFIG = 2
"""The source of a setting that was made for a single broker."""

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


class ReplicationThrottle:
    """The replication throttle of a live cluster. All methods raise AdminError."""

    def __init__(self, admin: AdminConnection) -> None:
        self._admin = admin

    def read(self) -> BrokerThrottle:
        """Return what is set as the default of all brokers."""
        return self._read_from(None)

    def read_all(self) -> ThrottleSettings:
        """Return all throttle settings of the cluster, whichever tool made them."""
        state = read_state(self._admin, reassignments=False)
        default, overrides = self.read(), self.broker_overrides(state.view.racks())
        if default == BrokerThrottle() and not overrides:
            return ThrottleSettings()
        configs, hidden = self._read_visible_lists(state.topics)
        lists = {
            topic: values
            for topic, each in configs.items()
            if (values := {key: value for key, value in each.items() if value})
        }
        return ThrottleSettings(default, overrides, lists, tuple(sorted(hidden)))

    def lift(self, settings: ThrottleSettings) -> None:
        """Delete all of ``settings``, whichever tool made them."""
        self._alter_topics(
            _REMOVING,
            {
                topic: [ConfigChange(key, ConfigOp.DELETE) for key in values]
                for topic, values in settings.lists.items()
            },
        )
        rates = [ConfigChange(key, ConfigOp.DELETE) for key in (LEADER_RATE, FOLLOWER_RATE)]
        for broker in settings.overrides:
            # A broker accepts changes of its own settings only.
            resource = ConfigResource(ResourceType.BROKER, str(broker))
            self._raise(alter_configs(self._admin, _REMOVING, {resource: rates}, node=broker))
        markers = [ConfigChange(each.key, ConfigOp.DELETE) for each in settings.default.markers]
        self._alter_brokers(_REMOVING, [*rates, *markers])

    def broker_overrides(self, brokers: Collection[int]) -> dict[int, Rates]:
        """Return the brokers with rates of their own, which take precedence over the default."""
        overrides = {}
        deadline = self._admin.deadline()
        for broker in sorted(brokers):
            configs = self._describe_broker(
                str(broker), (LEADER_RATE, FOLLOWER_RATE), node=broker, deadline=deadline
            )
            own = {
                key: each.value
                for key, each in configs.items()
                if each.source == _DYNAMIC_BROKER_CONFIG
            }
            if own:
                overrides[broker] = BrokerThrottle.parse(own).rates
        return overrides

    def set_rate(self, rate: int) -> None:
        """Throttle listed replicas to ``rate`` bytes per second and broker, in each direction."""
        self._alter_brokers("throttling replication", self.read().set_changes(rate))
        self._wait_for_brokers(
            lambda broker, deadline: any(
                marker.rate == rate for marker in self._read_from(broker, deadline).markers
            )
        )

    def add_replicas(self, moves: Iterable[Move]) -> None:
        """List the replicas of ``moves``. Raises InvalidOptionError if there are too many."""
        moves = [move for move in moves if move.adding]
        lists = self._read_lists({move.partition.topic for move in moves})
        # A topic that was deleted meanwhile has nothing to throttle.
        moves = [move for move in moves if move.partition.topic in lists]
        if changes := add_replica_changes(moves, lists):
            self._alter_topics("throttling replication", changes)
            topics = changes.keys()
            self._wait_for_brokers(
                lambda broker, deadline: (
                    not add_replica_changes(
                        moves,
                        read_topic_configs(self._admin, topics, LISTS, deadline, broker=broker),
                    )
                )
            )

    def remove_replicas(
        self, topics: Collection[str] | None = None, keep: Collection[TopicPartition] = ()
    ) -> set[TopicPartition]:
        """Remove our entries from the lists of ``topics``, except those of the partitions ``keep``;
        return the partitions that still have entries. None: of all topics that this user may read.
        """
        return self._remove_replicas(topics, keep)[0]

    def _remove_replicas(
        self, topics: Collection[str] | None, keep: Collection[TopicPartition]
    ) -> tuple[set[TopicPartition], Collection[str]]:
        """Return what `remove_replicas` does, and the topics that this user may not read."""
        hidden: Collection[str] = ()
        if topics is None:
            # Those of partitions that are being reassigned are known without Describe on them.
            topics = {
                *read_state(self._admin, reassignments=False).topics,
                *(p.topic for p in keep),
            }
            lists, hidden = self._read_visible_lists(topics)
        else:
            lists = self._read_lists(topics)
        self._alter_topics(_REMOVING, remove_replica_changes(lists, keep))
        return throttled_partitions(lists) & set(keep), hidden

    def remove(self, keep: Collection[TopicPartition] = ()) -> bool:
        """Remove what runs of ours have set, entries and rates; return whether there was any.

        The entries of the partitions ``keep``, which another run is copying, are left, and while
        there are such entries the rates are left too. They are also left, with UnauthorizedError,
        while there may be such entries in topics that this user may not read. Any other entries
        there, those of a killed run, have no effect without a rate.
        """
        throttle = self.read()
        if not throttle.markers:
            return False
        left, hidden = self._remove_replicas(None, keep)
        if unknown := sorted({partition.topic for partition in keep} & set(hidden)):
            raise UnauthorizedError(
                f"{_REMOVING}: {format_list(unknown, 3)}: reassignments are in progress, which may "
                "be those of another run of rackward: not authorized: grant this user "
                f"DescribeConfigs on {format_list(unknown, 3)}, or remove the throttle when they "
                "are done"
            )
        if not left:
            self._alter_brokers(_REMOVING, throttle.remove_changes())
        return True

    def leftovers(self, topics: Collection[str]) -> list[str]:
        """Return, in words, what is left of a throttle of ours, as far as this user may read it;
        empty if all is removed."""
        markers = [f"the key {marker.key} of all brokers" for marker in self.read().markers]
        partitions = sorted(throttled_partitions(self._read_visible_lists(topics)[0]))
        return markers + [f"entries of {topic}-{partition}" for topic, partition in partitions]

    def _wait_for_brokers(self, is_applied: Callable[[int, Deadline], bool]) -> None:
        """Wait until each live broker returns a change, for _PROPAGATION_SECONDS at most.

        Brokers apply changes one after another. A read from one that lags behind would miss the
        marker, and the throttle would never be removed.
        """
        deadline = Deadline.after(_PROPAGATION_SECONDS)
        done: set[int] = set()
        while True:
            live = read_state(self._admin, [], reassignments=False).view.racks().keys()
            for broker in sorted(live - done):
                with suppress(AdminTimeoutError, UnreachableError):
                    if is_applied(broker, Deadline.after(_POLL_TIMEOUT_SECONDS)):
                        done.add(broker)
            if live <= done or not deadline.remaining:
                return
            time.sleep(_POLL_SECONDS)

    def _read_from(self, broker: int | None, deadline: Deadline | None = None) -> BrokerThrottle:
        configs = self._describe_broker("", None, node=broker, deadline=deadline)
        return BrokerThrottle.parse({key: each.value for key, each in configs.items()})

    def _describe_broker(
        self,
        name: str,
        keys: Collection[str] | None,
        *,
        node: int | None,
        deadline: Deadline | None = None,
    ) -> Mapping[str, ConfigValue]:
        results = describe_configs(
            self._admin,
            "reading the replication throttle",
            ResourceType.BROKER,
            [name],
            keys,
            node=node,
            deadline=deadline,
        )
        return results.get(name, {})

    def _read_lists(self, topics: Collection[str]) -> Lists:
        return read_topic_configs(self._admin, topics, LISTS)

    def _read_visible_lists(self, topics: Collection[str]) -> tuple[Lists, Collection[str]]:
        """Return the lists, and the topics that this user may not read."""
        lists, hidden = read_visible_topic_configs(self._admin, topics, LISTS)
        return lists, hidden.keys()

    def _alter_brokers(self, operation: str, changes: Sequence[ConfigChange]) -> None:
        self._raise(alter_configs(self._admin, operation, {ALL_BROKERS: changes}))

    def _alter_topics(self, operation: str, changes: Mapping[str, Sequence[ConfigChange]]) -> None:
        resources = {
            ConfigResource(ResourceType.TOPIC, topic): each for topic, each in changes.items()
        }
        for error in alter_configs(self._admin, operation, resources).values():
            deleted = isinstance(error, RefusedError) and error.code == UNKNOWN_TOPIC
            if not deleted:
                raise error

    @staticmethod
    def _raise(refused: Mapping[ConfigResource, AdminError]) -> None:
        for error in refused.values():
            raise error
