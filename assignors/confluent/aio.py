"""confluent's AIOConsumer, in a group whose partitions are assigned by the racks of leaders."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from assignors.confluent.consumer import Consumer
from assignors.confluent.internals import check_aio_consumer
from assignors.library_internals import unsupported_import

try:
    import confluent_kafka.aio
except ImportError as error:
    raise unsupported_import(error, "confluent-kafka>=2.13,<3") from error

if TYPE_CHECKING:
    from assignors.group_leader.history import Assignment

_CALLBACKS = ("error_cb", "throttle_cb", "stats_cb", "on_commit", "logger")


class AIOConsumer(confluent_kafka.aio.AIOConsumer):
    """confluent's AIOConsumer around :class:`assignors.confluent.Consumer`.

    Like confluent's it must be constructed within a running loop, with coroutine functions as
    callbacks.
    """

    def __init__(
        self,
        consumer_conf: dict[str, Any],
        max_workers: int = 100,
        executor: Executor | None = None,
    ) -> None:
        check_aio_consumer(AIOConsumer.__mro__[1])
        # confluent wraps the callbacks in the dictionary that it is given, and constructs its own
        # consumer with it: here one that connects to nothing, and is replaced.
        callbacks = {name: consumer_conf[name] for name in _CALLBACKS if name in consumer_conf}
        placeholder = {"group.id": "placeholder", "log_level": 0, **callbacks}
        super().__init__(placeholder, max_workers, executor)
        self._consumer.close()
        wrapped = {name: placeholder[name] for name in callbacks}
        self._consumer = self._rackward_consumer = AsyncLoopConsumer({**consumer_conf, **wrapped})

    def last_assignment(self) -> Assignment | None:
        """Return what :meth:`Consumer.last_assignment` does. Not a coroutine: it does not wait."""
        return self._rackward_consumer.last_assignment()

    def assignments(self) -> tuple[Assignment, ...]:
        """Return the last assignment as a tuple, for :mod:`assignors.metrics`."""
        return self._rackward_consumer.assignments()


class AsyncLoopConsumer(Consumer):
    """Never uses the fast poll.

    To confluent each call from a loop has another identity, so no wake-up could interrupt the one
    that is in progress.
    """

    def _is_idle(self) -> bool:
        return False
