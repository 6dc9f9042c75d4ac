"""The health port: ``/health/live``, ``/health/ready``, ``/status``, and ``/metrics``."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app

from placement_core import RackwardError
from rackward.placement_service import Address, MutualTls
from rackward.placement_service.server import RateLimitedLog

MAX_CONNECTIONS = 16
TIMEOUT_SECONDS = 5.0

log = logging.getLogger("rackward.health")


class PortError(RackwardError, OSError):
    """The health port cannot be opened."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """``ready``: whether the cluster has responded recently. ``details`` are shown with it."""

    ready: bool
    details: Mapping[str, object]


class HealthServer:
    """Serves the health port from a thread of its own until ``close``.

    ``readiness`` is called for each request of ``/health/ready``, and ``status``, which returns
    values for JSON, for each of ``/status``. At most MAX_CONNECTIONS are open at a time; more are
    closed at once, and a client that sends or receives nothing for TIMEOUT_SECONDS is disconnected.
    With ``tls``, clients need a certificate that it trusts. prometheus_client's own server would
    wait in its only accepting thread for each handshake. Requests that fail are logged, one line
    per kind in ten seconds. Raises PortError, and ConnectionPropertyError for the files of ``tls``.
    """

    def __init__(
        self,
        host: str,
        port: int,
        readiness: Callable[[], Readiness],
        status: Callable[[], Mapping[str, object]],
        registry: CollectorRegistry,
        tls: MutualTls | None = None,
    ) -> None:
        context = None if tls is None else tls.server_context()
        warnings = RateLimitedLog(log)
        try:
            self._server = _Server((host, port), context, warnings)
        except OSError as error:
            raise PortError(
                f"the health port {Address(host, port)} cannot be opened: {error.strerror}"
            ) from error
        self._server.set_app(_make_app(readiness, status, registry, warnings))
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="rackward-health", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> Address:
        """The bound address."""
        return Address(*self._server.server_address[:2])  # type: ignore[arg-type]

    def close(self) -> None:
        """Stop serving and release the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(TIMEOUT_SECONDS)


def _make_app(
    readiness: Callable[[], Readiness],
    read_status: Callable[[], Mapping[str, object]],
    registry: CollectorRegistry,
    warnings: RateLimitedLog,
) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    metrics = make_wsgi_app(registry)

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return respond(environ, start_response)
        except Exception as error:  # noqa: BLE001 - wsgiref would print it and go on
            warnings.warn("response", f"health port: {environ['PATH_INFO'][:80]} failed", error)
            start_response("500 Internal Server Error", [("Content-Type", "text/plain")])
            return [b"internal error: see the log\n"]

    def respond(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        status, content_type = "200 OK", "text/plain; charset=utf-8"
        match environ["PATH_INFO"]:
            case "/metrics":
                response: Iterable[bytes] = metrics(environ, start_response)
                return response
            case "/health/live":
                body = "live\n"
            case "/health/ready":
                now = readiness()
                status = "200 OK" if now.ready else "503 Service Unavailable"
                content_type = "application/json"
                body = json.dumps({"ready": now.ready, **now.details}, indent=2) + "\n"
            case "/status":
                content_type = "application/json"
                body = json.dumps(read_status(), indent=2) + "\n"
            case _:
                status = "404 Not Found"
                body = "the paths are /health/live, /health/ready, /status and /metrics\n"
        start_response(status, [("Content-Type", content_type)])
        return [body.encode()]

    return app


class _RequestHandler(WSGIRequestHandler):
    timeout = TIMEOUT_SECONDS

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing for each scrape."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    # The default of 5 makes clients that connect at the same time wait for seconds.
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], context: ssl.SSLContext | None, warnings: RateLimitedLog
    ) -> None:
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._context, self._warnings = context, warnings
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _RequestHandler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self._context is None:
            super().finish_request(request, client_address)
            return
        # In the request's own thread, so that a handshake delays no other client.
        request.settimeout(TIMEOUT_SECONDS)
        with self._context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        error = sys.exception()
        text = f"health port: request failed: peer={client_address[0]}"
        if isinstance(error, ssl.SSLError):
            self._warnings.warn("tls", f"{text}: {(error.reason or str(error)).lower()}")
        elif isinstance(error, OSError):
            # The client has closed the connection, or took too long.
            log.debug("%s: %s", text, error)
        else:
            self._warnings.warn("request", text, error)
