"""The health port: ``/health/live``, ``/health/ready`` and ``/metrics`` for Prometheus."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from placement_core import RackwardError
from rackward.controller.reconcile import ReconcileStatus
from rackward.lead import LeadStatus
from rackward.lead.metrics import LeadMetrics
from rackward.placement_service import Address, MutualTls, ServiceMetrics
from rackward.placement_service.server import RateLimitedLog

MAX_CONNECTIONS = 16
TIMEOUT_SECONDS = 5.0

log = logging.getLogger("rackward.controller")


class PortError(RackwardError, OSError):
    """The health port cannot be opened."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """``ready``: whether the cluster has responded recently. ``details`` are shown with it."""

    ready: bool
    details: Mapping[str, object]


class HealthServer:
    """Serves the health port from a thread of its own until ``close``.

    ``readiness`` is called for each request of ``/health/ready``. At most MAX_CONNECTIONS are open
    at a time; more are closed at once, and a client that sends or receives nothing for
    TIMEOUT_SECONDS is disconnected. With ``tls``, clients need a certificate that it trusts.
    prometheus_client's own server would wait in its only accepting thread for each handshake.
    Requests that fail are logged, one line per kind in ten seconds. Raises PortError, and
    ConnectionPropertyError for the files of ``tls``.
    """

    def __init__(
        self,
        host: str,
        port: int,
        readiness: Callable[[], Readiness],
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
        self._server.set_app(_make_app(readiness, registry, warnings))
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
    readiness: Callable[[], Readiness], registry: CollectorRegistry, warnings: RateLimitedLog
) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    metrics = make_wsgi_app(registry)

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return respond(environ, start_response)
        except Exception as error:  # noqa: BLE001 - wsgiref would print it and go on
            warnings.warn("response", f"health port: {environ['PATH_INFO'][:80]} failed", error)
            start_response("500 Internal Server Error", [("Content-Type", "text/plain")])
            return [b"internal error: see the log of the controller\n"]

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
            case _:
                status = "404 Not Found"
                body = "the paths are /health/live, /health/ready and /metrics\n"
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


@dataclass(frozen=True, slots=True)
class ControllerMetrics:
    """The controller's metrics at one moment.

    ``requested`` reassignments, ``passes`` of the reconciler, and those that ``failed_passes``;
    ``last_response`` of the cluster, in seconds since 1970, None if there was none;
    ``leader_layouts`` that were applied; ``service`` is None if there is no placement service;
    ``led`` are the groups that are led, or are to be.
    """

    status: ReconcileStatus
    requested: int
    passes: int
    failed_passes: int
    last_response: float | None
    leader_layouts: int
    service: ServiceMetrics | None
    led: tuple[LeadStatus, ...] = ()


class MetricsCollector(Collector):
    """Returns the controller's metrics to prometheus_client when they are scraped."""

    def __init__(self, read: Callable[[], ControllerMetrics]) -> None:
        self._read = read

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the metric families; called by the registry."""
        now = self._read()
        status = now.status
        gauges: dict[str, tuple[str, float | None]] = {
            "active": ("1 if this controller has the lease.", status.active),
            "pending_records": ("Records of pending replicas.", status.records),
            "pending_partitions": ("Partitions that lack replicas.", status.partitions),
            "partitions_in_progress": ("Partitions that get replicas now.", status.in_progress),
            "placeholders_waiting": ("Replicas that no live broker can take.", status.waiting),
            "topic_offsets": ("Offsets of the topic of pending replicas.", status.offsets),
            "topic_offsets_read": (
                "Offsets read since this controller got the lease; topic_offsets if it has all.",
                status.read,
            ),
            "last_response_timestamp_seconds": (
                "When the cluster last responded, in seconds since 1970.",
                now.last_response,
            ),
        }
        counters = {
            "reassignments": ("Reassignments that were requested.", now.requested),
            "passes": ("Passes over all pending replicas.", now.passes),
            "failed_passes": ("Passes that an error ended.", now.failed_passes),
            "leader_layouts": ("Leader layouts that were applied.", now.leader_layouts),
        }
        for metric in fields(ServiceMetrics) if now.service is not None else ():
            family = gauges if metric.name.startswith("open_") else counters
            value = getattr(now.service, metric.name)
            family[f"service_{metric.name}"] = (metric.metadata["help"], value)
        for name, (help, gauge) in gauges.items():
            if gauge is not None:
                yield GaugeMetricFamily(f"rackward_controller_{name}", help, value=float(gauge))
        for name, (help, count) in counters.items():
            yield CounterMetricFamily(f"rackward_controller_{name}", help, value=float(count))
        if now.led:
            yield from LeadMetrics(lambda: now.led).collect()
