"""One call: a connection to a service, its requests and answers, and what may go wrong."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rackward.admin.deadline import Deadline
from rackward.placement_service.address import Address
from rackward.placement_service.codec import frame
from rackward.placement_service.errors import (
    NotAPlacementServiceError,
    PlacementServiceError,
    ServiceTlsError,
    ServiceUnreachableError,
)
from rackward.placement_service.mutual_tls import MutualTls

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
