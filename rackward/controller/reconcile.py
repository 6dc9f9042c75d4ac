"""What to do about pending replicas, given the cluster's state: a pure function.

Each partition with pending replicas passes through steps that leave a record behind, so that a
controller that is killed, or loses its lease, leaves its successor what it needs to continue:

1. *record*   the chosen replica list is written into the record (``assigned``);
2. *request*  the reassignment is requested; requesting the same list again changes nothing;
3. *complete* the cluster's state has the replicas: the partition is removed from the record;
4. *delete*   a record without partitions is deleted.

The cluster's state takes precedence over the record: a partition that has its replicas is never
requested again, and a partition under another reassignment is left alone until that is complete.

Whoever may write the topic of pending replicas writes the record, so no list is requested on its
word alone: see `is_safe`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from placement_core import ClusterView, TopicPartition
from placement_core.placers.under_replicated import (
    ReplicationTarget,
    counted_replicas,
    fill_placeholders,
)
from rackward.kafka import ClusterState
from rackward.topics.pending_replicas import PendingReplicas, layout_digest


@dataclass(frozen=True, slots=True)
class ReconcileTimeouts:
    """Timeouts in seconds.

    ``missing``: how long a topic may be absent, or be another topic of that name, before its
    record is deleted; a broker that has just restarted may not return it yet. ``stuck``: how long a
    broker that is to get a replica may be down before another is chosen.
    """

    missing: float = 60.0
    stuck: float = 300.0


@dataclass(frozen=True, slots=True)
class ReconcileState:
    """When a fault was first seen, in seconds of the clock: ``missing`` by the key of a record,
    ``stuck`` by partition."""

    missing: Mapping[str, float] = field(default_factory=dict)
    stuck: Mapping[TopicPartition, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReconcilePlan:
    """The steps to take, in this order.

    records
        Records to write.
    deleted
        Keys of records to delete, each with the reason.
    targets
        Replica lists to request; None cancels the reassignment in progress.
    log_lines
        What is new, for the log.
    in_progress
        The number of partitions that are getting replicas, ``targets`` included.
    waiting
        The number of replicas that no live broker can take.
    state
        For the next call.
    """

    records: tuple[PendingReplicas, ...] = ()
    deleted: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[TopicPartition, tuple[int, ...] | None] = field(default_factory=dict)
    log_lines: tuple[str, ...] = ()
    in_progress: int = 0
    waiting: int = 0
    state: ReconcileState = field(default_factory=ReconcileState)


def plan(
    records: Mapping[str, PendingReplicas],
    cluster: ClusterState,
    view: ClusterView,
    now: float,
    state: ReconcileState,
    max_in_progress: int,
    timeouts: ReconcileTimeouts | None = None,
) -> ReconcilePlan:
    """Return the steps for these records, by key.

    ``cluster`` has at least the records' topics, with the reassignments in progress. ``view`` is
    the same with the locator's racks and, where the load of brokers is to count, with all topics.
    ``now`` is in seconds of the clock that ``state`` was made with.
    """
    planner = _Planner(cluster, view, now, state, timeouts or ReconcileTimeouts())
    for key in sorted(records):
        planner.compare(records[key])
    planner.assign(max_in_progress)
    return planner.plan()


def is_safe(
    row: Sequence[int],
    present: Sequence[int],
    record: PendingReplicas,
    live: Collection[int],
    in_sync: Collection[int],
) -> bool:
    """Return whether a partition with the replicas ``present`` may be given the list ``row``.

    Replicas may be added, up to the record's replication factor. None may be removed, except those
    that took the place of missing ones when the partition was created (``offline_replicas``), are
    down and are not in sync, each replaced by another. So the list never becomes shorter, all
    replicas with data stay, in their order, and at least one of them is live.
    """
    kept = [broker for broker in row if broker in present]
    removed = set(present).difference(row)
    added = set(row).difference(present)
    limit = max(len(present), record.replication_factor)
    return (
        len(set(row)) == len(row)
        and len(present) <= len(row) <= limit
        and removed <= record.offline_replicas
        and not removed.intersection(live)
        and not removed.intersection(in_sync)
        and added.issubset(live)
        and [broker for broker in present if broker in live] == [b for b in kept if b in live]
        and not set(kept).isdisjoint(live)
    )


class _Planner:
    """Builds a plan: `compare` each record with the cluster, then `assign` replicas."""

    def __init__(
        self,
        cluster: ClusterState,
        view: ClusterView,
        now: float,
        state: ReconcileState,
        timeouts: ReconcileTimeouts,
    ) -> None:
        self._cluster, self._view, self._now = cluster, view, now
        self._state, self._timeouts = state, timeouts
        self._live = view.racks().keys()
        self._before: dict[str, PendingReplicas] = {}
        self._after: dict[str, PendingReplicas] = {}
        self._deleted: dict[str, str] = {}
        self._targets: dict[TopicPartition, tuple[int, ...] | None] = {}
        self._log_lines: list[str] = []
        self._missing: dict[str, float] = {}
        self._stuck: dict[TopicPartition, float] = {}
        self._in_progress = 0
        self._waiting = 0

    def compare(self, record: PendingReplicas) -> None:
        """Update a record from the cluster's state, or delete it."""
        self._before[record.key] = record
        if (reason := self._why_missing(record)) is not None:
            since = self._state.missing.get(record.key, self._now)
            if self._now - since >= self._timeouts.missing:
                self._deleted[record.key] = reason
                self._log_lines.append(f"{record.topic}: record deleted: {reason}")
            else:
                self._missing[record.key] = since
            return
        if record.topic_id is None:
            record = replace(record, topic_id=self._cluster.topic_ids[record.topic])
        complete = {number for number in record.partitions if self._is_complete(record, number)}
        if complete:
            record = replace(
                record,
                partitions=tuple(each for each in record.partitions if each not in complete),
                assigned={n: row for n, row in record.assigned.items() if n not in complete},
            )
            self._log_lines.append(
                f"{record.topic}: {len(complete)} partitions have all "
                f"{record.replication_factor} replicas"
            )
        if not record.partitions:
            self._deleted[record.key] = "all partitions are complete"
            self._log_lines.append(f"{record.topic}: all placeholders are filled")
            return
        self._after[record.key] = record

    def assign(self, max_in_progress: int) -> None:
        """Request recorded replica lists again, and choose more up to ``max_in_progress``."""
        targets: dict[TopicPartition, ReplicationTarget] = {}
        owners: dict[TopicPartition, str] = {}
        for key, record in self._after.items():
            for number in record.partitions:
                tp = TopicPartition(record.topic, number)
                if tp in owners or tp not in self._cluster.view.replicas:
                    continue
                owners[tp] = key
                if tp in self._cluster.reassignments:
                    self._in_progress += 1
                    self._cancel_if_stuck(record, tp)
                elif self._request_again(record, tp):
                    self._in_progress += 1
                else:
                    targets[tp] = record.target
        possible = fill_placeholders(
            self._view, targets, self._cluster.reassignments.keys(), self._cluster.fenced
        )
        possible = {
            tp: row
            for tp, row in possible.items()
            if self._is_safe(self._after[owners[tp]], tp, row)
        }
        room = max(0, max_in_progress - self._in_progress)
        chosen = dict(sorted(possible.items())[:room])
        self._in_progress += len(chosen)
        for tp, row in chosen.items():
            record = self._after[owners[tp]]
            assigned = {**record.assigned, tp.partition: row}
            self._after[record.key] = replace(record, assigned=assigned)
            self._targets[tp] = row
        for tp, target in targets.items():
            row = possible.get(tp, self._view.replicas[tp])
            counted = counted_replicas(row, target, self._live)
            self._waiting += max(0, target.replication_factor - len(counted))
        self._log_chosen(chosen)

    def plan(self) -> ReconcilePlan:
        """Return the plan."""
        return ReconcilePlan(
            records=tuple(
                record for key, record in self._after.items() if record != self._before[key]
            ),
            deleted=self._deleted,
            targets=self._targets,
            log_lines=tuple(self._log_lines),
            in_progress=self._in_progress,
            waiting=self._waiting,
            state=ReconcileState(self._missing, self._stuck),
        )

    def _why_missing(self, record: PendingReplicas) -> str | None:
        """Return why the record's topic does not exist in the cluster, None if it does."""
        replicas = self._cluster.view.replicas
        if record.topic not in self._cluster.topic_ids:
            fate = "was never created" if record.topic_id is None else "was deleted"
            return f"the topic {fate}"
        topic_id = self._cluster.topic_ids[record.topic]
        if record.topic_id is not None and topic_id != record.topic_id:
            return "the topic was deleted and created again"
        rows = {
            number: replicas[tp]
            for number in record.partitions
            if (tp := TopicPartition(record.topic, number)) in replicas
        }
        if not rows:
            return "its partitions were never created"
        if record.topic_id is None and layout_digest(rows) != record.layout:
            return "the topic was created by another program, with another layout"
        return None

    def _is_complete(self, record: PendingReplicas, number: int) -> bool:
        tp = TopicPartition(record.topic, number)
        if tp in self._cluster.reassignments:
            return False
        row = self._cluster.view.replicas.get(tp, ())
        counted = counted_replicas(row, record.target, self._live)
        # An offline replica whose broker has returned counts once it is in sync.
        behind = record.offline_replicas.intersection(counted).difference(
            self._cluster.in_sync.get(tp, ())
        )
        return len(counted) >= record.replication_factor and not behind

    def _cancel_if_stuck(self, record: PendingReplicas, tp: TopicPartition) -> None:
        """Cancel our reassignment if it has waited too long for a broker that is down, and another
        broker can take the replica."""
        reassignment = self._cluster.reassignments[tp]
        ours = record.assigned.get(tp.partition)
        down = [broker for broker in reassignment.adding if broker not in self._live]
        if not down or ours is None or set(reassignment.target) != set(ours):
            return
        before = reassignment.original
        view = replace(self._view, replicas={**self._view.replicas, tp: before})
        if not fill_placeholders(view, {tp: record.target}, offline_brokers=self._cluster.fenced):
            return
        since = self._state.stuck.get(tp, self._now)
        if self._now - since < self._timeouts.stuck:
            self._stuck[tp] = since
            return
        self._targets[tp] = None
        current = self._after[record.key]
        assigned = {n: row for n, row in current.assigned.items() if n != tp.partition}
        self._after[record.key] = replace(current, assigned=assigned)
        self._log_lines.append(
            f"{tp.topic}-{tp.partition}: broker {down[0]} stays down; choosing another"
        )

    def _request_again(self, record: PendingReplicas, tp: TopicPartition) -> bool:
        """Request the recorded replica list if it is still possible and not there yet."""
        row = record.assigned.get(tp.partition)
        if row is None:
            return False
        present = self._cluster.view.replicas[tp]
        if not set(row).difference(present):
            return False
        if not self._is_safe(record, tp, row):
            # A broker is down, another program has moved the partition, or the record was forged.
            return False
        self._targets[tp] = row
        return True

    def _is_safe(self, record: PendingReplicas, tp: TopicPartition, row: Sequence[int]) -> bool:
        present = self._cluster.view.replicas[tp]
        return is_safe(row, present, record, self._live, self._cluster.in_sync.get(tp, ()))

    def _log_chosen(self, chosen: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        by_topic: dict[str, dict[TopicPartition, tuple[int, ...]]] = {}
        for tp, row in chosen.items():
            by_topic.setdefault(tp.topic, {})[tp] = row
        for topic, rows in by_topic.items():
            present = {broker for tp in rows for broker in self._view.replicas[tp]}
            new = sorted({broker for row in rows.values() for broker in row} - present)
            self._log_lines.append(
                f"{topic}: adding replicas of {len(rows)} partitions on brokers {new}"
            )
