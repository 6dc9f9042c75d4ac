"""Replication throttles in a live cluster, set so that the next run can take them back.

:mod:`rackward.admin.throttle` says how; this reads and writes it.
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
    Change,
    Op,
    Resource,
    ResourceKind,
    change_configs,
    read_topic_configs,
)
from rackward.admin.errors import (
    UNKNOWN_TOPIC,
    AdminError,
    AdminTimeoutError,
    Deadline,
    RefusedError,
    UnreachableError,
    refusal,
)
from rackward.admin.metadata import read_state

# ---- How a replication throttle is set so that it can be taken back by whoever comes next.
#
# Kafka throttles the copying of replicas that a topic lists (``leader.`` and
# ``follower.replication.throttled.replicas``, as ``partition:broker``) to the rates of the brokers
# (``leader.`` and ``follower.replication.throttled.rate``, bytes per second). A run that is killed
# leaves both behind, and its successor, maybe on another machine, has nothing but the cluster to
# tell what is whose. So the cluster is told:
#
# * Entries of the lists are written with a zero in front of the partition: ``03:1`` means to
#   Kafka what ``3:1`` means, and nobody else writes it. Whatever else is in a list stays there.
# * The rates are set for all brokers together and not broker by broker. They bound nothing but
#   the replicas that are listed, any broker takes the change (also while others are down), and a
#   rate that somebody set for one broker stays in force there.
# * In the same request, which is carried out whole or not at all, goes a key of our own that
#   keeps the rates that were there before: ``rackward.throttle.50000000.before.none.7000000``.
# Kafka   keeps keys that it does not know; it hides their values, so the name says it all.

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LISTS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
EVERY_REPLICA = "*"
MOST_CHARACTERS = 32_000
"""Kafka takes texts of 32,767 bytes."""

_MARK = re.compile(r"rackward\.throttle\.([0-9]+)\.before\.([0-9]+|none)\.([0-9]+|none)")
_OURS = re.compile(r"0([0-9]+):([0-9]+)")

Lists = Mapping[str, Mapping[str, str]]
"""Topic to key to list, as configured."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per second that brokers send and receive for replicas listed; None: not set."""

    leader: int | None = None
    follower: int | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """What a run of ours set, and what it found."""

    ours: int
    before: Rates

    @property
    def key(self) -> str:
        """The configuration key that says this."""
        before = [
            "none" if rate is None else str(rate)
            for rate in (self.before.leader, self.before.follower)
        ]
        return f"rackward.throttle.{self.ours}.before.{'.'.join(before)}"

    @classmethod
    def read(cls, key: str) -> Mark | None:
        """The mark that a key is, or None."""
        match = _MARK.fullmatch(key)
        if match is None:
            return None
        leader, follower = (None if text == "none" else int(text) for text in match.groups()[1:])
        return cls(int(match[1]), Rates(leader, follower))


@dataclass(frozen=True, slots=True)
class BrokerThrottle:
    """The settings of all brokers together: rates, and marks (one, unless runs collided)."""

    rates: Rates = field(default_factory=Rates)
    marks: tuple[Mark, ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, str | None]) -> BrokerThrottle:
        """From keys and values as configured."""
        rates = [
            int(text) if (text := values.get(key)) else None for key in (LEADER_RATE, FOLLOWER_RATE)
        ]
        marks = [mark for key in sorted(values) if (mark := Mark.read(key)) is not None]
        return cls(Rates(*rates), tuple(marks))

    def setting(self, rate: int) -> list[Change]:
        """The changes that throttle to ``rate``; what a former run of ours found is kept."""
        before = self.marks[0].before if self.marks else self.rates
        mark = Mark(rate, before)
        return [
            Change(LEADER_RATE, Op.SET, str(rate)),
            Change(FOLLOWER_RATE, Op.SET, str(rate)),
            *(Change(each.key, Op.DELETE) for each in self.marks if each != mark),
            Change(mark.key, Op.SET, "-"),
        ]

    def lifting(self) -> list[Change]:
        """The changes that take back what our runs set; a rate that somebody else has set
        since stays. Nothing, without a mark."""
        if not self.marks:
            return []
        ours, before = {mark.ours for mark in self.marks}, self.marks[0].before
        changes = [Change(mark.key, Op.DELETE) for mark in self.marks]
        for key, rate, old in (
            (LEADER_RATE, self.rates.leader, before.leader),
            (FOLLOWER_RATE, self.rates.follower, before.follower),
        ):
            if rate in ours:
                changes.append(
                    Change(key, Op.DELETE) if old is None else Change(key, Op.SET, str(old))
                )
        return changes


def entries(moves: Iterable[Move]) -> dict[str, dict[str, list[str]]]:
    """Topic to key to our entries: replicas that may send, and those that are to come.

    Every present replica may send, since it may come to lead meanwhile; one that is in sync is
    never held back by Kafka. Moves that copy nothing have none.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for move in moves:
        if not move.adding:
            continue
        topic, number = move.partition
        lists = found.setdefault(topic, {key: [] for key in LISTS})
        lists[LEADER_REPLICAS] += [f"0{number}:{broker}" for broker in move.before]
        lists[FOLLOWER_REPLICAS] += [f"0{number}:{broker}" for broker in move.adding]
    return found


def covering(moves: Iterable[Move], lists: Lists) -> dict[str, list[Change]]:
    """Topic to the changes that add our entries to its ``lists``.

    A list that says "every replica" needs none, and would not take any. Raises InvalidOptionError
    where a list would become longer than Kafka takes.
    """
    changes: dict[str, list[Change]] = {}
    for topic, wanted in entries(moves).items():
        for key, ours in wanted.items():
            present = lists.get(topic, {}).get(key, "")
            there = set(present.split(","))
            missing = [entry for entry in ours if entry not in there]
            if missing and EVERY_REPLICA not in there:
                _check_length(topic, len(present) + sum(len(entry) + 1 for entry in missing))
                changes.setdefault(topic, []).append(Change(key, Op.APPEND, ",".join(missing)))
    return changes


def _check_length(topic: str, characters: int) -> None:
    if characters > MOST_CHARACTERS:
        raise InvalidOptionError(
            f"too many replicas of {topic} are to be throttled at a time ({characters} characters "
            f"of configuration, Kafka takes {MOST_CHARACTERS}): lower --batch-count"
        )


def uncovering(lists: Lists, keep: Collection[TopicPartition] = ()) -> dict[str, list[Change]]:
    """Topic to the changes that take our entries out of its ``lists``, but for partitions to
    ``keep``. A list that is left empty, or is so already, is deleted."""
    changes: dict[str, list[Change]] = {}
    for topic, values in lists.items():
        for key in LISTS:
            if key not in values:
                continue
            present = [entry for entry in values[key].split(",") if entry]
            ours = [
                entry
                for entry in present
                if (match := _OURS.fullmatch(entry))
                and TopicPartition(topic, int(match[1])) not in keep
            ]
            if not ours:
                continue
            change = (
                Change(key, Op.DELETE)
                if len(ours) == len(present)
                else Change(key, Op.SUBTRACT, ",".join(ours))
            )
            changes.setdefault(topic, []).append(change)
    return changes


def ours_in(lists: Lists) -> set[TopicPartition]:
    """The partitions that have entries of ours."""
    return {
        TopicPartition(topic, int(match[1]))
        for topic, values in lists.items()
        for key in LISTS
        for entry in values.get(key, "").split(",")
        if (match := _OURS.fullmatch(entry))
    }


_SETTING = "throttling replication"
_LIFTING = "lifting the replication throttle"
_READING = "reading the replication throttle"
_KNOWN_SECONDS = 15.0
_ASK_SECONDS = 1.0
_PAUSE_SECONDS = 0.05
_BROKER_OWN = 2
"""The source of a setting that was made for one broker, while it ran."""


class ReplicationThrottle:
    """The throttle of one cluster. All methods raise AdminError."""

    def __init__(self, admin: AdminConnection) -> None:
        self._admin = admin

    def found(self) -> BrokerThrottle:
        """What is set for all brokers together."""
        return self._found_at(None)

    def own_rates(self, brokers: Collection[int]) -> dict[int, Rates]:
        """The brokers that have rates of their own, which win over those for all."""
        found = {}
        for broker in sorted(brokers):
            values = _broker_configs(
                self._admin, str(broker), (LEADER_RATE, FOLLOWER_RATE), node=broker
            )
            own = {key: value for key, (value, source) in values.items() if source == _BROKER_OWN}
            if own:
                found[broker] = BrokerThrottle.of(own).rates
        return found

    def engage(self, rate: int) -> None:
        """Throttle listed replicas to ``rate`` bytes per second and broker, each way."""
        self._change_brokers(_SETTING, self.found().setting(rate))
        self._until(
            lambda broker, until: any(
                mark.ours == rate for mark in self._found_at(broker, until).marks
            )
        )

    def cover(self, moves: Iterable[Move]) -> None:
        """List the replicas of ``moves``. Raises InvalidOptionError where they are too many."""
        moves = [move for move in moves if move.adding]
        lists = self._lists({move.partition.topic for move in moves})
        # A topic that was deleted meanwhile has nothing to throttle.
        known = [move for move in moves if move.partition.topic in lists]
        if changes := covering(known, lists):
            self._change_topics(_SETTING, changes)
            topics = changes.keys()
            self._until(
                lambda broker, until: (
                    not covering(
                        known, read_topic_configs(self._admin, topics, LISTS, until, broker=broker)
                    )
                )
            )

    def uncover(
        self, topics: Collection[str] | None = None, keep: Collection[TopicPartition] = ()
    ) -> set[TopicPartition]:
        """Take our entries off the lists of ``topics`` (None: of all), but for partitions to
        ``keep``. Returns the partitions that have entries still."""
        lists = self._lists(self._all_topics() if topics is None else topics)
        self._change_topics(_LIFTING, uncovering(lists, keep))
        return ours_in(lists) & set(keep)

    def lift(self, keep: Collection[TopicPartition] = ()) -> bool:
        """Take back all that runs of ours have set, these entries and the rates.

        ``keep`` are partitions whose entries stay, since another run is copying them; while
        there are any, rates stay too. Returns whether there was anything to take back.
        """
        found = self.found()
        if not found.marks:
            return False
        if not self.uncover(keep=keep):
            self._change_brokers(_LIFTING, found.lifting())
        return True

    def left(self, topics: Collection[str]) -> list[str]:
        """What is left of a throttle of ours, for people: empty, as it should be."""
        marks = [f"the key {mark.key} of all brokers" for mark in self.found().marks]
        places = sorted(ours_in(self._lists(topics)))
        return marks + [f"entries of {topic}-{partition}" for topic, partition in places]

    def _until(self, known: Callable[[int, Deadline], bool]) -> None:
        """Wait until live brokers know what was changed, each of them: whichever is asked next
        must not be further back, or a throttle would stay since there seems to be none."""
        deadline = Deadline.after(_KNOWN_SECONDS)
        knowing: set[int] = set()
        while left := read_state(self._admin, [], ongoing=False).view.racks().keys() - knowing:
            for broker in sorted(left):
                with suppress(AdminTimeoutError, UnreachableError):
                    if known(broker, Deadline.after(_ASK_SECONDS)):
                        knowing.add(broker)
            if not left - knowing or not deadline.remaining:
                break
            time.sleep(_PAUSE_SECONDS)

    def _found_at(self, broker: int | None, until: Deadline | None = None) -> BrokerThrottle:
        """What that broker (None: any) says is set for all brokers together."""
        values = _broker_configs(self._admin, "", None, node=broker, deadline=until)
        return BrokerThrottle.of({key: value for key, (value, _) in values.items()})

    def _all_topics(self) -> Sequence[str]:
        return read_state(self._admin, ongoing=False).topics

    def _lists(self, topics: Collection[str]) -> Lists:
        return read_topic_configs(self._admin, topics, LISTS) if topics else {}

    def _change_brokers(self, doing: str, changes: Sequence[Change]) -> None:
        for error in change_configs(self._admin, doing, {ALL_BROKERS: changes}).values():
            raise error

    def _change_topics(self, doing: str, changes: Mapping[str, Sequence[Change]]) -> None:
        asked = {Resource(ResourceKind.TOPIC, topic): each for topic, each in changes.items()}
        for error in change_configs(self._admin, doing, asked).values():
            if not _deleted(error):
                raise error


def _deleted(error: AdminError) -> bool:
    return isinstance(error, RefusedError) and error.code == UNKNOWN_TOPIC


def _broker_configs(
    admin: AdminConnection,
    name: str,
    keys: Collection[str] | None,
    *,
    node: int | None,
    deadline: Deadline | None = None,
) -> dict[str, tuple[str | None, int]]:
    """Key to value and source, of the broker of that name, or of all together (no name), as
    ``node`` tells them; those of one broker it tells itself."""
    from kafka.protocol.admin import DescribeConfigsRequest as Request

    request = Request(
        resources=[
            Request.DescribeConfigsResource(
                resource_type=int(ResourceKind.BROKER),
                resource_name=name,
                configuration_keys=None if keys is None else sorted(keys),
            )
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    (result,) = admin.ask(_READING, request, node=node, deadline=deadline).results
    if result.error_code:
        raise refusal(_READING, request.name, result.error_code, result.error_message)
    return {each.name: (each.value, each.config_source) for each in result.configs}
