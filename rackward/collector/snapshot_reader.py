"""One pass over one cluster: what is asked, of whom, and in which order.

Committed offsets come last and the ends of logs before them, so that what a group has read in
the meantime lies within what is known of the log, or just behind it. Ends and sizes of one
broker's logs are asked one right after the other, because bytes per offset come out of the two.

A broker that does not answer costs what it alone knows, and the snapshot says so: its logs' ends
are null, its groups are absent. Without the metadata there is no snapshot at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeVar

from placement_core import TopicPartition
from rackward.admin import (
    AdminConnection,
    AdminError,
    AdminTimeoutError,
    TooLargeError,
    UnreachableError,
    read_sizes,
)
from rackward.admin.groups import (
    CLASSIC,
    CONSUMER,
    ListedGroup,
    describe_classic_groups,
    describe_consumer_groups,
    list_groups,
    read_committed,
)
from rackward.admin.offsets import EARLIEST, LATEST, read_layout, read_log_offsets
from rackward.collector.config import Selection
from rackward.collector.rows import (
    Row,
    Snapshot,
    broker_rows,
    commit_rows,
    faults_of,
    member_rows,
    partition_rows,
)
from rackward.host_racks import RackMap

GROUPS_AT_ONCE = 50
PARTITIONS_AT_ONCE = 5000
MOST_FAULTS = 1000
"""How many faults one snapshot tells of; a cluster can have any number of odd members."""

STREAMS = "streams"

# Brokers do not tell what they keep from a user.
NO_TOPIC = "topics: none is shown; if there are any, allow this user Describe on them"
NO_GROUP = "groups: none is shown; if there are any, allow this user Describe on them"

Name = TypeVar("Name")
Answer = TypeVar("Answer")


def take_snapshot(
    admin: AdminConnection,
    cluster: str,
    selection: Selection,
    racks: RackMap,
    pace: Callable[[], None],
    clock: Callable[[], datetime],
) -> Snapshot:
    """The cluster as it is now; ``pace`` is called before every request.

    Raises AdminError where the cluster cannot be asked at all, and whatever ``pace`` raises.
    """
    return _Pass(admin, cluster, selection, racks, pace, clock).run()


@dataclass
class _Logs:
    """What brokers tell of the logs that they lead, and when they did."""

    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    read_at: dict[int, datetime] = field(default_factory=dict)


@dataclass
class _Pass:
    admin: AdminConnection
    cluster: str
    selection: Selection
    racks: RackMap
    pace: Callable[[], None]
    clock: Callable[[], datetime]
    faults: dict[str, None] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    groups_shown: bool = False

    def run(self) -> Snapshot:
        began = self.clock()
        self.pace()
        state, epochs = read_layout(self.admin, internal=self.selection.internal)
        at = self.clock()
        if not state.topics:
            self._note(NO_TOPIC)
        if not self.selection.topics.all:
            state = state.only([t for t in state.topics if self.selection.topics.take(t)])
        logs = _Logs()
        led: dict[int, list[TopicPartition]] = {}
        for place, leader in sorted(state.view.leaders.items()):
            led.setdefault(leader, []).append(place)
        for leader, places in led.items():
            self._read_logs(leader, places, logs)
        members: list[Row] = []
        commits: list[Row] = []
        seen: set[str] = set()
        for broker in state.view.brokers:
            self._read_groups(broker.id, seen, members, commits)
        if not self.groups_shown and not self.silent:
            self._note(NO_GROUP)
        tables = {
            "brokers": broker_rows(self.cluster, state, at),
            "partitions": partition_rows(
                self.cluster,
                state,
                epochs,
                logs.starts,
                logs.ends,
                logs.sizes,
                logs.read_at,
                at,
            ),
            "members": members,
            "commits": commits,
        }
        return Snapshot(self.cluster, began, tables, tuple(self.faults), len(seen))

    def _read_logs(self, leader: int, places: Sequence[TopicPartition], logs: _Logs) -> None:
        offsets = partial(read_log_offsets, self.admin, leader)
        for found in self._ask_each(leader, places, partial(offsets, which=EARLIEST)):
            logs.starts |= found
        for start in range(0, len(places), PARTITIONS_AT_ONCE):
            some = places[start : start + PARTITIONS_AT_ONCE]
            for sizes in self._ask_each(leader, some, partial(read_sizes, self.admin, [leader])):
                logs.sizes |= {place: size.bytes for (place, _), size in sizes.items()}
            for found in self._ask_each(leader, some, partial(offsets, which=LATEST)):
                logs.ends |= found
        logs.read_at[leader] = self.clock()

    def _read_groups(
        self, broker: int, seen: set[str], members: list[Row], commits: list[Row]
    ) -> None:
        listed = self._ask(broker, partial(list_groups, self.admin, broker)) or []
        self.groups_shown = self.groups_shown or bool(listed)
        chosen = sorted(
            (each for each in listed if self._wanted(each) and each.id not in seen),
            key=lambda group: group.id,
        )
        seen.update(each.id for each in chosen)
        for kind, describe in (
            (CLASSIC, describe_classic_groups),
            (CONSUMER, describe_consumer_groups),
        ):
            ids = [each.id for each in chosen if each.type == kind]
            ask = partial(describe, self.admin, broker)
            for groups, refused in self._ask_each(broker, ids, ask, GROUPS_AT_ONCE):
                at = self.clock()
                self._note(*map(str, refused.values()))
                for group in groups:
                    members += member_rows(self.cluster, group, self.racks, at)
                    self._note(*faults_of(group))
        ids = [each.id for each in chosen]
        ask_offsets = partial(read_committed, self.admin, broker)
        for committed, refused in self._ask_each(broker, ids, ask_offsets, GROUPS_AT_ONCE):
            at = self.clock()
            self._note(*map(str, refused.values()))
            take = self.selection.topics.take
            for name, offsets in sorted(committed.items()):
                commits += commit_rows(self.cluster, name, offsets, take, at)

    def _ask(self, broker: int, question: Callable[[], Answer]) -> Answer | None:
        """The answer, or None where there is none, which is noted.

        A broker that was silent once is not asked again in this pass. Raises TooLargeError.
        """
        if broker in self.silent:
            return None
        self.pace()
        try:
            return question()
        except TooLargeError:
            raise
        except AdminError as error:
            self._note(str(error))
            if isinstance(error, UnreachableError | AdminTimeoutError):
                self.silent.add(broker)
            return None

    def _ask_each(
        self,
        broker: int,
        names: Sequence[Name],
        question: Callable[[Sequence[Name]], Answer],
        at_once: int = PARTITIONS_AT_ONCE,
    ) -> Iterator[Answer]:
        """Answers about ``names``, so many at once; fewer where the answer is too large."""
        for start in range(0, len(names), at_once):
            some = names[start : start + at_once]
            try:
                answer = self._ask(broker, partial(question, some))
            except TooLargeError as error:
                if len(some) == 1:
                    self._note(f"{some[0]}: {error}")
                else:
                    yield from self._ask_each(broker, some, question, (len(some) + 1) // 2)
            else:
                if answer is not None:
                    yield answer

    def _note(self, *faults: str) -> None:
        for fault in faults:
            if len(self.faults) < MOST_FAULTS:
                self.faults[fault] = None

    def _wanted(self, group: ListedGroup) -> bool:
        """Consumers: not Connect's workers, say, nor share groups, which commit nothing."""
        return (
            group.type in (CLASSIC, CONSUMER, STREAMS)
            and group.protocol_type in ("", CONSUMER, STREAMS)
            and self.selection.groups.take(group.id)
        )
