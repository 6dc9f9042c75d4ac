"""What the controller does to a cluster, over a connection that is made anew after a fault."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from placement_core import RackwardError, TopicPartition
from placement_core.moves import Move
from rackward.admin import (
    AdminConnection,
    AdminError,
    ClusterState,
    connect,
    read_ongoing,
    read_state,
)
from rackward.admin.reassignments import reassign
from rackward.admin.throttles import ReplicationThrottle
from rackward.intents import INTENTS_TOPIC, Intent, IntentWriter, ensure_topic

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
        """See :class:`rackward.intents.IntentWriter`."""

    def ensure_topic(self) -> Intent | None:
        """See :func:`rackward.intents.ensure_topic`."""


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
