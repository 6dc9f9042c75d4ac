"""From the bytes of a request to the bytes of its response: what the service does, no sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kafka.protocol.metadata import ApiVersionsRequest

from placement_core import (
    ClusterView,
    InvalidOptionError,
    PlacementSpec,
    RackwardError,
    ReplicaLists,
)
from placement_core.locators import RackLocator
from placement_core.placers import (
    PlacementError,
    ReplicaPlacer,
    SimplePlacer,
    UnderReplicatedPlacer,
    place,
)
from rackward.kafka.errors import one_line
from rackward.placement_service.messages import (
    CreateReplicaPlacementRequest,
    CreateReplicaPlacementResponse,
)
from rackward.placement_service.protocol import (
    API_VERSIONS,
    CREATE_REPLICA_PLACEMENT,
    MAX_API_VERSIONS,
    UNSUPPORTED_VERSION,
    ErrorCode,
    ServiceLimits,
    UnknownRequestError,
    api_versions_response,
    decode,
    encode,
    read_start,
)
from rackward.units import Deadline

Result = TypeVar("Result")

MAX_MESSAGE_LENGTH = 1000
"""Characters of an error message that are sent."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """A requested placement for a topic that is not named.

    ``force_simple_placement``: use the simple placer without racks, whatever is configured.
    ``broker_ids``: brokers to use; None: any live broker. ``deadline``: when the client no longer
    waits; None: not known. A handler that blocks longer keeps others waiting.
    """

    partitions: int
    replication_factor: int
    force_simple_placement: bool = False
    broker_ids: frozenset[int] | None = None
    deadline: Deadline | None = field(default=None, compare=False)


PlacementHandler = Callable[[PlacementRequest], ReplicaLists]
"""Returns the placement; may block, and may raise any exception."""


def place_replicas(
    request: PlacementRequest,
    view: ClusterView,
    placer: ReplicaPlacer,
    *,
    locator: RackLocator | None = None,
    fallback: SimplePlacer | None = None,
    ignore_racks: bool = False,
    min_insync_replicas: int | None = None,
) -> ReplicaLists:
    """Return the placement of ``placer``, through :func:`placement_core.placers.place`.

    ``fallback`` places if the placer returns None, and if simple placement is forced.
    ``ignore_racks`` places as if no broker had a rack. ``min_insync_replicas``, if given, allows
    placeholders for missing brokers: see :class:`placement_core.placers.UnderReplicatedPlacer`.
    Raises what ``place`` raises.
    """
    simple = fallback or SimplePlacer()
    forced = request.force_simple_placement
    spec = PlacementSpec(
        request.partitions, request.replication_factor, ignore_racks=ignore_racks or forced
    )
    chosen: ReplicaPlacer = simple if forced else placer
    if min_insync_replicas is not None:
        chosen = UnderReplicatedPlacer(chosen, min_insync_replicas)
    return place(spec, view, chosen, request.broker_ids, locator=locator, fallback=simple)


@dataclass(frozen=True, slots=True)
class Immediate:
    """The response to a request that needs no placement."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a placement request.

    ``error`` is the error in it, None for a placement; ``exception`` is what the handler raised,
    if that is not one of rackward's errors.
    """

    message: bytes
    error: str | None = None
    exception: Exception | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A placement request of a client; 0 seconds of ``timeout`` allow no time at all."""

    correlation_id: int
    timeout: float
    placement: PlacementRequest

    def handle(
        self,
        handler: PlacementHandler,
        limits: ServiceLimits,
        deadline: Deadline | None = None,
    ) -> Response:
        """Return the handler's placement, or the error that it raises, as a response."""
        try:
            _check_limits(self.placement, limits)
            rows = enumerate(handler(replace(self.placement, deadline=deadline)))
            message = CreateReplicaPlacementResponse(version=0, replica_placement=list(rows))
            return Response(encode(message, self.correlation_id))
        except _LimitError as error:
            return self._error(error.code, str(error))
        except Exception as error:  # noqa: BLE001 - it is a plug-in's, and the service goes on
            return self.failed(error)

    def throttled(self, placements: int) -> Response:
        """Return the response to a peer that has so many placements in progress."""
        return self._error(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"{placements} placements of this client's address are in progress: wait for one",
        )

    def timed_out(self, seconds: float) -> Response:
        """Return the response after ``seconds`` without a placement."""
        return self._error(
            ErrorCode.REQUEST_TIMED_OUT,
            f"no placement within {seconds:.3g} s: allow more time, or request fewer partitions",
        )

    def failed(self, exception: Exception) -> Response:
        """Return the response for an exception of the handler."""
        code = _error_code(exception)
        if isinstance(exception, RackwardError):
            return self._error(code, str(exception))
        text = f"the service failed with {type(exception).__name__}: see its log"
        return replace(self._error(code, text), exception=exception)

    def _error(self, code: ErrorCode, text: str) -> Response:
        # Messages may contain what is not a character, such as a file's name.
        text = one_line(text)[:MAX_MESSAGE_LENGTH].encode("utf-8", "replace").decode()
        message = CreateReplicaPlacementResponse(
            version=0, replica_placement=[], error_code=int(code), error_message=text
        )
        return Response(encode(message, self.correlation_id), text)


def parse_request(message: bytes) -> Immediate | Request:
    """Return the request in a frame without its length.

    Raises MalformedFrameError for anything but a request, and UnknownRequestError for a request
    that this service does not serve.
    """
    start = read_start(message)
    if start.api_key == API_VERSIONS:
        return Immediate(encode(_api_versions(message, start.api_version), start.correlation_id))
    if start.api_key != CREATE_REPLICA_PLACEMENT or start.api_version != 0:
        raise UnknownRequestError(
            f"requests of key {start.api_key}, version {start.api_version} are not served"
        )
    body = decode(CreateReplicaPlacementRequest, message, 0)
    return Request(
        start.correlation_id,
        max(0.0, body.timeout_ms / 1000),
        PlacementRequest(
            body.num_partitions,
            body.replication_factor,
            body.force_simple_placement,
            frozenset(body.node_id) if body.node_id else None,
        ),
    )


def _api_versions(message: bytes, version: int) -> Any:
    if not 0 <= version <= MAX_API_VERSIONS:
        # The rest of such a request is unknown. Kafka's rule: the response is of version 0.
        return api_versions_response(0, UNSUPPORTED_VERSION)
    decode(ApiVersionsRequest, message, version)
    return api_versions_response(version)


class _LimitError(RackwardError):
    def __init__(self, code: ErrorCode, message: str) -> None:
        self.code = code
        super().__init__(message)


def _check_limits(request: PlacementRequest, limits: ServiceLimits) -> None:
    partitions, factor = request.partitions, request.replication_factor
    if not 1 <= partitions <= limits.partitions:
        raise _LimitError(
            ErrorCode.INVALID_PARTITIONS,
            f"{partitions} partitions: request 1 to {limits.partitions}",
        )
    max_factor = limits.replicas // partitions
    if not 1 <= factor <= max_factor:
        raise _LimitError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} for {partitions} partitions: request "
            + (f"1 to {max_factor}" if max_factor else "fewer partitions"),
        )


def _error_code(error: Exception) -> ErrorCode:
    match error:
        case PlacementError():
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        case InvalidOptionError():
            return ErrorCode.INVALID_REQUEST
        case TimeoutError():
            return ErrorCode.REQUEST_TIMED_OUT
    return ErrorCode.UNKNOWN_SERVER_ERROR


# ---- Handlers block, and run in threads.


class PlacementThreads:
    """Runs functions in threads, at most ``concurrency`` at a time; others wait.

    A thread cannot be stopped. After a timeout it goes on, and counts until it ends, so that
    functions that hang cannot pile up. Threads are daemons and do not keep the process alive.
    """

    def __init__(self, concurrency: int) -> None:
        self._slots = asyncio.Semaphore(concurrency)

    async def run(self, function: Callable[[], Result]) -> Result:
        """Return what ``function`` returns, or raise the Exception that it raises.

        RuntimeError stands for other BaseExceptions, and for a thread that cannot be started.
        """
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        def finish(set_outcome: Callable[[], None]) -> None:
            self._slots.release()
            if not future.done():
                set_outcome()

        def run() -> None:
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - sys.exit() must not end the loop
                raised = (
                    error
                    if isinstance(error, Exception)
                    else RuntimeError(f"it raised {type(error).__name__}")
                )
                outcome: Callable[[], None] = lambda: future.set_exception(raised)  # noqa: E731
            else:
                outcome = lambda: future.set_result(result)  # noqa: E731
            # The loop may have been closed meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, outcome)

        try:
            threading.Thread(target=run, name="rackward-placement", daemon=True).start()
        except RuntimeError:
            self._slots.release()
            raise
        return await future
