"""Keeps intents: turn by turn, looks at the cluster and does what `keeping.decide` says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

from placement_core import ClusterView, RackwardError, TopicPartition
from placement_core.cluster import Move
from placement_core.locators import RackLocator, locate
from rackward.admin import (
    AdminConnection,
    AdminError,
    ClusterState,
    connect,
    read_ongoing,
    read_state,
)
from rackward.admin.reassignments import reassign
from rackward.admin.throttle import ReplicationThrottle
from rackward.controller.lease import Lease
from rackward.controller.pending_replicas import INTENTS_TOPIC, Intent, IntentWriter, ensure_topic
from rackward.controller.reconcile import Decision, Memory, Patience, decide
from rackward.units import bytes_text

# ---- What the controller does to a cluster, over a connection that is made anew after a fault.

Answer = TypeVar("Answer")


class KeptCluster(Protocol):
    """A cluster whose intents are kept. Every method raises AdminError."""

    def look(self, topics: Collection[str] | None) -> ClusterState:
        """These topics (None: all) with what is under way, and the brokers that are down."""

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        """See :func:`rackward.admin.reassignments.reassign`."""

    def throttle(self, rate: int, moves: Collection[Move]) -> None:
        """Have brokers copy what ``moves`` add at ``rate`` bytes per second and broker, or at
        what another run has set, if that is less."""

    def unthrottle(self) -> bool:
        """Take back the throttles of runs that have ended; whether there were any."""

    def write(self, intents: Collection[Intent], forgotten: Collection[str] = ()) -> None:
        """See :class:`rackward.controller.pending_replicas.IntentWriter`."""

    def ensure_topic(self) -> Intent | None:
        """See :func:`rackward.controller.pending_replicas.ensure_topic`."""


class Connection:
    """An AdminConnection when it is needed; closed by a fault, so that the next use opens another.

    A client hears of new brokers in its own good time, and may hold on to dead ones; a new one
    knows. Not for several threads at once.
    """

    def __init__(self, properties: Mapping[str, object], timeout: float) -> None:
        self.properties, self.timeout = properties, timeout
        self._admin: AdminConnection | None = None

    def use(self, act: Callable[[AdminConnection], Answer]) -> Answer:
        """What ``act`` returns. Raises what it raises, and AdminError."""
        if self._admin is None:
            self._admin = connect(self.properties, timeout=self.timeout)
        try:
            return act(self._admin)
        except AdminError:
            self.close()
            raise

    def close(self) -> None:
        """Close what is open; again: nothing."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


class LiveCluster:
    """The cluster that ``properties`` describe; see `KeptCluster`. ``timeout`` is in seconds."""

    def __init__(self, properties: Mapping[str, object], timeout: float) -> None:
        self.connection = Connection(properties, timeout)
        self._writer: IntentWriter | None = None

    def look(self, topics: Collection[str] | None) -> ClusterState:
        """See KeptCluster."""
        return self.connection.use(lambda admin: read_state(admin, topics))

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        """See KeptCluster."""
        return self.connection.use(lambda admin: reassign(admin, targets))

    def throttle(self, rate: int, moves: Collection[Move]) -> None:
        """See KeptCluster."""

        def act(admin: AdminConnection) -> None:
            throttle = ReplicationThrottle(admin)
            if all(mark.ours > rate for mark in throttle.found().marks):
                throttle.engage(rate)
            throttle.cover(moves)

        self.connection.use(act)

    def unthrottle(self) -> bool:
        """See KeptCluster."""
        return self.connection.use(
            lambda admin: ReplicationThrottle(admin).lift(keep=read_ongoing(admin))
        )

    def write(self, intents: Collection[Intent], forgotten: Collection[str] = ()) -> None:
        """See KeptCluster."""
        if self._writer is None:
            self._writer = IntentWriter(self.connection.properties, self.connection.timeout)
        try:
            self._writer.write(intents, forgotten)
        except AdminError:
            self._close_writer()
            raise

    def ensure_topic(self) -> Intent | None:
        """See KeptCluster."""
        return self.connection.use(
            lambda admin: ensure_topic(admin, read_state(admin, [INTENTS_TOPIC], ongoing=False))
        )

    def close(self) -> None:
        """Close all connections; again: nothing."""
        self._close_writer()
        self.connection.close()

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            # What could not be sent was said to have failed.
            with suppress(RackwardError):
                writer.close()


AT_ONCE = 100
"""Partitions that are filled at a time."""
GONE_SECONDS = 5.0
"""How long the topic of intents has to be gone: a broker may not have heard of it yet."""

log = logging.getLogger("rackward.controller")


class Step(Enum):
    """Where a turn is, for tests that break it off."""

    DECIDED = "decided"
    RECORDED = "recorded"
    CONFIRMED = "confirmed"
    ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Kept:
    """``held``: whether this controller keeps the intents. ``intents`` there are, ``open``
    partitions among them, ``under_way``, and ``waiting`` replicas that no broker can take yet."""

    held: bool = False
    intents: int = 0
    open: int = 0
    under_way: int = 0
    waiting: int = 0


class Keeper:
    """One controller's part in keeping the intents.

    ``locator`` says the racks (None: racks do not count); ``clock`` counts seconds; ``throttle``
    is how many bytes per second a broker may send and receive for fills (None: no bound); ``step``
    is called between the steps of a fill.
    """

    def __init__(
        self,
        cluster: KeptCluster,
        lease: Lease,
        locator: RackLocator | None,
        clock: Callable[[], float],
        *,
        at_once: int = AT_ONCE,
        throttle: int | None = None,
        patience: Patience | None = None,
        step: Callable[[Step], None] = lambda _: None,
    ) -> None:
        self._cluster, self._lease, self._locator = cluster, lease, locator
        self._clock, self._at_once, self._step = clock, at_once, step
        self._throttle, self._patience = throttle, patience
        self._memory = Memory()
        self._topic_id: str | None = None
        self._gone_since: float | None = None
        self._refused: dict[TopicPartition, str] = {}
        self._throttled: bool | None = None
        """None: not known, as somebody else may have done it."""
        self.kept = Kept()
        """What the last turn found."""
        self.asked = 0
        """Partitions that the cluster was asked to fill."""

    def turn(self, seconds: float) -> None:
        """Read intents for so long, then do what there is to do. Raises AdminError."""
        self._lease.poll(seconds)
        intents = dict(self._lease.intents)
        topics = {INTENTS_TOPIC, *(intent.topic for intent in intents.values())}
        state = self._cluster.look(topics)
        if self._is_restored(state, intents) or not self._lease.held:
            self.kept, self._throttled = Kept(), None
            return
        decision = self._decide(intents, state)
        if any(row is not None for row in decision.targets.values()):
            # Loads count now, and so does everything else that brokers hold.
            state = self._cluster.look(None)
            decision = self._decide(intents, state)
        self._memory = decision.memory
        self.kept = Kept(
            held=True,
            intents=len(intents),
            open=sum(len(intent.open) for intent in intents.values()),
            under_way=decision.under_way,
            waiting=decision.waiting,
        )
        # Whoever began these may not have lived to take the throttle back.
        over = not decision.under_way and any(intent.filling for intent in intents.values())
        self._carry_out(decision, state, unthrottle=over and self._throttled is not False)

    def _decide(self, intents: dict[str, Intent], state: ClusterState) -> Decision:
        return decide(
            intents,
            state,
            self._view(state),
            self._clock(),
            self._memory,
            self._at_once,
            self._patience,
        )

    def _view(self, state: ClusterState) -> ClusterView:
        if self._locator is None:
            return state.view.without_racks()
        return locate(self._locator, state.view)

    def _carry_out(self, decision: Decision, state: ClusterState, *, unthrottle: bool) -> None:
        if not (decision.records or decision.forgotten or decision.targets or unthrottle):
            return
        self._step(Step.DECIDED)
        # Not by somebody who was asleep while another took over.
        if not self._lease.confirm():
            return
        if unthrottle:
            # Before the records go by which a successor would know that there is something to do.
            if self._cluster.unthrottle():
                log.info("nothing is being filled: the throttle is lifted")
            self._throttled = False
        if decision.records or decision.forgotten:
            self._cluster.write(decision.records, decision.forgotten.keys())
            self._lease.written(decision.records, decision.forgotten)
        for line in decision.told:
            log.info("%s", line)
        self._step(Step.RECORDED)
        moves = _moves(state, decision)
        if moves and self._throttle is not None:
            if not self._throttled:
                log.info("brokers copy at most %s per second", bytes_text(self._throttle))
            self._throttled = True
            self._cluster.throttle(self._throttle, moves)
        if not decision.targets or not self._lease.confirm():
            return
        self._step(Step.CONFIRMED)
        refused = self._cluster.reassign(decision.targets)
        self.asked += len(decision.targets) - len(refused)
        for place, error in refused.items():
            if self._refused.get(place) != str(error):
                log.warning("%s", error)
        self._refused = {place: str(error) for place, error in refused.items()}
        self._step(Step.ASKED)

    def _is_restored(self, state: ClusterState, intents: dict[str, Intent]) -> bool:
        """Make the topic of intents again where it was deleted; whether that was the case."""
        found = state.topic_ids.get(INTENTS_TOPIC)
        present = INTENTS_TOPIC in state.topic_ids
        if present and found in (self._topic_id, None):
            self._gone_since = None
            if not self._lease.owned:
                # Another controller keeps them, and knows better.
                self._lease.forget()
            return False
        if self._topic_id is None:
            self._topic_id = found
            return False
        now = self._clock()
        if self._gone_since is None:
            self._gone_since = now
        if now - self._gone_since < GONE_SECONDS:
            return True
        log.warning(
            "topic %s was deleted%s: writing its %d intents again",
            INTENTS_TOPIC,
            " and made anew" if present else "",
            len(intents),
        )
        itself = self._cluster.ensure_topic()
        kept = [intent for intent in intents.values() if intent.topic != INTENTS_TOPIC]
        self._cluster.write([*kept, *([itself] if itself is not None else [])])
        self._lease.forget()
        self._topic_id = self._cluster.look([INTENTS_TOPIC]).topic_ids.get(INTENTS_TOPIC)
        self._gone_since = None
        return True


def _moves(state: ClusterState, decision: Decision) -> list[Move]:
    return [
        Move(place, state.view.replicas[place], row)
        for place, row in sorted(decision.targets.items())
        if row is not None
    ]
