"""kafka-python's coordinator, reading on while the group's broker for it is away.

A broker that dies is missed by the cluster after a while (9 s by default), and only then another
one coordinates its groups. Until then kafka-python 3.0.12

- reads nothing, of any broker: ``poll`` waits for the coordinator and returns no records, though
  nobody can be given the partitions meanwhile (Java's consumer reads on);
- asks again and again without a pause: other brokers go on naming the one that is dead, and as
  soon as the connection to it fails the next question goes out.

And while it is there but slow to answer a heartbeat, as it may be while another broker is missing,
``poll`` goes round without a pause, since the next heartbeat is overdue.

All are put right here for consumers that use one of our assignors.
"""

from __future__ import annotations

import math
import time
from typing import Any

from kafka.coordinator.consumer import ConsumerCoordinator

MOMENT_MS = 20
"""Milliseconds that a poll of a consumer with something to read spends on what is not there."""


class ReadingOnCoordinator(ConsumerCoordinator):  # type: ignore[misc]
    """As kafka-python's own unless ``steady`` is set."""

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        self.steady = False
        self._looked_for = -math.inf
        super().__init__(client, subscription, **configs)

    def poll(self, timeout_ms: float | None = None) -> bool:
        """As kafka-python's; without the coordinator it is over in a moment, and reading goes on.

        For the session's time after the last heartbeat: later the coordinator may have given
        the partitions to others.
        """
        if self._may_read_alone():
            self._invoke_completed_offset_commit_callbacks()
            self.poll_heartbeat()
            if not self.ensure_coordinator_ready(timeout_ms=a_moment(timeout_ms)):
                return True
        return bool(super().poll(timeout_ms=timeout_ms))

    def time_to_next_poll(self) -> float:
        """Seconds until ``poll`` has to go round, if no record comes before; not at once.

        What is overdue is done by the client's own thread, and hurrying does not help it.
        """
        due = float(super().time_to_next_poll())
        return max(due, self.config["retry_backoff_ms"] / 1000) if self.steady else due

    def _may_read_alone(self) -> bool:
        known = self.coordinator_id
        if not self.steady or not (known is None or self._client.is_disconnected(known)):
            return False
        beat = min(self.heartbeat.last_send, self.heartbeat.last_receive)
        fresh = time.monotonic() - beat < self.config["session_timeout_ms"] / 1000
        return fresh and self._has_partitions()

    def _has_partitions(self) -> bool:
        """Whether there is something to read, which the group has not taken away."""
        return not self._generation.is_lost() and bool(self._subscription.assigned_partitions())

    async def _send_group_coordinator_request(self) -> Any:
        if self.steady:
            due = self._looked_for + self.config["retry_backoff_ms"] / 1000
            if (pause := due - time.monotonic()) > 0:
                await self._net.sleep(pause)
            self._looked_for = time.monotonic()
        return await super()._send_group_coordinator_request()


def a_moment(timeout_ms: float | None) -> float:
    """As much of a poll's time as may go by before it reads on."""
    return MOMENT_MS if timeout_ms is None else min(timeout_ms, MOMENT_MS)
