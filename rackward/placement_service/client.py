"""``create_replica_placement`` as a client calls it."""

from __future__ import annotations

from collections.abc import Collection

from assignors.client_properties import server_list
from placement_core import InvalidOptionError, ReplicaLists
from rackward.admin.deadline import Deadline
from rackward.admin.refusals import one_line
from rackward.placement_service import api_versions
from rackward.placement_service.calling import Call
from rackward.placement_service.codec import Reader
from rackward.placement_service.errors import (
    MalformedFrameError,
    NotAPlacementServiceError,
    ServiceRefusedError,
)
from rackward.placement_service.headers import (
    API_VERSIONS,
    CREATE_REPLICA_PLACEMENT,
    RequestHeader,
    read_answer_header,
)
from rackward.placement_service.messages import ErrorCode, PlacementRequest, PlacementResponse
from rackward.placement_service.mutual_tls import MutualTls

TIMEOUT_SECONDS = 30.0

_CLIENT_ID = "rackward"
_MOST_PARTITIONS, _MOST_REPLICAS, _MOST_ID = (1 << 31) - 1, (1 << 15) - 1, (1 << 31) - 1
_ANSWER_BYTES = 64 * 1024
_ROW_BYTES, _REPLICA_BYTES = 16, 4
_MESSAGE_LENGTH = 1000
_SERVER_SHARE = 0.9
"""Of the time that is left, what the server may take: its "not in time" has to arrive in time."""


def create_replica_placement(
    address: str,
    num_partitions: int,
    replication_factor: int,
    *,
    force_simple_placement: bool = False,
    broker_ids: Collection[int] = (),
    timeout: float = TIMEOUT_SECONDS,
    tls: MutualTls | None = None,
) -> ReplicaLists:
    """The replica lists that the service at ``address`` (``host:port``) suggests.

    ``force_simple_placement``: as if there were no racks, whatever the service is configured
    with. ``broker_ids``: from these brokers only; none named, from all. ``timeout`` in seconds,
    for everything.

    An answer is believed only where it has every partition once, with as many different
    brokers as were asked for, out of those that may be used. Negative ids stand for replicas
    whose broker is still missing.

    Raises InvalidOptionError for values that no request can carry, and PlacementServiceError:
    ServiceUnreachableError, ServiceTlsError, NotAPlacementServiceError, or ServiceRefusedError
    with what the service says.
    """
    _check(num_partitions, replication_factor, broker_ids, timeout)
    deadline = Deadline.after(timeout)
    with Call(_one_server(address), deadline, tls) as call:
        try:
            _check_service(call)
            # Asked for only now: a broker of Kafka has another request of this key.
            request = PlacementRequest(
                num_partitions,
                replication_factor,
                force_simple_placement,
                tuple(sorted(broker_ids)),
                max(1, int(deadline.remaining * 1000 * _SERVER_SHARE)),
            )
            response = _asked(call, request)
            if response.error_code:
                raise _refusal(address, response)
            return _rows(response, request)
        except MalformedFrameError as error:
            raise NotAPlacementServiceError(
                f"what answers at {address} is not a placement service of this version: {error}"
            ) from error


def _check(partitions: int, factor: int, broker_ids: Collection[int], timeout: float) -> None:
    for name, value, most in (
        ("num_partitions", partitions, _MOST_PARTITIONS),
        ("replication_factor", factor, _MOST_REPLICAS),
    ):
        if not 1 <= value <= most:
            raise InvalidOptionError(f"{name} is {value}: give a number from 1 to {most}")
    if strange := sorted(each for each in broker_ids if not 0 <= each <= _MOST_ID):
        raise InvalidOptionError(f"broker_ids has {strange[0]}, which is not a broker id")
    if not timeout > 0:
        raise InvalidOptionError(f"timeout is {timeout}: give seconds, more than 0")


def _one_server(address: str) -> tuple[str, int]:
    servers = server_list(address, "the placement service's address")
    if len(servers) > 1:
        raise InvalidOptionError(
            f"the placement service's address is {address}: give one host:port"
        )
    host, _, port = servers[0].rpartition(":")
    return host.strip("[]"), int(port)


def _check_service(call: Call) -> None:
    """Ask what is served there, in a way that every server of Kafka's protocol takes well."""
    header = RequestHeader(API_VERSIONS, 0, 1, _CLIENT_ID)
    reader = Reader(call.ask(header.encode(), _ANSWER_BYTES))
    _check_correlation(read_answer_header(reader, flexible=False), header)
    response = api_versions.ApiVersionsResponse.decode(reader)
    ours = {each.api_key for each in api_versions.SERVED}
    found = {each.api_key: each for each in response.ranges}
    if response.error_code or found.keys() != ours:
        raise NotAPlacementServiceError(
            f"what answers at {call.address} speaks Kafka's protocol and is no placement service "
            "(a broker, it seems): give the address that rackward's controller serves it at"
        )
    placement = found[CREATE_REPLICA_PLACEMENT]
    if not placement.first <= 0 <= placement.last:
        raise NotAPlacementServiceError(
            f"the placement service at {call.address} serves versions {placement.first} to "
            f"{placement.last} of its request, and this client knows version 0 only: upgrade it"
        )


def _asked(call: Call, request: PlacementRequest) -> PlacementResponse:
    header = RequestHeader(CREATE_REPLICA_PLACEMENT, 0, 2, _CLIENT_ID)
    row = _ROW_BYTES + _REPLICA_BYTES * request.replication_factor
    most = _ANSWER_BYTES + request.partitions * row
    reader = Reader(call.ask(header.encode() + request.encode(), most))
    _check_correlation(read_answer_header(reader, flexible=True), header)
    return PlacementResponse.decode(reader)


def _check_correlation(found: int, header: RequestHeader) -> None:
    if found != header.correlation_id:
        raise MalformedFrameError("the answer is to another request")


def _refusal(address: str, response: PlacementResponse) -> ServiceRefusedError:
    code = response.error_code
    name = ErrorCode(code).name if code in set(ErrorCode) else f"error code {code}"
    message = one_line(response.error_message or "it does not say why")[:_MESSAGE_LENGTH]
    # Whoever answers must not write to a terminal what it likes.
    plain = "".join(each if each.isprintable() else "?" for each in message)
    return ServiceRefusedError(code, f"the placement service at {address}: {plain} ({name})")


def _rows(response: PlacementResponse, request: PlacementRequest) -> ReplicaLists:
    rows = sorted(response.rows)
    if len(rows) != request.partitions or any(
        partition != expected for expected, (partition, _) in enumerate(rows)
    ):
        raise MalformedFrameError(f"it does not place {request.partitions} partitions once each")
    usable = set(request.node_ids or ())
    for partition, replicas in rows:
        named = {each for each in replicas if each >= 0}
        if len(replicas) != request.replication_factor or len(set(replicas)) < len(replicas):
            raise MalformedFrameError(f"it gives partition {partition} {list(replicas[:9])}")
        if usable and not named <= usable:
            raise MalformedFrameError(f"it gives partition {partition} a broker not asked for")
    return tuple(replicas for _, replicas in rows)
