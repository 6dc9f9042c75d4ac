"""Adding pending replicas: what to do, given the cluster's state, and passes that do it.

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

`plan` decides, and is pure. A pass of the `Reconciler` reads the records and the cluster's state,
plans, and then writes records, sets the throttle and requests reassignments, in that order.
`ControllerCluster` makes each change within `Lease.fenced`, so a pass ends with LeaseLostError
where another controller may have taken over.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from placement_core import ClusterView, TopicPartition
from placement_core.cluster import Move
from placement_core.locators import RackLocator, apply_locator
from placement_core.placers.under_replicated import (
    ReplicationTarget,
    counted_replicas,
    fill_placeholders,
)
from rackward.controller.lease import ControllerCluster, Lease, LeaseLostError
from rackward.kafka import ClusterState
from rackward.topics.pending_replicas import (
    PENDING_REPLICAS_TOPIC,
    PendingReplicas,
    layout_digest,
)
from rackward.units import format_bytes

MISSING_SECONDS = 60.0
"""How long a topic may be absent, or be another topic of that name, before its record is deleted. A
broker that has just restarted may not return it yet."""
STUCK_SECONDS = 300.0
"""How long a broker that is to get a replica may be down before another is chosen."""
TOPIC_MISSING_SECONDS = 5.0
"""How long the topic of pending replicas has to be absent before it is created again."""

log = logging.getLogger("rackward.controller")


@dataclass(slots=True)
class ReconcileState:
    """When a fault was first seen, in seconds of the clock: ``missing`` by the key of a record,
    ``stuck`` by partition."""

    missing: dict[str, float] = field(default_factory=dict)
    stuck: dict[TopicPartition, float] = field(default_factory=dict)


@dataclass(slots=True)
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

    records: list[PendingReplicas] = field(default_factory=list)
    deleted: dict[str, str] = field(default_factory=dict)
    targets: dict[TopicPartition, tuple[int, ...] | None] = field(default_factory=dict)
    log_lines: list[str] = field(default_factory=list)
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
) -> ReconcilePlan:
    """Return the steps for these records, by key.

    ``cluster`` has at least the records' topics, with the reassignments in progress. ``view`` is
    the same with the locator's racks and, where the load of brokers is to count, with all topics.
    ``now`` is in seconds of the clock that ``state`` was made with.
    """
    planner = _Planner(cluster, view, now, state)
    for key in sorted(records):
        planner.compare(records[key])
    planner.assign(max_in_progress)
    steps = planner.steps
    steps.records = [each for key, each in planner.after.items() if each != records[key]]
    return steps


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
    """Builds the ``steps``: `compare` each record with the cluster, then `assign` replicas.

    ``after`` are the records that are not deleted, as they have to be.
    """

    def __init__(
        self,
        cluster: ClusterState,
        view: ClusterView,
        now: float,
        state: ReconcileState,
    ) -> None:
        self._cluster, self._view, self._now, self._state = cluster, view, now, state
        self._live = view.racks().keys()
        self.after: dict[str, PendingReplicas] = {}
        self.steps = ReconcilePlan()

    def compare(self, record: PendingReplicas) -> None:
        """Update a record from the cluster's state, or delete it."""
        if (reason := self._why_missing(record)) is not None:
            since = self._state.missing.get(record.key, self._now)
            if self._now - since >= MISSING_SECONDS:
                self.steps.deleted[record.key] = reason
                self.steps.log_lines.append(f"{record.topic}: record deleted: {reason}")
            else:
                self.steps.state.missing[record.key] = since
            return
        if record.topic_id is None:
            record = replace(record, topic_id=self._cluster.topic_ids[record.topic])
        complete = {number for number in record.partitions if self._is_complete(record, number)}
        if complete:
            record = replace(
                record,
                partitions=tuple(number for number in record.partitions if number not in complete),
                assigned={n: row for n, row in record.assigned.items() if n not in complete},
            )
            self.steps.log_lines.append(
                f"{record.topic}: {len(complete)} partitions have all "
                f"{record.replication_factor} replicas"
            )
        if not record.partitions:
            self.steps.deleted[record.key] = "all partitions are complete"
            self.steps.log_lines.append(f"{record.topic}: all placeholders are filled")
            return
        self.after[record.key] = record

    def assign(self, max_in_progress: int) -> None:
        """Request recorded replica lists again, and choose more up to ``max_in_progress``."""
        targets: dict[TopicPartition, ReplicationTarget] = {}
        owners: dict[TopicPartition, str] = {}
        for key, record in self.after.items():
            for number in record.partitions:
                tp = TopicPartition(record.topic, number)
                if tp in owners or tp not in self._cluster.view.replicas:
                    continue
                owners[tp] = key
                if tp in self._cluster.reassignments:
                    self.steps.in_progress += 1
                    self._cancel_if_stuck(record, tp)
                elif self._request_again(record, tp):
                    self.steps.in_progress += 1
                else:
                    targets[tp] = record.target
        possible = fill_placeholders(
            self._view, targets, self._cluster.reassignments.keys(), self._cluster.fenced
        )
        possible = {
            tp: row
            for tp, row in possible.items()
            if self._is_safe(self.after[owners[tp]], tp, row)
        }
        room = max(0, max_in_progress - self.steps.in_progress)
        chosen = dict(sorted(possible.items())[:room])
        self.steps.in_progress += len(chosen)
        for tp, row in chosen.items():
            record = self.after[owners[tp]]
            assigned = {**record.assigned, tp.partition: row}
            self.after[record.key] = replace(record, assigned=assigned)
            self.steps.targets[tp] = row
        for tp, target in targets.items():
            row = possible.get(tp, self._view.replicas[tp])
            counted = counted_replicas(row, target, self._live)
            self.steps.waiting += max(0, target.replication_factor - len(counted))
        self._log_chosen(chosen)

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
        """Cancel the recorded reassignment if it has waited too long for a broker that is down, and
        another broker can take the replica."""
        reassignment = self._cluster.reassignments[tp]
        requested = record.assigned.get(tp.partition)
        down = [broker for broker in reassignment.adding if broker not in self._live]
        if not down or requested is None or set(reassignment.target) != set(requested):
            return
        before = reassignment.original
        view = replace(self._view, replicas={**self._view.replicas, tp: before})
        if not fill_placeholders(view, {tp: record.target}, offline_brokers=self._cluster.fenced):
            return
        since = self._state.stuck.get(tp, self._now)
        if self._now - since < STUCK_SECONDS:
            self.steps.state.stuck[tp] = since
            return
        self.steps.targets[tp] = None
        current = self.after[record.key]
        assigned = {n: row for n, row in current.assigned.items() if n != tp.partition}
        self.after[record.key] = replace(current, assigned=assigned)
        self.steps.log_lines.append(
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
        self.steps.targets[tp] = row
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
            self.steps.log_lines.append(
                f"{topic}: adding replicas of {len(rows)} partitions on brokers {new}"
            )


# ---- Passes.


def _metric(help: str, default: int = 0) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, slots=True)
class ReconcileStatus:
    """The status after the last pass, as metrics with their help."""

    active: bool = _metric("1 if this controller has the lease.", default=False)
    pending_records: int = _metric("Records of pending replicas.")
    pending_partitions: int = _metric("Partitions that lack replicas.")
    partitions_in_progress: int = _metric("Partitions that get replicas now.")
    placeholders_waiting: int = _metric("Replicas that no live broker can take.")
    topic_offsets: int = _metric("Offsets of the topic of pending replicas.")
    topic_offsets_read: int = _metric(
        "Offsets read since this controller got the lease; topic_offsets if it has all."
    )


class Reconciler:
    """One controller's work on pending replicas.

    ``locator`` returns the racks; None places without racks. ``clock`` counts seconds. ``throttle``
    is in bytes per second and broker; None does not throttle.
    """

    def __init__(
        self,
        cluster: ControllerCluster,
        lease: Lease,
        locator: RackLocator | None,
        clock: Callable[[], float],
        *,
        max_in_progress: int,
        throttle: int | None,
    ) -> None:
        self._cluster, self._lease, self._locator = cluster, lease, locator
        self._clock, self._max_in_progress, self._throttle = clock, max_in_progress, throttle
        self._state = ReconcileState()
        self._topic_id: str | None = None
        self._topic_missing_since: float | None = None
        self._known: Mapping[str, PendingReplicas] = {}
        self._known_at = -math.inf
        """The records when this controller had them all last, and that time of the clock."""
        self._refused: dict[TopicPartition, str] = {}
        self._throttled: bool | None = None
        """None: unknown, since another controller may have throttled."""
        self.status = ReconcileStatus()
        self.requested = 0
        """Reassignments that were requested and not refused."""

    def run_once(self, seconds: float) -> None:
        """Read records for ``seconds``, then do what there is to do.

        Raises AdminError, and LeaseLostError if the lease was lost meanwhile.
        """
        self._lease.poll(seconds)
        records = self._lease.records
        topics = {PENDING_REPLICAS_TOPIC, *(record.topic for record in records.values())}
        cluster = self._cluster.read_state(topics)
        if self._restore_topic(cluster, records) or not self._lease.ready:
            self.status, self._throttled = self._status(), None
            return
        self._known, self._known_at = records, self._clock()
        steps = self._plan(records, cluster)
        if any(row is not None for row in steps.targets.values()):
            # Replicas are chosen by the load of brokers, which takes all topics.
            cluster = self._cluster.read_state(None)
            steps = self._plan(records, cluster)
        self._state = steps.state
        self.status = replace(
            self._status(),
            active=True,
            pending_records=len(records),
            pending_partitions=sum(len(record.partitions) for record in records.values()),
            partitions_in_progress=steps.in_progress,
            placeholders_waiting=steps.waiting,
        )
        # The controller that requested these may have been killed before removing its throttle.
        idle = not steps.in_progress and any(record.assigned for record in records.values())
        try:
            self._execute(steps, cluster, remove_throttle=idle and self._throttled is not False)
        except LeaseLostError:
            self.status, self._throttled = self._status(), None
            raise

    def _status(self) -> ReconcileStatus:
        progress = self._lease.progress
        if progress is None:
            return ReconcileStatus()
        return ReconcileStatus(topic_offsets=progress.offsets, topic_offsets_read=progress.read)

    def _plan(self, records: Mapping[str, PendingReplicas], cluster: ClusterState) -> ReconcilePlan:
        return plan(
            records,
            cluster,
            self._view(cluster),
            self._clock(),
            self._state,
            self._max_in_progress,
        )

    def _view(self, cluster: ClusterState) -> ClusterView:
        if self._locator is None:
            return cluster.view.without_racks()
        return apply_locator(self._locator, cluster.view)

    def _execute(
        self, steps: ReconcilePlan, cluster: ClusterState, *, remove_throttle: bool
    ) -> None:
        if remove_throttle:
            # First of all: once the records are deleted, a successor would not look for it.
            if self._cluster.remove_throttle():
                log.info("throttle removed: nothing is being copied")
            self._throttled = False
        if steps.records or steps.deleted:
            self._cluster.write(steps.records, steps.deleted.keys())
            self._known = self._lease.records
        for line in steps.log_lines:
            log.info("%s", line)
        moves = [
            Move(tp, cluster.view.replicas[tp], row)
            for tp, row in sorted(steps.targets.items())
            if row is not None
        ]
        if moves and self._throttle is not None:
            if not self._throttled:
                log.info("throttling replication to %s per second", format_bytes(self._throttle))
            self._throttled = True
            self._cluster.throttle(self._throttle, moves)
        if not steps.targets:
            return
        refused = self._cluster.reassign(steps.targets)
        self.requested += len(steps.targets) - len(refused)
        for tp, error in refused.items():
            if self._refused.get(tp) != str(error):
                log.warning("%s", error)
        self._refused = {tp: str(error) for tp, error in refused.items()}
        moves = [move for move in moves if move.partition not in refused]
        if moves and self._throttle is not None:
            # Again: a run that ended meanwhile may have removed what was not requested yet.
            self._cluster.throttle(self._throttle, moves)

    def _restore_topic(self, cluster: ClusterState, records: Mapping[str, PendingReplicas]) -> bool:
        """Create the topic of pending replicas again if it was deleted, and write its records;
        return whether it was deleted.

        Every controller does so that has known all records a moment ago. The deletion itself takes
        the lease away from its owner, and the new topic gives it back, without records.
        """
        topic_id = cluster.topic_ids.get(PENDING_REPLICAS_TOPIC)
        exists = PENDING_REPLICAS_TOPIC in cluster.topic_ids
        now = self._clock()
        if exists and topic_id in (self._topic_id, None):
            self._topic_missing_since = None
            if not self._lease.owned and now - self._known_at > TOPIC_MISSING_SECONDS:
                # They are out of date by now.
                self._known = {}
            return False
        if self._topic_id is None:
            self._topic_id = topic_id
            return False
        if self._topic_missing_since is None:
            self._topic_missing_since = now
        if now - self._topic_missing_since < TOPIC_MISSING_SECONDS:
            return True
        restored = {**self._known, **records}
        log.warning(
            "topic %s was deleted%s: writing its %d records again",
            PENDING_REPLICAS_TOPIC,
            " and created again" if exists else "",
            len(restored),
        )
        others = [record for record in restored.values() if record.topic != PENDING_REPLICAS_TOPIC]
        self._cluster.restore_topic(others)
        self._lease.reset()
        topic_ids = self._cluster.read_state([PENDING_REPLICAS_TOPIC]).topic_ids
        self._topic_id = topic_ids.get(PENDING_REPLICAS_TOPIC)
        self._topic_missing_since = None
        return True
