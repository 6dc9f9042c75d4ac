"""``create_replica_placement`` for clients of a placement service.

A call opens a connection and sends two requests. ApiVersions, in its version 0, which every server
of Kafka's protocol understands, establishes that the server is a placement service: a broker has
another request with the api key of CreateReplicaPlacement and must not receive it. The response is
then checked against the request before it is returned.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from assignors.connection import server_list
from placement_core import InvalidOptionError, ReplicaLists
from rackward.kafka.errors import one_line
from rackward.placement_service.messages import (
    API_VERSIONS,
    CREATE_REPLICA_PLACEMENT,
    LENGTH_BYTES,
    Address,
    CreateReplicaPlacementRequest,
    CreateReplicaPlacementResponse,
    ErrorCode,
    MalformedFrameError,
    NotAPlacementServiceError,
    PlacementServiceError,
    ServiceRefusedError,
    ServiceTlsError,
    ServiceUnreachableError,
    decode,
    encode,
    frame,
    frame_length,
)
from rackward.placement_service.tls import MutualTls
from rackward.units import Deadline

TIMEOUT_SECONDS = 60.0

_CLIENT_ID = "rackward"
_MAX_INT16, _MAX_INT32 = (1 << 15) - 1, (1 << 31) - 1
_RESPONSE_BYTES = 64 * 1024
_ROW_BYTES, _REPLICA_BYTES = 16, 4
_MAX_MESSAGE_LENGTH = 1000
_SERVER_SHARE = 0.9
"""The share of the remaining time that the server may use, so that its timeout error arrives."""

_CHUNK_BYTES = 65536
_TLS_ALERT = b"\x15\x03"


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
    """Return the replica lists that the service at ``address`` (``host:port``) suggests.

    force_simple_placement
        Place without racks, whatever the service is configured with.
    broker_ids
        Use these brokers only; if empty, any.
    timeout
        Seconds for the whole call.

    The response is accepted only if it has every partition once, each with ``replication_factor``
    different brokers of those that may be used. Negative ids are placeholders for brokers that are
    missing.

    Raises InvalidOptionError for arguments that do not fit into a request, and
    PlacementServiceError: ServiceUnreachableError, ServiceTlsError, NotAPlacementServiceError, or
    ServiceRefusedError with the service's error.
    """
    _check_arguments(num_partitions, replication_factor, broker_ids, timeout)
    deadline = Deadline.after(timeout)
    with closing(_Connection(_parse_address(address), deadline, tls)) as connection:
        try:
            _check_service(connection)
            request = CreateReplicaPlacementRequest(
                version=0,
                num_partitions=num_partitions,
                replication_factor=replication_factor,
                force_simple_placement=force_simple_placement,
                node_id=sorted(broker_ids),
                timeout_ms=min(_MAX_INT32, max(1, int(deadline.remaining_ms * _SERVER_SHARE))),
            )
            row_bytes = _ROW_BYTES + _REPLICA_BYTES * replication_factor
            response = connection.call(
                request,
                CreateReplicaPlacementResponse,
                correlation_id=2,
                max_bytes=_RESPONSE_BYTES + num_partitions * row_bytes,
            )
            if response.error_code:
                raise _refused(address, response.error_code, response.error_message)
            return _check_placement(response, request)
        except MalformedFrameError as error:
            raise NotAPlacementServiceError(
                f"the server at {address} is not a placement service of this version: {error}"
            ) from error


def _check_arguments(
    partitions: int, factor: int, broker_ids: Collection[int], timeout: float
) -> None:
    for name, value, maximum in (
        ("num_partitions", partitions, _MAX_INT32),
        ("replication_factor", factor, _MAX_INT16),
    ):
        if not 1 <= value <= maximum:
            raise InvalidOptionError(f"{name} is {value}: give a number from 1 to {maximum}")
    if invalid := sorted(broker for broker in broker_ids if not 0 <= broker <= _MAX_INT32):
        raise InvalidOptionError(f"broker_ids has {invalid[0]}, which is not a broker id")
    if not timeout > 0:
        raise InvalidOptionError(f"timeout is {timeout}: give a number of seconds above 0")


def _parse_address(address: str) -> Address:
    servers = server_list(address, "the placement service's address")
    if len(servers) > 1:
        raise InvalidOptionError(
            f"the placement service's address is {address}: give one host:port"
        )
    host, _, port = servers[0].rpartition(":")
    return Address(host.strip("[]"), int(port))


def _check_service(connection: _Connection) -> None:
    response = connection.call(
        ApiVersionsRequest(version=0),
        ApiVersionsResponse,
        correlation_id=1,
        max_bytes=_RESPONSE_BYTES,
    )
    served = {versions.api_key: versions for versions in response.api_keys or ()}
    if response.error_code or served.keys() != {API_VERSIONS, CREATE_REPLICA_PLACEMENT}:
        raise NotAPlacementServiceError(
            f"the server at {connection.address} uses Kafka's protocol but is not a placement "
            "service (a broker, probably): give the address that rackward's controller serves it on"
        )
    versions = served[CREATE_REPLICA_PLACEMENT]
    if not versions.min_version <= 0 <= versions.max_version:
        raise NotAPlacementServiceError(
            f"the placement service at {connection.address} serves versions {versions.min_version} "
            f"to {versions.max_version} of its request, and this client only version 0: upgrade it"
        )


def _refused(address: str, code: int, message: str | None) -> ServiceRefusedError:
    name = ErrorCode(code).name if code in set(ErrorCode) else f"error code {code}"
    text = one_line(message or "it gives no reason")[:_MAX_MESSAGE_LENGTH]
    # Control characters of a server must not reach a terminal.
    text = "".join(character if character.isprintable() else "?" for character in text)
    return ServiceRefusedError(code, f"the placement service at {address}: {text} ({name})")


def _check_placement(response: Any, request: Any) -> ReplicaLists:
    """Return the rows by partition. Raises MalformedFrameError if they do not fit the request."""
    # Arrays may be null, which the schema does not allow.
    placements = response.replica_placement or ()
    rows = sorted((row.partition_id, tuple(row.replicas or ())) for row in placements)
    if [partition for partition, _ in rows] != list(range(len(rows))) or (
        len(rows) != request.num_partitions
    ):
        raise MalformedFrameError(
            f"the response does not have {request.num_partitions} partitions once each"
        )
    allowed = set(request.node_id)
    for partition, replicas in rows:
        if len(replicas) != request.replication_factor or len(set(replicas)) < len(replicas):
            raise MalformedFrameError(
                f"the response has replicas {list(replicas[:9])} for partition {partition}"
            )
        if allowed and not {broker for broker in replicas if broker >= 0} <= allowed:
            raise MalformedFrameError(
                f"the response has a broker for partition {partition} that was not in broker_ids"
            )
    return tuple(replicas for _, replicas in rows)


class _Connection:
    """A connection to a service, opened at once; all operations share one deadline.

    Raises PlacementServiceError, and ConnectionPropertyError for the files of ``tls``.
    """

    def __init__(self, address: Address, deadline: Deadline, tls: MutualTls | None) -> None:
        self.address = address
        self._deadline = deadline
        self._tls = tls is not None
        context = None if tls is None else tls.client_context()
        with self._translate_errors():
            self._socket: socket.socket = socket.create_connection(address, self._remaining())
            if context is not None:
                try:
                    self._socket.settimeout(self._remaining())
                    self._socket = context.wrap_socket(
                        self._socket, server_hostname=address.host.rstrip(".")
                    )
                except BaseException:
                    self._socket.close()
                    raise

    def call(
        self, request: Any, response_class: Any, *, correlation_id: int, max_bytes: int
    ) -> Any:
        """Send a request of kafka-python and return the response, at most ``max_bytes`` long.

        Raises MalformedFrameError, too.
        """
        with self._translate_errors():
            self._socket.settimeout(self._remaining())
            self._socket.sendall(frame(encode(request, correlation_id, _CLIENT_ID)))
            prefix = self._receive(LENGTH_BYTES)
            try:
                length = frame_length(prefix, max_bytes)
            except MalformedFrameError:
                if prefix.startswith(_TLS_ALERT):
                    raise ServiceTlsError(
                        f"{self.address} requires TLS: give ca_file, cert_file and key_file"
                    ) from None
                raise NotAPlacementServiceError(
                    f"the server at {self.address} is not a placement service: check the port"
                ) from None
            message = self._receive(length)
        response = decode(response_class, message, request.API_VERSION)
        if response.header.correlation_id != correlation_id:
            raise MalformedFrameError("the response is to another request")
        return response

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            self._socket.settimeout(self._remaining())
            chunk = self._socket.recv(min(_CHUNK_BYTES, count - len(received)))
            if not chunk:
                raise ConnectionError
            received += chunk
        return bytes(received)

    def _remaining(self) -> float:
        remaining = self._deadline.remaining
        if not remaining:
            raise TimeoutError
        return remaining

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise errors of sockets as PlacementServiceError."""
        try:
            yield
        except (OSError, UnicodeError) as error:
            raise self._translate(error) from error

    def _translate(self, error: OSError | UnicodeError) -> PlacementServiceError:
        address = self.address
        match error:
            case UnicodeError():
                # A label of the host name is empty or too long.
                return ServiceUnreachableError(f"{address} is not a valid address: {error}")
            case ssl.SSLCertVerificationError():
                reason = error.verify_message.rstrip(".")
                return ServiceTlsError(
                    f"the certificate of {address} is not trusted ({reason}): check the address, "
                    "and that ca_file is of the authority that signed it"
                )
            case ssl.SSLError() if not isinstance(error, ssl.SSLEOFError):
                reason = (error.reason or str(error)).replace("_", " ").lower()
                return ServiceTlsError(
                    f"the TLS handshake with {address} failed ({reason}): check the port, and that "
                    "the service trusts the authority that signed cert_file"
                )
            case TimeoutError():
                return ServiceUnreachableError(
                    f"{address} did not respond within {self._deadline.seconds:.3g} s: check the "
                    "address, or allow more time"
                )
            case socket.gaierror():
                return ServiceUnreachableError(f"the host name {address.host!r} is not known")
            case ConnectionRefusedError():
                return ServiceUnreachableError(
                    f"connection refused by {address}: check host and port, and that the "
                    "controller is running"
                )
            case ConnectionError() | ssl.SSLError() if self._tls:
                return ServiceTlsError(
                    f"{address} closed the connection (TLS): it may not trust the authority that "
                    "signed cert_file, or not use TLS"
                )
            case ConnectionError():
                return NotAPlacementServiceError(
                    f"{address} closed the connection (PLAINTEXT): it may require TLS (ca_file, "
                    "cert_file, key_file), or not be a placement service"
                )
        return ServiceUnreachableError(f"{address} cannot be reached: {error.strerror or error}")
