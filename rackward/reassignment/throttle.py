"""Replication throttles: any that are in force, and those that runs of rackward set and remove.

Kafka throttles the copying of those replicas that a topic lists in
``leader.replication.throttled.replicas`` and ``follower.replication.throttled.replicas`` (as
``partition:broker``) to the brokers' ``leader.replication.throttled.rate`` and
``follower.replication.throttled.rate`` (bytes per second). A run that is killed leaves both behind,
and its successor has only the cluster to find out which settings are rackward's. They are marked:

* Entries of the lists have a zero in front of the partition. ``03:1`` means the same to Kafka as
  ``3:1``, and no other tool writes it. All other entries of a list are left alone.
* The rates are set as the default of all brokers. They bound listed replicas only, any broker
  accepts the change (also while others are down), and a rate that was set for a single broker
  stays in force there.
* The same request, which Kafka applies as a whole or not at all, sets a marker key that holds the
  rate and the rates from before: ``rackward.throttle.50000000.before.none.7000000``. Kafka stores
  keys that it does not know; it hides their values, so the information is in the name.

Runs share these settings. The run that sets the marker chooses the rate; others add entries. An
entry serves a partition that is being reassigned, so each run removes the marked entries of all
other partitions, and the last one removes the rates. Another run may have listed replicas that it
had not requested yet: so `ReplicationThrottle.add` is called before a request and after it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field

from kafka.admin import AlterConfigOp as ConfigOp
from kafka.admin import ConfigResourceType as ResourceType

from placement_core import InvalidOptionError, TopicPartition
from placement_core.cluster import Move
from rackward.kafka.client import AdminConnection
from rackward.kafka.configs import (
    ALL_BROKERS,
    ConfigChange,
    ConfigResource,
    ConfigValue,
    alter_configs,
    describe_configs,
    raise_first,
    read_topic_configs,
    read_visible_topic_configs,
)
from rackward.kafka.errors import (
    UNKNOWN_TOPIC,
    AdminError,
    AdminTimeoutError,
    RefusedError,
    UnauthorizedError,
    UnreachableError,
)
from rackward.kafka.metadata import read_state
from rackward.reassignment.progress import (
    BrokerThrottleFound,
    Clock,
    EventHandler,
    ThrottleNotRemoved,
    ThrottleRemoved,
    ThrottleSet,
    ThrottleShared,
)
from rackward.units import Deadline, format_brokers, format_bytes, format_count, format_list

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
RATES, LISTS = (LEADER_RATE, FOLLOWER_RATE), (LEADER_REPLICAS, FOLLOWER_REPLICAS)
REMOVE_TIMEOUT_SECONDS = 20.0
_ALL_REPLICAS = "*"
_MAX_LIST_LENGTH = 32_000
"""Characters. Kafka accepts configuration values of up to 32,767 bytes."""
_MARKER = re.compile(r"rackward\.throttle\.([0-9]+)\.before\.([0-9]+|none)\.([0-9]+|none)")
_MARKED_ENTRY = re.compile(r"0([0-9]+):([0-9]+)")
_DYNAMIC_BROKER_CONFIG = 2
"""The source of a setting that was made for a single broker."""
_PROPAGATION_SECONDS = 15.0
_POLL_TIMEOUT_SECONDS = 1.0
_POLL_SECONDS = 0.05
_RETRY_PAUSE_SECONDS = 0.2
_SETTING, _REMOVING = "throttling replication", "removing the replication throttle"

Lists = Mapping[str, Mapping[str, str]]
"""Topic to key to list of replicas, as configured."""


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


NO_RATES = Rates()


@dataclass(frozen=True, slots=True)
class ThrottleMarker:
    """The rate that a run has set, and the rates that were set before."""

    rate: int
    before: Rates

    @property
    def key(self) -> str:
        """The marker's configuration key."""
        before = ("none" if rate is None else rate for rate in astuple(self.before))
        return ".".join(map(str, ("rackward.throttle", self.rate, "before", *before)))

    @classmethod
    def parse(cls, key: str) -> ThrottleMarker | None:
        """Return the marker in a configuration key, None if it is another key."""
        match = _MARKER.fullmatch(key)
        if match is None:
            return None
        return cls(
            int(match[1]), Rates(*(None if r == "none" else int(r) for r in match.group(2, 3)))
        )


@dataclass(frozen=True, slots=True)
class BrokerThrottle:
    """The default rates of all brokers, and the markers: one, unless several runs collided."""

    rates: Rates = NO_RATES
    markers: tuple[ThrottleMarker, ...] = ()

    @classmethod
    def parse(cls, values: Mapping[str, str | None]) -> BrokerThrottle:
        """Return the throttle in the brokers' configuration."""
        rates = Rates(*(int(text) if (text := values.get(key)) else None for key in RATES))
        return cls(rates, tuple(filter(None, map(ThrottleMarker.parse, sorted(values)))))

    def set_changes(self, rate: int) -> list[ConfigChange]:
        """Return the changes that throttle to ``rate``; what the first run found is preserved."""
        marker = ThrottleMarker(rate, self.markers[0].before if self.markers else self.rates)
        return [
            *(ConfigChange(key, ConfigOp.SET, str(rate)) for key in RATES),
            *(ConfigChange(each.key, ConfigOp.DELETE) for each in self.markers if each != marker),
            ConfigChange(marker.key, ConfigOp.SET, "-"),
        ]

    def remove_changes(self) -> list[ConfigChange]:
        """Return the changes that restore the former rates: none without a marker. A rate that
        another tool has set since is left alone."""
        if not self.markers:
            return []
        set_by_runs = {marker.rate for marker in self.markers}
        rates = zip(RATES, astuple(self.rates), astuple(self.markers[0].before), strict=True)
        return [
            *(ConfigChange(marker.key, ConfigOp.DELETE) for marker in self.markers),
            *(
                ConfigChange(key, ConfigOp.DELETE)
                if former is None
                else ConfigChange(key, ConfigOp.SET, str(former))
                for key, rate, former in rates
                if rate in set_by_runs
            ),
        ]


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
        """Whether replicas are throttled, or a run has left its marker."""
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
        rates = [] if self.default.rates == NO_RATES else [str(self.default.rates)]
        by_rate: dict[Rates, list[int]] = {}
        for broker, each in sorted(self.overrides.items()):
            by_rate.setdefault(each, []).append(broker)
        rates += [f"{each} on {format_brokers(ids)}" for each, ids in by_rate.items()]
        entire = sorted(t for t, lists in self.lists.items() if _ALL_REPLICAS in lists.values())
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

    @property
    def summary(self) -> str | None:
        """The throttle that is in force, and whether there may be one that this user may not read;
        None: there is no throttle."""
        texts = [self.text if self.in_force else "not known", self.not_read]
        return "; ".join(filter(None, texts)) if self.in_force or self.hidden else None


def add_changes(moves: Iterable[Move], lists: Lists) -> dict[str, list[ConfigChange]]:
    """Return topic to the changes that add the entries of ``moves`` to its ``lists``.

    All present replicas are listed as senders, since each may become the leader meanwhile; Kafka
    never throttles one that is in sync. A list of ``*`` covers all replicas and accepts no entries.
    Raises InvalidOptionError if a list would become longer than Kafka accepts.
    """
    entries: dict[tuple[str, str], list[str]] = {}
    for move in moves:
        topic, partition = move.partition
        if not move.adding:
            continue
        for key, brokers in ((LEADER_REPLICAS, move.before), (FOLLOWER_REPLICAS, move.adding)):
            entries.setdefault((topic, key), []).extend(f"0{partition}:{b}" for b in brokers)
    changes: dict[str, list[ConfigChange]] = {}
    for (topic, key), wanted in entries.items():
        present = lists.get(topic, {}).get(key, "")
        existing = set(present.split(","))
        missing = ",".join(entry for entry in wanted if entry not in existing)
        if not missing or _ALL_REPLICAS in existing:
            continue
        if (length := len(present) + len(missing)) >= _MAX_LIST_LENGTH:
            raise InvalidOptionError(
                f"too many replicas of {topic} to throttle at a time ({length} characters of "
                f"configuration, at most {_MAX_LIST_LENGTH}): lower --batch-count"
            )
        changes.setdefault(topic, []).append(ConfigChange(key, ConfigOp.APPEND, missing))
    return changes


def remove_changes(
    lists: Lists, keep: Collection[TopicPartition] = ()
) -> dict[str, list[ConfigChange]]:
    """Return topic to the changes that remove the marked entries from its ``lists``, except those
    of the partitions ``keep``. A list that would be left empty is deleted."""
    changes: dict[str, list[ConfigChange]] = {}
    for topic, values in lists.items():
        for key, text in values.items():
            marked = _marked_entries(topic, text)
            removed = [entry for entry, partition in marked.items() if partition not in keep]
            if len(removed) == len(text.split(",")):
                changes.setdefault(topic, []).append(ConfigChange(key, ConfigOp.DELETE))
            elif removed:
                change = ConfigChange(key, ConfigOp.SUBTRACT, ",".join(removed))
                changes.setdefault(topic, []).append(change)
    return changes


def marked_partitions(lists: Lists) -> set[TopicPartition]:
    """Return the partitions that have marked entries."""
    return {
        partition
        for topic, values in lists.items()
        for text in values.values()
        for partition in _marked_entries(topic, text).values()
    }


def _marked_entries(topic: str, text: str) -> dict[str, TopicPartition]:
    """Return the partition of each marked entry in a list."""
    return {
        entry: TopicPartition(topic, int(match[1]))
        for entry in text.split(",")
        if (match := _MARKED_ENTRY.fullmatch(entry))
    }


class ReplicationThrottle:
    """The replication throttle of a live cluster. All methods raise AdminError."""

    def __init__(self, admin: AdminConnection) -> None:
        self._admin = admin

    def read(self, broker: int | None = None) -> BrokerThrottle:
        """Return what is set as the default of all brokers, as ``broker`` (None: any) has it."""
        configs = self._describe("", None, broker)
        return BrokerThrottle.parse({key: each.value for key, each in configs.items()})

    def read_all(self) -> ThrottleSettings:
        """Return all throttle settings of the cluster, whichever tool made them."""
        state = read_state(self._admin, reassignments=False)
        default, overrides = self.read(), self.broker_overrides(state.view.racks())
        if default == BrokerThrottle() and not overrides:
            return ThrottleSettings()
        configs, hidden = read_visible_topic_configs(self._admin, state.topics, LISTS)
        lists = {
            topic: values
            for topic, each in configs.items()
            if (values := {key: value for key, value in each.items() if value})
        }
        return ThrottleSettings(default, overrides, lists, tuple(sorted(hidden)))

    def broker_overrides(self, brokers: Collection[int]) -> dict[int, Rates]:
        """Return the brokers with rates of their own, which take precedence over the default."""
        overrides = {}
        with self._admin.within():
            for broker in sorted(brokers):
                own = {
                    key: each.value
                    for key, each in self._describe(str(broker), RATES, broker).items()
                    if each.source == _DYNAMIC_BROKER_CONFIG
                }
                if own:
                    overrides[broker] = BrokerThrottle.parse(own).rates
        return overrides

    def remove_all(self, settings: ThrottleSettings) -> None:
        """Delete all of ``settings``, whichever tool made them."""
        self._alter_topics(
            _REMOVING,
            {
                topic: [ConfigChange(key, ConfigOp.DELETE) for key in values]
                for topic, values in settings.lists.items()
            },
        )
        rates = [ConfigChange(key, ConfigOp.DELETE) for key in RATES]
        for broker in settings.overrides:
            # A broker accepts changes of its own settings only.
            self._alter_brokers(_REMOVING, rates, broker)
        markers = [ConfigChange(each.key, ConfigOp.DELETE) for each in settings.default.markers]
        self._alter_brokers(_REMOVING, [*rates, *markers])

    def set_rate(self, rate: int) -> None:
        """Throttle listed replicas to ``rate`` bytes per second and broker, in each direction."""
        self._alter_brokers(_SETTING, self.read().set_changes(rate))
        self._wait_for_brokers(
            lambda broker: any(marker.rate == rate for marker in self.read(broker).markers)
        )

    def add(self, rate: int | None, moves: Iterable[Move]) -> None:
        """Throttle the copying of ``moves`` to ``rate``, or to the rate that another run has set.

        Moves that copy nothing, and topics that were deleted, are left out; None: no throttle.
        Raises InvalidOptionError if there are more replicas than Kafka's lists hold.
        """
        copying = [move for move in moves if move.adding]
        if rate is None or not copying:
            return
        if not self.read().markers:
            self.set_rate(rate)
        lists = read_topic_configs(self._admin, {move.partition.topic for move in copying}, LISTS)
        copying = [move for move in copying if move.partition.topic in lists]
        if changes := add_changes(copying, lists):
            self._alter_topics(_SETTING, changes)
            self._wait_for_brokers(
                lambda broker: (
                    not add_changes(
                        copying,
                        read_topic_configs(self._admin, changes.keys(), LISTS, broker=broker),
                    )
                )
            )

    def release(self, topics: Collection[str], reassigning: Collection[TopicPartition]) -> None:
        """Remove the marked entries of these topics' partitions that are not ``reassigning``, all
        partitions of the cluster that are being reassigned."""
        lists = read_topic_configs(self._admin, topics, LISTS)
        self._alter_topics(_REMOVING, remove_changes(lists, reassigning))

    def remove(self, keep: Collection[TopicPartition] = ()) -> bool:
        """Remove what runs have set, entries and rates; return whether there was any.

        The entries of the partitions ``keep``, which another run is copying, are left, and while
        there are such entries the rates are left too. They are also left, with UnauthorizedError,
        while there may be such entries in topics that this user may not read. Any other entries
        there, those of a killed run, have no effect without a rate.
        """
        throttle = self.read()
        if not throttle.markers:
            return False
        # Partitions that are being reassigned are known without Describe on their topics.
        topics = {*read_state(self._admin, reassignments=False).topics, *(p.topic for p in keep)}
        lists, hidden = read_visible_topic_configs(self._admin, topics, LISTS)
        self._alter_topics(_REMOVING, remove_changes(lists, keep))
        if unknown := sorted({partition.topic for partition in keep} & hidden.keys()):
            raise UnauthorizedError(
                f"{_REMOVING}: {format_list(unknown, 3)}: reassignments are in progress, which may "
                "be those of another run of rackward: not authorized: grant this user "
                f"DescribeConfigs on {format_list(unknown, 3)}, or remove the throttle when they "
                "are done"
            )
        if marked_partitions(lists).isdisjoint(keep):
            self._alter_brokers(_REMOVING, throttle.remove_changes())
        return True

    def leftovers(self, topics: Collection[str]) -> list[str]:
        """Return, in words, what is left of the throttle of a run, as far as this user may read it;
        empty if all is removed."""
        markers = [f"the key {marker.key} of all brokers" for marker in self.read().markers]
        lists, _ = read_visible_topic_configs(self._admin, topics, LISTS)
        partitions = sorted(marked_partitions(lists))
        return markers + [f"entries of {topic}-{partition}" for topic, partition in partitions]

    def _wait_for_brokers(self, is_applied: Callable[[int], bool]) -> None:
        """Wait until each live broker returns a change, for _PROPAGATION_SECONDS at most.

        Brokers apply changes one after another. A read from one that lags behind would miss the
        marker, and the throttle would never be removed.
        """
        deadline = Deadline.after(_PROPAGATION_SECONDS)
        done: set[int] = set()
        while True:
            live = read_state(self._admin, [], reassignments=False).view.racks().keys()
            for broker in sorted(live - done):
                poll = Deadline.after(_POLL_TIMEOUT_SECONDS)
                with suppress(AdminTimeoutError, UnreachableError), self._admin.within(poll):
                    if is_applied(broker):
                        done.add(broker)
            if live <= done or not deadline.remaining:
                return
            time.sleep(_POLL_SECONDS)

    def _describe(
        self, name: str, keys: Collection[str] | None, node: int | None
    ) -> Mapping[str, ConfigValue]:
        operation = "reading the replication throttle"
        results, errors = describe_configs(
            self._admin, operation, ResourceType.BROKER, [name], keys, node=node
        )
        raise_first(errors)
        return results.get(name, {})

    def _alter_brokers(
        self, operation: str, changes: Sequence[ConfigChange], broker: int | None = None
    ) -> None:
        resource = ALL_BROKERS
        if broker is not None:
            resource = ConfigResource(ResourceType.BROKER, str(broker))
        raise_first(alter_configs(self._admin, operation, {resource: changes}, node=broker))

    def _alter_topics(self, operation: str, changes: Mapping[str, Sequence[ConfigChange]]) -> None:
        resources = {
            ConfigResource(ResourceType.TOPIC, topic): each for topic, each in changes.items()
        }
        for error in alter_configs(self._admin, operation, resources).values():
            deleted = isinstance(error, RefusedError) and error.code == UNKNOWN_TOPIC
            if not deleted:
                raise error


# ---- A throttle for the duration of a run, removed however the run ends.


@contextmanager
def throttled(
    throttle: ReplicationThrottle,
    rate: int | None,
    brokers: Collection[int],
    others: Callable[[], Collection[TopicPartition]],
    emit: EventHandler,
    clock: Clock,
    *,
    adopt: bool = False,
) -> Iterator[None]:
    """Throttle replication to ``rate`` for the ``with`` block; None: this run needs no throttle.

    If another run has set a throttle, its rate applies. With ``adopt`` that run was killed:
    its throttle is removed first. ``brokers`` are the live ones; ``others`` returns the partitions
    that other runs are reassigning, whose entries stay. The throttle is removed at the end of the
    block, also after an exception. A failure to remove it is emitted, not raised.
    """
    found = throttle.read().markers
    if found and adopt:
        keep = others()
        throttle.remove(keep)
        if not keep:
            found = ()
            emit(ThrottleRemoved(leftover=True))
    if rate is None:
        yield
        return
    try:
        if found:
            emit(ThrottleShared(found[0].rate))
        else:
            throttle.set_rate(rate)
            emit(ThrottleSet(rate))
        for broker, rates in throttle.broker_overrides(brokers).items():
            emit(BrokerThrottleFound(broker, rates.leader, rates.follower))
        yield
    finally:
        try:
            remove_throttle(throttle, others, emit, clock)
        except BaseException:
            # A signal during the removal; the handler ignores further ones.
            remove_throttle(throttle, others, emit, clock)
            raise


def remove_throttle(
    throttle: ReplicationThrottle,
    others: Callable[[], Collection[TopicPartition]],
    emit: EventHandler,
    clock: Clock,
) -> None:
    """Remove the throttle, retrying for a while; emit the result instead of raising AdminError.

    ``others`` returns the partitions that other runs are copying at that time. Their entries stay,
    and with them the rates.
    """
    deadline = clock.now() + REMOVE_TIMEOUT_SECONDS
    removed = False
    while True:
        try:
            keep = others()
            if not throttle.remove(keep):
                break
            # Repeat until no broker reports any of it.
            removed = True
            if keep or clock.now() >= deadline:
                break
        except AdminError as error:
            if clock.now() >= deadline or isinstance(error, UnauthorizedError):
                emit(ThrottleNotRemoved(str(error)))
                return
        clock.sleep(_RETRY_PAUSE_SECONDS)
    if removed:
        emit(ThrottleRemoved())
