"""Replication throttles in a live cluster, set so that the next run can take them back.

:mod:`rackward.admin.throttle_marks` says how; this reads and writes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from placement_core import TopicPartition
from placement_core.moves import Move
from rackward.admin.config_changes import (
    ALL_BROKERS,
    Change,
    Resource,
    ResourceKind,
    change_configs,
)
from rackward.admin.configs import read_topic_configs
from rackward.admin.connection import AdminConnection
from rackward.admin.deadline import Deadline
from rackward.admin.errors import (
    AdminError,
    AdminTimeoutError,
    RefusedError,
    UnreachableError,
)
from rackward.admin.reads import read_state
from rackward.admin.refusals import UNKNOWN_TOPIC, refusal
from rackward.admin.throttle_marks import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LISTS,
    BrokerThrottle,
    Lists,
    Rates,
    covering,
    ours_in,
    uncovering,
)

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
