"""kafka-python's event loop, without its search of all timers for each response.

Imported when a connection is opened: other modules can be imported with releases of kafka-python
that have another loop.
"""

from __future__ import annotations

import heapq
import time
from typing import Any

from kafka.net.selector import NetworkSelector, TaskState


class FixedSelector(NetworkSelector):  # type: ignore[misc]
    """kafka-python's event loop, in which a cancelled timer stays on the heap until its time."""

    def _unschedule(self, task: Any) -> None:
        task.scheduled_at = None
        task.state = TaskState.UNSCHEDULED

    def _schedule_tasks(self) -> None:
        now = time.monotonic()
        while self._scheduled and self._scheduled[0][0] <= now:
            when, task = heapq.heappop(self._scheduled)
            if task.scheduled_at == when:
                task.scheduled_at = None
                self._add_ready_task(task)

    def _next_scheduled_timeout(self, now: float) -> float | None:
        while self._scheduled and self._scheduled[0][1].scheduled_at != self._scheduled[0][0]:
            heapq.heappop(self._scheduled)
        seconds: float | None = super()._next_scheduled_timeout(now)
        return seconds
