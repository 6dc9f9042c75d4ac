"""Carries out what :func:`rackward.controller.reconcile.plan` returns, one pass at a time.

Each pass reads the records and the cluster's state, plans, and then writes records, sets the
throttle and requests reassignments, in that order. `ControllerCluster` makes each change within
`Lease.confirmed`, so a pass ends with LeaseLostError where another controller may have taken over.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from placement_core import ClusterView, RackwardError, TopicPartition
from placement_core.cluster import Move
from placement_core.locators import RackLocator, apply_locator
from rackward.controller.config import PARTITIONS_AT_ONCE
from rackward.controller.lease import Lease, LeaseLostError
from rackward.controller.reconcile import (
    ReconcilePlan,
    ReconcileState,
    ReconcileTimeouts,
    plan,
)
from rackward.kafka import (
    AdminConnection,
    AdminError,
    AdminTimeoutError,
    ClusterState,
    connect,
    read_reassignments,
    read_state,
)
from rackward.kafka.client import Guard
from rackward.kafka.reassignments import reassign
from rackward.reassignment.throttle import ReplicationThrottle
from rackward.topics.pending_replicas import (
    PENDING_REPLICAS_TOPIC,
    PendingReplicas,
    PendingReplicasWriter,
    ensure_topic,
)
from rackward.units import Deadline, format_bytes

TOPIC_MISSING_SECONDS = 5.0
"""How long the topic of pending replicas has to be absent before it is created again: a broker that
has just restarted may not return it yet."""

Result = TypeVar("Result")

log = logging.getLogger("rackward.controller")


class Step(Enum):
    """Points of a change, for tests that kill or stop the controller there: before the lease is
    confirmed, between that and the request, and after the response."""

    PLANNED = "planned"
    CONFIRMED = "confirmed"
    DONE = "done"


OnStep = Callable[[Step, str], None]
"""Called at each step of each change, with the operation's name."""

WRITING_RECORDS = "writing records"


@dataclass(frozen=True, slots=True)
class ReconcileStatus:
    """The status after the last pass.

    ``active``: whether this controller has the lease. ``records`` of pending replicas,
    ``partitions`` in them, how many of these are ``in_progress``, and the replicas ``waiting`` for
    a broker that can take them. ``offsets`` of the topic of pending replicas, and those ``read`` by
    this controller since it got the lease: fewer than ``offsets`` until it has all records.
    """

    active: bool = False
    records: int = 0
    partitions: int = 0
    in_progress: int = 0
    waiting: int = 0
    offsets: int = 0
    read: int = 0


class ReconnectingAdmin:
    """An AdminConnection that is opened when it is needed and closed after an error.

    A client keeps using brokers that are gone, and is late to notice new ones; a new client is not.
    ``guard`` permits its changes. Not thread-safe.
    """

    def __init__(
        self, properties: Mapping[str, object], timeout: float, guard: Guard | None = None
    ) -> None:
        self.properties, self.timeout, self._guard = properties, timeout, guard
        self._admin: AdminConnection | None = None

    def run(self, function: Callable[[AdminConnection], Result]) -> Result:
        """Return what ``function`` returns. Raises AdminError, and what ``function`` raises."""
        if self._admin is None:
            self._admin = connect(self.properties, timeout=self.timeout)
            self._admin.guard = self._guard
        try:
            return function(self._admin)
        except AdminError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, if one is open. Idempotent."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


class ControllerCluster:
    """What the controller reads and changes of its cluster. Every method raises AdminError.

    Every change, also one through ``admin``, needs ``lease`` and is not sent later than the lease
    permits; it raises LeaseLostError if another controller may have the lease. ``timeout``, in
    seconds, applies to each operation.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        timeout: float,
        on_step: OnStep = lambda *_: None,
    ) -> None:
        self.lease: Lease | None = None
        self.admin = ReconnectingAdmin(properties, timeout, self._change)
        self._writer: PendingReplicasWriter | None = None
        self._on_step = on_step

    def read_state(self, topics: Collection[str] | None) -> ClusterState:
        """Read these topics (None: all), reassignments in progress, and fenced brokers."""
        return self.admin.run(lambda admin: read_state(admin, topics))

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        """See :func:`rackward.kafka.reassignments.reassign`."""
        return self.admin.run(lambda admin: reassign(admin, targets))

    def throttle(self, rate: int, moves: Collection[Move]) -> None:
        """Throttle the copying of ``moves`` to ``rate`` bytes per second and broker, or to the
        rate that another run of rackward has set; no longer list what has been copied."""

        def change(admin: AdminConnection) -> None:
            throttle = ReplicationThrottle(admin)
            # Kafka's lists have a maximum length.
            throttle.release({move.partition.topic for move in moves}, read_reassignments(admin))
            throttle.add(rate, moves)

        self.admin.run(change)

    def remove_throttle(self) -> bool:
        """Remove the throttles of runs that have ended; return whether there were any."""
        return self.admin.run(
            lambda admin: ReplicationThrottle(admin).remove(keep=read_reassignments(admin))
        )

    def write(self, records: Collection[PendingReplicas], deleted: Collection[str] = ()) -> None:
        """Write records, and delete those with the keys ``deleted``; the lease has them then."""
        lease = self._owned_lease(WRITING_RECORDS)
        if self._writer is None:
            # No record is sent later than the session timeout after the lease was confirmed.
            timeout = min(self.admin.timeout, lease.max_change_seconds)
            self._writer = PendingReplicasWriter(self.admin.properties, timeout)
        try:
            with self._change(WRITING_RECORDS) as deadline:
                if not deadline.remaining:
                    raise AdminTimeoutError(
                        f"{WRITING_RECORDS}: not begun within {deadline.seconds:g} s"
                    )
                self._writer.write(records, deleted)
                lease.update(records, deleted)
        except AdminError:
            self._close_writer()
            raise

    def restore_topic(self, records: Collection[PendingReplicas] = ()) -> None:
        """Create the topic of pending replicas unless it exists, and write ``records`` to it.

        Without the lease, which is the topic's partition.
        """
        bootstrap = self.admin.run(
            lambda admin: ensure_topic(
                admin, read_state(admin, [PENDING_REPLICAS_TOPIC], reassignments=False)
            )
        )
        new = [*records, *([bootstrap] if bootstrap is not None else [])]
        if new:
            writer = PendingReplicasWriter(self.admin.properties, self.admin.timeout)
            with closing(writer):
                writer.write(new)

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self._close_writer()
        self.admin.close()

    @contextmanager
    def _change(self, operation: str) -> Iterator[Deadline]:
        self._on_step(Step.PLANNED, operation)
        with self._owned_lease(operation).confirmed() as deadline:
            self._on_step(Step.CONFIRMED, operation)
            yield deadline
        self._on_step(Step.DONE, operation)

    def _owned_lease(self, operation: str) -> Lease:
        if self.lease is None:
            raise LeaseLostError(f"{operation} needs the lease")
        return self.lease

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            # Records that could not be written have been reported as errors already.
            with suppress(RackwardError):
                writer.close()


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
        max_in_progress: int = PARTITIONS_AT_ONCE,
        throttle: int | None = None,
        timeouts: ReconcileTimeouts | None = None,
    ) -> None:
        self._cluster, self._lease, self._locator = cluster, lease, locator
        self._clock, self._max_in_progress = clock, max_in_progress
        self._throttle, self._timeouts = throttle, timeouts
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
            records=len(records),
            partitions=sum(len(record.partitions) for record in records.values()),
            in_progress=steps.in_progress,
            waiting=steps.waiting,
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
        return ReconcileStatus(offsets=progress.offsets, read=progress.read)

    def _plan(self, records: Mapping[str, PendingReplicas], cluster: ClusterState) -> ReconcilePlan:
        return plan(
            records,
            cluster,
            self._view(cluster),
            self._clock(),
            self._state,
            self._max_in_progress,
            self._timeouts,
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
        others = [each for each in restored.values() if each.topic != PENDING_REPLICAS_TOPIC]
        self._cluster.restore_topic(others)
        self._lease.reset()
        topic_ids = self._cluster.read_state([PENDING_REPLICAS_TOPIC]).topic_ids
        self._topic_id = topic_ids.get(PENDING_REPLICAS_TOPIC)
        self._topic_missing_since = None
        return True
