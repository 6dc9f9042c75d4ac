"""Placements beside the event loop: a few at a time, each in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


class PlacingThreads:
    """Runs at most ``at_once`` pieces of work; others wait their turn.

    A thread cannot be stopped. Who gives up waiting leaves it running, and its place stays
    taken until it ends, so that work that hangs cannot pile up. The threads are daemons: work
    that hangs does not keep the process from ending either.
    """

    def __init__(self, at_once: int) -> None:
        self._places = asyncio.Semaphore(at_once)

    async def run(self, work: Callable[[], Result]) -> Result:
        """What ``work`` returns, or the Exception that it raises."""
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()

        def settle(settled: Callable[[], None]) -> None:
            self._places.release()
            if not done.done():
                settled()

        def body() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - sys.exit() must not end the loop
                raised = (
                    error
                    if isinstance(error, Exception)
                    else RuntimeError(f"it raised {type(error).__name__}")
                )
                outcome: Callable[[], None] = lambda: done.set_exception(raised)  # noqa: E731
            else:
                outcome = lambda: done.set_result(result)  # noqa: E731
            # The loop may be gone by now, and with it whoever asked.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, outcome)

        try:
            threading.Thread(target=body, name="rackward-placing", daemon=True).start()
        except RuntimeError:
            self._places.release()
            raise
        return await done
