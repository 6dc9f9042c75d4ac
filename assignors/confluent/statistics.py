"""Complete the statistics for ``stats_cb`` with what the group member knows.

librdkafka reads partitions that are assigned to it, and is not a member of the group. So its
statistics lack the fields of the group (``cgrp``), and the committed offsets of partitions whose
commits go through the member, and with these the ``consumer_lag``. The names and units of all
fields are in librdkafka's STATISTICS.md. Its own values are kept in all other fields, and before
the first subscription.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from assignors.confluent.assignment import PartitionAssignment
from assignors.confluent.commits import OffsetCommitter
from assignors.confluent.events import RebalanceKind
from assignors.confluent.member import GroupMember
from assignors.confluent.offsets import PartitionKey, Position


@dataclass(frozen=True)
class GroupFields:
    """The fields of ``cgrp``. Ages are in milliseconds."""

    state: str = "init"
    stateage: int = 0
    join_state: str = "init"
    rebalance_age: int = 0
    rebalance_cnt: int = 0
    rebalance_reason: str = ""
    assignment_size: int = 0


def complete_statistics(
    text: str,
    group: GroupFields,
    committed: Mapping[PartitionKey, Position],
    *,
    read_committed: bool,
) -> str:
    """Return the JSON object ``text`` with ``cgrp``, and with the offsets in ``committed``.

    ``consumer_lag`` is counted to the last stable offset if ``read_committed``, else to the high
    watermark. Text that is no JSON object, and parts of it that have an unknown form, stay as they
    are.
    """
    try:
        statistics = json.loads(text)
    except ValueError:
        return text
    if not isinstance(statistics, dict):
        return text
    statistics["cgrp"] = _object(statistics.get("cgrp")) | vars(group)
    topics = _object(statistics.get("topics"))
    end_field = "ls_offset" if read_committed else "hi_offset"
    for (topic, partition), position in committed.items():
        partitions = _object(_object(topics.get(topic)).get("partitions"))
        fields = partitions.get(str(partition))
        if isinstance(fields, dict):
            fields.update(_committed_fields(position, fields.get(end_field)))
    return json.dumps(statistics, separators=(",", ":"))


def _committed_fields(position: Position, end: object) -> dict[str, int]:
    known = isinstance(end, int) and 0 <= position.offset <= end
    return {
        "commited_offset": position.offset,  # librdkafka writes this name too.
        "committed_offset": position.offset,
        "committed_leader_epoch": position.leader_epoch,
        "consumer_lag": end - position.offset if known and isinstance(end, int) else -1,
    }


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class _Membership(Protocol):
    """What :func:`join_state` reads of a :class:`GroupMember`."""

    @property
    def is_stable(self) -> bool: ...
    @property
    def is_joining(self) -> bool: ...


def join_state(member: _Membership, handling: RebalanceKind | None) -> str:
    """Return librdkafka's name of the state of a join.

    ``handling`` is the rebalance that the application is handling.
    """
    if handling is not None:
        assigning = handling is RebalanceKind.ASSIGN
        return "wait-assign-call" if assigning else "wait-unassign-call"
    if member.is_stable:
        return "steady"
    return "wait-join" if member.is_joining else "init"


class Statistics:
    """Completes the statistics of one consumer, for the application's ``stats_cb``."""

    def __init__(
        self,
        member: GroupMember,
        assignment: PartitionAssignment,
        committer: OffsetCommitter,
        *,
        read_committed: bool,
    ) -> None:
        self._member = member
        self._assignment = assignment
        self._committer = committer
        self._read_committed = read_committed
        self._state = "init"
        self._state_since = time.monotonic()

    def observe(self, now: float) -> None:
        """Record the time of a change of the state. Called at each tick."""
        state = self._member.state
        if state != self._state:
            self._state, self._state_since = state, now

    def complete(self, text: str) -> str:
        """Return the statistics in ``text`` with the fields of the group filled in."""
        assignment = self._assignment
        if not self._member.is_subscribed and not assignment.rebalances:
            return text
        now = time.monotonic()
        self.observe(now)
        group = GroupFields(
            state=self._state,
            stateage=_milliseconds(now - self._state_since),
            join_state=join_state(self._member, assignment.handling),
            rebalance_age=(
                0
                if assignment.last_rebalance is None
                else _milliseconds(now - assignment.last_rebalance)
            ),
            rebalance_cnt=assignment.rebalances,
            rebalance_reason=self._member.rebalance_reason,
            assignment_size=len(assignment.owned or ()),
        )
        return complete_statistics(
            text, group, self._committer.committed(), read_committed=self._read_committed
        )


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def completed(
    stats_cb: Callable[[str], object], statistics: Callable[[], Statistics | None]
) -> Callable[[str], object]:
    """Return a ``stats_cb`` for librdkafka that calls the application's with completed statistics.

    ``statistics`` returns None while there are none to complete.
    """

    def complete(text: str) -> object:
        known = statistics()
        return stats_cb(text if known is None else known.complete(text))

    return complete
