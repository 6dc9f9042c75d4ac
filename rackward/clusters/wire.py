"""One connection to one broker, for the few requests that running a cluster takes.

A client proper looks after itself: it asks whichever broker it likes, and may like the
one that a test has just frozen, for as long as its timeouts are. Here the caller says
which broker is asked, so metadata can be read at every broker that is up, and a silent
one costs nothing. kafka-python's protocol layer encodes and decodes.
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any, Self

from rackward.clusters.errors import MissingExtraError

TIMEOUT_SECONDS = 10.0


class Connection:
    """Requests and answers, one after the other; OSError where the broker does not answer."""

    def __init__(self, port: int, timeout: float = TIMEOUT_SECONDS) -> None:
        try:
            from kafka.protocol.parser import KafkaProtocol
        except ImportError as error:
            raise MissingExtraError("kafka-python", "cluster") from error
        self._protocol = KafkaProtocol(client_id="rackward", ident=f"127.0.0.1:{port}")
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)

    def ask(self, request: Any) -> Any:
        """Send a request of a fixed version (``SomeRequest[3](...)``); returns the answer."""
        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())
        while True:
            received = self._socket.recv(65536)
            if not received:
                raise ConnectionError("the broker closed the connection")
            for _, answer in self._protocol.receive_bytes(received):
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
