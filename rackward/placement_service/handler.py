"""From a request's bytes to its answer's: all that the service decides, without its sockets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

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
from rackward.admin.errors import one_line
from rackward.placement_service import protocol as api_versions
from rackward.placement_service.protocol import (
    API_VERSIONS,
    CREATE_REPLICA_PLACEMENT,
    ErrorCode,
    PlacementRequest,
    PlacementResponse,
    Reader,
    ServiceLimits,
    UnknownRequestError,
    answer_header,
    read_start,
    skip_rest,
)

# ---- What the service is asked, as values of placement, and what a placer says to it.


@dataclass(frozen=True, slots=True)
class PlacementQuestion:
    """How a topic that nobody has named yet should lie.

    ``force_simple_placement``: by the simple placer, as if there were no racks, whatever is
    configured. ``broker_ids`` None: any live broker.
    """

    partitions: int
    replication_factor: int
    force_simple_placement: bool = False
    broker_ids: frozenset[int] | None = None


def answer_question(
    question: PlacementQuestion,
    view: ClusterView,
    placer: ReplicaPlacer,
    *,
    locator: RackLocator | None = None,
    fallback: SimplePlacer | None = None,
    ignore_racks: bool = False,
    min_insync_replicas: int | None = None,
) -> ReplicaLists:
    """What ``placer`` gives for the question, asked as :func:`placement_core.placers.place` does.

    ``fallback`` places where the placer answers None, and where simple placement is forced.
    ``ignore_racks`` places as if there were none, with the configured placer.
    ``min_insync_replicas``, where given, allows placeholders for brokers that are missing: see
    :class:`placement_core.placers.UnderReplicatedPlacer`. Pure but for the
    placer and the locator. Raises what ``place`` raises.
    """
    simple = fallback or SimplePlacer()
    forced = question.force_simple_placement
    spec = PlacementSpec(
        question.partitions,
        question.replication_factor,
        ignore_racks=ignore_racks or forced,
    )
    chosen = simple if forced else placer
    if min_insync_replicas is not None:
        chosen = UnderReplicatedPlacer(chosen, min_insync_replicas)
    return place(spec, view, chosen, question.broker_ids, locator=locator, fallback=simple)


Placing = Callable[[PlacementQuestion], ReplicaLists]
"""Decides; may take its time, and may raise anything."""

MESSAGE_LENGTH = 1000
"""Characters of an error's message that are sent."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A request that is answered by what is known already: ``answer`` is the whole of it."""

    answer: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    """The bytes of an answer.

    ``problem`` is what an error says in it, None where it has none; ``unexpected`` what was
    raised where that was none of rackward's errors.
    """

    answer: bytes
    problem: str | None = None
    unexpected: Exception | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A placement that is asked for; it may take ``timeout_seconds``."""

    correlation_id: int
    request: PlacementRequest

    @property
    def timeout_seconds(self) -> float:
        """What the client allows: 0 and less is no time at all."""
        return max(0.0, self.request.timeout_ms / 1000)

    def answer(self, placing: Placing, limits: ServiceLimits) -> Answered:
        """Ask ``placing``, and say what it says; never raises for what it raises."""
        try:
            question = _question(self.request, limits)
            return Answered(self._bytes(PlacementResponse.placed(placing(question))))
        except _RefusedError as error:
            return self._refused(error.code, str(error))
        except Exception as error:  # noqa: BLE001 - it may be anybody's, and the service goes on
            return self.failed(error)

    def timed_out(self, seconds: float) -> Answered:
        """The answer where it took longer than it may."""
        return self._refused(
            ErrorCode.REQUEST_TIMED_OUT,
            f"no placement within {seconds:.3g} s: allow it more time, or ask for less",
        )

    def failed(self, error: Exception) -> Answered:
        """The answer where whoever decides raised ``error``."""
        if isinstance(error, RackwardError):
            return self._refused(_code(error), str(error))
        told = f"the service failed with {type(error).__name__}: its log may say more"
        return replace(self._refused(_code(error), told), unexpected=error)

    def _refused(self, code: ErrorCode, problem: str) -> Answered:
        told = one_line(problem)[:MESSAGE_LENGTH]
        return Answered(self._bytes(PlacementResponse((), code, told)), told)

    def _bytes(self, response: PlacementResponse) -> bytes:
        return answer_header(self.correlation_id, flexible=True) + response.encode()


def read_request(message: bytes) -> Ready | Asked:
    """What a request comes to. ``message`` is a frame without its length.

    Raises MalformedFrameError for what is no request, and UnknownRequestError for one that this
    service does not serve.
    """
    reader = Reader(message)
    header = read_start(reader)
    if header.api_key == API_VERSIONS:
        version = header.api_version
        answer = api_versions.ApiVersionsResponse()
        if 0 <= version <= api_versions.LATEST:
            skip_rest(reader, header)
            api_versions.check_request(reader, version)
        else:
            # What follows is of a form that nobody here knows.
            version = 0
            answer = api_versions.ApiVersionsResponse(error_code=api_versions.UNSUPPORTED_VERSION)
        correlation = answer_header(header.correlation_id, flexible=False)
        return Ready(correlation + answer.encode(version))
    if header.api_key != CREATE_REPLICA_PLACEMENT or header.api_version != 0:
        raise UnknownRequestError(
            f"no request of key {header.api_key} and version {header.api_version} is served here"
        )
    skip_rest(reader, header)
    return Asked(header.correlation_id, PlacementRequest.decode(reader))


def answer(message: bytes, placing: Placing, limits: ServiceLimits) -> bytes:
    """The answer to a request, both without their lengths. Raises as ``read_request`` does."""
    request = read_request(message)
    if isinstance(request, Ready):
        return request.answer
    return request.answer(placing, limits).answer


class _RefusedError(RackwardError):
    def __init__(self, code: ErrorCode, problem: str) -> None:
        self.code = code
        super().__init__(problem)


def _question(request: PlacementRequest, limits: ServiceLimits) -> PlacementQuestion:
    partitions, factor = request.partitions, request.replication_factor
    if not 1 <= partitions <= limits.partitions:
        raise _RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            f"{partitions} partitions: ask for 1 to {limits.partitions}",
        )
    most = limits.replicas // partitions
    if not 1 <= factor <= most:
        raise _RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} for {partitions} partitions: "
            + (f"ask for 1 to {most}" if most else "ask for fewer partitions"),
        )
    return PlacementQuestion(
        partitions,
        factor,
        request.force_simple_placement,
        frozenset(request.node_ids) if request.node_ids else None,
    )


def _code(error: Exception) -> ErrorCode:
    match error:
        case PlacementError():
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        case InvalidOptionError():
            return ErrorCode.INVALID_REQUEST
        case TimeoutError():
            return ErrorCode.REQUEST_TIMED_OUT
    return ErrorCode.UNKNOWN_SERVER_ERROR
