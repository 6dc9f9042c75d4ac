"""Replication throttles: all that are in force, and ours, which a later run can recognise.

How ours are marked: :mod:`rackward.admin.throttle_settings`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from placement_core import TopicPartition
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
from rackward.admin.throttle_settings import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LISTS,
    BrokerThrottle,
    Lists,
    Rates,
    ThrottleSettings,
    add_replica_changes,
    remove_replica_changes,
    throttled_partitions,
)
from rackward.units import Deadline, format_list

_REMOVING = "removing the replication throttle"
_PROPAGATION_SECONDS = 15.0
_POLL_TIMEOUT_SECONDS = 1.0
_POLL_SECONDS = 0.05
_DYNAMIC_BROKER_CONFIG = 2
"""The source of a setting that was made for a single broker."""


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
