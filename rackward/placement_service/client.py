"""``create_replica_placement`` as a client calls it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from assignors.connection import server_list
from placement_core import InvalidOptionError, ReplicaLists
from rackward.admin.errors import Deadline, one_line
from rackward.placement_service import protocol as api_versions
from rackward.placement_service.protocol import (
    API_VERSIONS,
    CREATE_REPLICA_PLACEMENT,
    Address,
    ErrorCode,
    MalformedFrameError,
    NotAPlacementServiceError,
    PlacementRequest,
    PlacementResponse,
    PlacementServiceError,
    Reader,
    RequestHeader,
    ServiceRefusedError,
    ServiceTlsError,
    ServiceUnreachableError,
    frame,
    read_answer_header,
)
from rackward.placement_service.tls import MutualTls

# ---- One call: a connection to a service, its requests and answers, and what may go wrong.

_CHUNK_BYTES = 65536
_LENGTH_BYTES = 4
_TLS_ALERT = b"\x15\x03"


class _HungUpError(ConnectionError):
    """The connection ended where an answer, or more of one, should have come."""


class Call:
    """Connects at once; every step counts against one deadline. Closed by ``with``.

    Raises PlacementServiceError, and ConnectionPropertyError for the files of ``tls``.
    """

    def __init__(self, server: tuple[str, int], deadline: Deadline, tls: MutualTls | None) -> None:
        self.address = Address(*server)
        self._deadline = deadline
        self._secured = tls is not None
        context = None if tls is None else tls.client_context()
        with self._told():
            self._socket: socket.socket = socket.create_connection(server, self._left())
            if context is not None:
                try:
                    self._socket.settimeout(self._left())
                    self._socket = context.wrap_socket(
                        self._socket, server_hostname=self.address.host.rstrip(".")
                    )
                except BaseException:
                    self._socket.close()
                    raise

    def ask(self, request: bytes, most_bytes: int) -> bytes:
        """The answer to a request, both without their lengths; ``most_bytes`` of it are taken."""
        with self._told():
            self._socket.settimeout(self._left())
            self._socket.sendall(frame(request))
            begun = self._exactly(_LENGTH_BYTES)
            length = int.from_bytes(begun, "big", signed=True)
            if not 0 <= length <= most_bytes:
                if begun.startswith(_TLS_ALERT):
                    raise ServiceTlsError(
                        f"{self.address} expects TLS: give the files for it (ca_file, cert_file, "
                        "key_file)"
                    )
                raise NotAPlacementServiceError(
                    f"what answers at {self.address} is not a placement service: check the port"
                )
            return self._exactly(length)

    def _exactly(self, wanted: int) -> bytes:
        received = bytearray()
        while len(received) < wanted:
            self._socket.settimeout(self._left())
            more = self._socket.recv(min(_CHUNK_BYTES, wanted - len(received)))
            if not more:
                raise _HungUpError
            received += more
        return bytes(received)

    def _left(self) -> float:
        left = self._deadline.remaining
        if not left:
            raise TimeoutError
        return left

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of sockets as what they mean to whoever called."""
        try:
            yield
        except OSError as error:
            raise self._fault(error) from error
        except UnicodeError as error:
            # A label of the name is empty, or too long.
            raise ServiceUnreachableError(f"{self.address} is no address: {error}") from error

    def _fault(self, error: OSError) -> PlacementServiceError:
        where = self.address
        match error:
            case ssl.SSLCertVerificationError():
                told = error.verify_message.rstrip(".")
                return ServiceTlsError(
                    f"the certificate of {where} is not trusted ({told}): check the address, and "
                    "whether ca_file is of the authority that signed it"
                )
            case ssl.SSLError() if not isinstance(error, ssl.SSLEOFError):
                reason = (error.reason or str(error)).replace("_", " ").lower()
                return ServiceTlsError(
                    f"{where} and this client agree on no TLS ({reason}): check the port, and that "
                    "the service trusts the authority that signed cert_file"
                )
            case TimeoutError():
                return ServiceUnreachableError(
                    f"{where} does not answer within {self._deadline.seconds:.3g} s: check the "
                    "address, or allow it more time"
                )
            case socket.gaierror():
                return ServiceUnreachableError(f"the host name {where.host!r} is not known")
            case ConnectionRefusedError():
                return ServiceUnreachableError(
                    f"nothing listens at {where}: check host and port, and that the controller is "
                    "up"
                )
            case ConnectionError() | ssl.SSLError() if self._secured:
                return ServiceTlsError(
                    f"{where} hangs up on this client: it may not trust the authority that signed "
                    "cert_file, or not speak TLS"
                )
            case ConnectionError():
                return NotAPlacementServiceError(
                    f"{where} hangs up on this client: it may expect TLS (ca_file, cert_file, "
                    "key_file), or be no placement service"
                )
        return ServiceUnreachableError(f"{where} cannot be reached: {error.strerror or error}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()


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
