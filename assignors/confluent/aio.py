"""confluent's consumer for asyncio, in a group that assigns by the racks of leaders."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import confluent_kafka.aio

from assignors.confluent.consumer import Consumer
from assignors.group_leader import Assignment

_CALLBACKS = ("error_cb", "throttle_cb", "stats_cb", "on_commit", "logger")


class AIOConsumer(confluent_kafka.aio.AIOConsumer):
    """confluent's AIOConsumer around :class:`assignors.confluent.Consumer`.

    Made within a running loop, as confluent's; callbacks are coroutine functions.
    """

    def __init__(
        self,
        consumer_conf: dict[str, Any],
        max_workers: int = 100,
        executor: Executor | None = None,
    ) -> None:
        # confluent wraps the callbacks in the dictionary that it is given, and makes a consumer
        # of its own of it: one that connects to nothing, and gives way to ours.
        callbacks = {name: consumer_conf[name] for name in _CALLBACKS if name in consumer_conf}
        theirs = {"group.id": "stand-in", "log_level": 0, **callbacks}
        super().__init__(theirs, max_workers, executor)
        self._consumer.close()
        wrapped = {name: theirs[name] for name in callbacks}
        self._consumer = self._ours = _LoopConsumer({**consumer_conf, **wrapped})

    def last_assignment(self) -> Assignment | None:
        """As the consumer's; waits for nothing, and so is no coroutine."""
        return self._ours.last_assignment()

    def assignments(self) -> tuple[Assignment, ...]:
        """The same for :mod:`assignors.metrics`."""
        return self._ours.assignments()


class _LoopConsumer(Consumer):
    """Looks into its inbox at every poll.

    Each call from a loop is another caller to confluent, so no knock would interrupt one that is
    under way.
    """

    def _at_rest(self) -> bool:
        return False
