"""From the bytes of a request to the bytes of its response: what the service does, no sockets."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

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
    API_VERSIONS,
    CREATE_REPLICA_PLACEMENT,
    MAX_API_VERSIONS,
    UNSUPPORTED_VERSION,
    CreateReplicaPlacementRequest,
    CreateReplicaPlacementResponse,
    ErrorCode,
    MalformedFrameError,
    ServiceRefusedError,
    api_versions_response,
    decode,
    encode,
)
from rackward.units import Deadline

MAX_PARTITIONS, MAX_REPLICAS = 10_000, 50_000
"""Of one placement, which bounds the size of the response."""

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
class Request:
    """A placement request of a client; 0 seconds of ``timeout`` allow no time at all."""

    correlation_id: int
    timeout: float
    placement: PlacementRequest


class Response(NamedTuple):
    """The response to a placement request.

    ``error`` is the error in it, None for a placement; ``exception`` is what the handler raised,
    if that is not one of rackward's errors.
    """

    message: bytes
    error: str | None = None
    exception: BaseException | None = None


def parse_request(message: bytes) -> Request | bytes:
    """Return the placement request in a frame without its length, or the response to ApiVersions.

    Raises MalformedFrameError for anything but these two requests.
    """
    try:
        # These fields are at the start of every version of a header.
        key, version, correlation_id = struct.unpack_from(">hhi", message)
    except struct.error:
        raise MalformedFrameError("a request without a complete header") from None
    if key == API_VERSIONS:
        if not 0 <= version <= MAX_API_VERSIONS:
            # The rest of such a request is unknown. Kafka's rule: the response is of version 0.
            return encode(api_versions_response(0, UNSUPPORTED_VERSION), correlation_id)
        decode(ApiVersionsRequest, message, version)
        return encode(api_versions_response(version), correlation_id)
    if key != CREATE_REPLICA_PLACEMENT or version != 0:
        raise MalformedFrameError(f"requests of key {key}, version {version} are not served")
    body = decode(CreateReplicaPlacementRequest, message, 0)
    return Request(
        correlation_id,
        max(0.0, body.timeout_ms / 1000),
        PlacementRequest(
            body.num_partitions,
            body.replication_factor,
            body.force_simple_placement,
            frozenset(body.node_id) if body.node_id else None,
        ),
    )


def handle(
    request: Request, handler: PlacementHandler, deadline: Deadline | None = None
) -> Response:
    """Return the handler's placement, or the error that it raises, as a response."""
    try:
        _check_limits(request.placement)
        rows = enumerate(handler(replace(request.placement, deadline=deadline)))
        message = CreateReplicaPlacementResponse(version=0, replica_placement=list(rows))
        return Response(encode(message, request.correlation_id))
    except BaseException as error:  # noqa: BLE001 - a plug-in's, even sys.exit(); the service goes on
        return error_response(request, error)


def error_response(request: Request, error: BaseException) -> Response:
    """Return the response for an error of the service or of its handler.

    Only the text of rackward's errors is sent; of others, the class.
    """
    match error:
        case ServiceRefusedError():
            code = error.code
        case PlacementError():
            code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        case InvalidOptionError():
            code = ErrorCode.INVALID_REQUEST
        case TimeoutError():
            code = ErrorCode.REQUEST_TIMED_OUT
        case _:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
    known = isinstance(error, RackwardError)
    text = str(error) if known else f"the service failed with {type(error).__name__}: see its log"
    # Messages may contain what is not a character, such as a file's name.
    text = one_line(text)[:MAX_MESSAGE_LENGTH].encode("utf-8", "replace").decode()
    message = CreateReplicaPlacementResponse(
        version=0, replica_placement=[], error_code=int(code), error_message=text
    )
    return Response(encode(message, request.correlation_id), text, None if known else error)


def _check_limits(request: PlacementRequest) -> None:
    partitions, factor = request.partitions, request.replication_factor
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise ServiceRefusedError(
            ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions: request 1 to {MAX_PARTITIONS}"
        )
    max_factor = MAX_REPLICAS // partitions
    if not 1 <= factor <= max_factor:
        raise ServiceRefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} for {partitions} partitions: request 1 to {max_factor}",
        )
