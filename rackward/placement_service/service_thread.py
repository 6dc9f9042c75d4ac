"""Runs a placement service in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

from rackward.placement_service.protocol import LOOPBACK, Address, ListeningError, MutualTls
from rackward.placement_service.server import PlacementService

TIMEOUT_SECONDS = 60.0
"""For the service to start, and to stop; both take milliseconds on an idle machine."""


class ServiceThread:
    """Runs ``service`` in a daemon thread until ``close``; ``address`` is the bound address.

    Raises what ``PlacementService.listening`` raises, and ListeningError if the service does not
    listen within TIMEOUT_SECONDS.
    """

    def __init__(
        self,
        service: PlacementService,
        host: str = LOOPBACK,
        port: int = 0,
        tls: MutualTls | None = None,
    ) -> None:
        self.service = service
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._bound: Future[Address] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(host, port, tls), name="rackward-placement", daemon=True
        )
        self._thread.start()
        try:
            self.address = self._bound.result(TIMEOUT_SECONDS)
        except TimeoutError as error:
            raise ListeningError(
                f"the placement service does not listen on {Address(host, port)} after "
                f"{TIMEOUT_SECONDS:g} s: can the host name be resolved?"
            ) from error

    def close(self) -> None:
        """Stop the service; requests in progress may finish within ``shutdown_seconds``."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(TIMEOUT_SECONDS)

    @property
    def running(self) -> bool:
        """Whether the thread has not ended yet."""
        return self._thread.is_alive()

    def _run(self, host: str, port: int, tls: MutualTls | None) -> None:
        try:
            self._loop.run_until_complete(self._serve(host, port, tls))
        except BaseException as error:
            if self._bound.done():
                raise
            self._bound.set_exception(error)
        finally:
            self._loop.close()

    async def _serve(self, host: str, port: int, tls: MutualTls | None) -> None:
        async with self.service.listening(host, port, tls) as address:
            self._bound.set_result(address)
            await self._stop.wait()
