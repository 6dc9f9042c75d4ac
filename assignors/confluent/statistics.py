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
from collections.abc import Mapping
from typing import Any

from assignors.confluent.commits import OffsetCommitter
from assignors.confluent.config import Configuration
from assignors.confluent.events import PartitionKey, Position, RebalanceKind
from assignors.confluent.member import GroupMember
from assignors.confluent.rebalance import PartitionAssignment


def complete_statistics(
    text: str,
    group: Mapping[str, object],
    committed: Mapping[PartitionKey, Position],
    *,
    read_committed: bool,
) -> str:
    """Return the JSON object ``text`` with these fields of ``cgrp``, and with committed offsets.

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
    statistics["cgrp"] = _object(statistics.get("cgrp")) | dict(group)
    topics = _object(statistics.get("topics"))
    end_field = "ls_offset" if read_committed else "hi_offset"
    for (topic, partition), position in committed.items():
        partitions = _object(_object(topics.get(topic)).get("partitions"))
        fields = partitions.get(str(partition))
        if isinstance(fields, dict):
            end: Any = fields.get(end_field)
            has_lag = isinstance(end, int) and 0 <= position.offset <= end
            fields |= {
                "commited_offset": position.offset,  # librdkafka writes this name too.
                "committed_offset": position.offset,
                "committed_leader_epoch": position.leader_epoch,
                "consumer_lag": end - position.offset if has_lag else -1,
            }
    return json.dumps(statistics, separators=(",", ":"))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class Statistics:
    """Completes the statistics of one consumer, for the application's ``stats_cb``."""

    def __init__(
        self,
        configuration: Configuration,
        member: GroupMember,
        assignment: PartitionAssignment,
        committer: OffsetCommitter,
    ) -> None:
        self._read_committed = configuration.kafka_python["isolation_level"] == "read_committed"
        self._member = member
        self._assignment = assignment
        self._committer = committer
        self._state = "init"
        self._state_since = time.monotonic()

    def observe(self, now: float) -> None:
        """Record the time of a change of the coordinator's state. Called at each tick."""
        coordinator = self._member.coordinator
        known = coordinator is not None and coordinator.coordinator_id is not None
        state = "term" if self._member.closing else "up" if known else "query-coord"
        if state != self._state:
            self._state, self._state_since = state, now

    def complete(self, text: str) -> str:
        """Return the statistics in ``text`` with the fields of the group filled in."""
        member, assignment = self._member, self._assignment
        if not member.is_subscribed and not assignment.rebalances:
            return text
        now = time.monotonic()
        self.observe(now)
        last_rebalance = now if assignment.last_rebalance is None else assignment.last_rebalance
        group = {
            "state": self._state,
            "stateage": int((now - self._state_since) * 1000),
            "join_state": self._join_state(),
            "rebalance_age": int((now - last_rebalance) * 1000),
            "rebalance_cnt": assignment.rebalances,
            "rebalance_reason": member.coordinator.rebalance_reason if member.coordinator else "",
            "assignment_size": len(assignment.owned or ()),
        }
        return complete_statistics(
            text, group, self._committer.committed(), read_committed=self._read_committed
        )

    def _join_state(self) -> str:
        """Return librdkafka's name of the state of a join."""
        if self._assignment.handling is RebalanceKind.ASSIGN:
            return "wait-assign-call"
        if self._assignment.handling is not None:
            return "wait-unassign-call"
        if self._member.is_stable:
            return "steady"
        coordinator = self._member.coordinator
        joining = coordinator is not None and coordinator.rebalance_in_progress()
        return "wait-join" if joining else "init"
