"""The placement service: ``create_replica_placement`` of KIP-879 at a port of its own."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rackward.placement_service.address import LOOPBACK, Address, address_of, listen
from rackward.placement_service.answering import Answered, Asked, Placing, Ready, read_request
from rackward.placement_service.counts import ServiceCounts
from rackward.placement_service.limits import ServiceLimits
from rackward.placement_service.mutual_tls import MutualTls
from rackward.placement_service.reception import Reception
from rackward.placement_service.sparing_log import SparingLog
from rackward.placement_service.threads import PlacingThreads

_logger = logging.getLogger("rackward.placement_service")


class PlacementService:
    """Answers questions for placements with what ``placing`` says.

    ``placing`` is called in threads, as many at a time as the limits allow, and may raise: a
    RackwardError is told to the client as it is, and of anything else only its kind.
    """

    def __init__(self, placing: Placing, limits: ServiceLimits | None = None) -> None:
        self._placing = placing
        self._limits = limits or ServiceLimits()
        self._tally: Counter[str] = Counter()
        self._log = SparingLog(_logger)

    @property
    def counts(self) -> ServiceCounts:
        """What was done so far."""
        return ServiceCounts(**self._tally)

    @asynccontextmanager
    async def listening(
        self, host: str = LOOPBACK, port: int = 0, tls: MutualTls | None = None
    ) -> AsyncIterator[Address]:
        """Serve while the context lasts; gives the address that was bound.

        Leaving it lets what is under way finish, for ``closing_seconds`` at most. The limits
        count for each listener by itself. Raises InvalidOptionError for an address that is not
        loopback without ``tls``, ConnectionPropertyError for its files, and ListeningError.
        """
        context = None if tls is None else tls.server_context()
        threads = PlacingThreads(self._limits.placing_at_once)

        async def answering(peer: str, message: bytes) -> bytes:
            return await self._answer(threads, peer, message)

        with await listen(host, port, mutual_tls=tls is not None) as listening:
            reception = Reception(answering, self._limits, context, self._tally, self._log)
            accepting = asyncio.create_task(reception.accept(listening))
            address = address_of(listening.getsockname())
            _logger.info(
                "the placement service listens at %s, %s",
                address,
                "without TLS" if tls is None else "with mutual TLS",
            )
            try:
                yield address
            finally:
                accepting.cancel()
                await asyncio.wait([accepting])
                # At once, so that nobody else waits at the door while others finish.
                listening.close()
                await reception.close()

    async def _answer(self, threads: PlacingThreads, peer: str, message: bytes) -> bytes:
        request = read_request(message)
        if isinstance(request, Ready):
            self._tally["requests"] += 1
            return request.answer
        answered = await self._placed(threads, request)
        self._tally["requests"] += 1
        if answered.problem is None:
            self._tally["placements"] += 1
        else:
            self._tally["failed_placements"] += 1
            text = f"{peer} was refused a placement: {answered.problem}"
            self._log.warn("refused", text, answered.unexpected)
        return answered.answer

    async def _placed(self, threads: PlacingThreads, request: Asked) -> Answered:
        allowed = min(request.timeout_seconds, self._limits.placing_seconds)
        if not allowed:
            return request.timed_out(allowed)
        try:
            async with asyncio.timeout(allowed):
                return await threads.run(lambda: request.answer(self._placing, self._limits))
        except TimeoutError:
            return request.timed_out(allowed)
        except RuntimeError as error:
            # No thread could be had, or whoever decides asked the process to end.
            return request.failed(error)
