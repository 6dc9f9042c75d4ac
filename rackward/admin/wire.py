"""One connection to one broker, for the few requests where the caller says who is asked.

A client proper looks after itself: it asks whichever broker it likes, and may like the one
that has just frozen, for as long as its time-outs are; and of several faults it tells none.
Here a silent broker costs nothing, and every fault is told as it is. kafka-python's protocol
layer encodes and decodes.
"""

from __future__ import annotations

import socket
import ssl
from types import TracebackType
from typing import Any, Self

from placement_core import RackwardError


class NotKafkaError(RackwardError, OSError):
    """What answers is no broker, or speaks TLS; ``received`` is how its answer begins."""

    def __init__(self, received: bytes) -> None:
        self.received = received[:16]
        super().__init__(f"the answer is not Kafka's: it begins with {self.received!r}")


class Connection:
    """Requests and answers, one after the other; OSError where the broker does not answer.

    ``timeout`` is in seconds and counts for each step; ``context`` makes it TLS.
    """

    def __init__(
        self, host: str, port: int, timeout: float, context: ssl.SSLContext | None = None
    ) -> None:
        from kafka.protocol.parser import KafkaProtocol

        self._protocol = KafkaProtocol(client_id="rackward", ident=f"{host}:{port}")
        self._begin = b""
        self._socket: socket.socket = socket.create_connection((host, port), timeout)
        if context is not None:
            try:
                self._socket = context.wrap_socket(self._socket, server_hostname=host.rstrip("."))
            except BaseException:
                self._socket.close()
                raise

    def ask(self, request: Any) -> Any:
        """Send a request of a fixed version (``SomeRequest[3](...)``); returns the answer.

        Raises NotKafkaError where the answer cannot be one, and other OSErrors.
        """
        from kafka.errors import KafkaError

        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())
        while True:
            received = self._socket.recv(65536)
            self._begin = (self._begin + received)[:16]
            if not received:
                if self._begin and not self._begin.startswith(b"\0"):
                    raise NotKafkaError(self._begin)
                raise ConnectionError("the broker closed the connection")
            try:
                answers = self._protocol.receive_bytes(received)
            except KafkaError as error:
                raise NotKafkaError(self._begin) from error
            for _, answer in answers:
                return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
