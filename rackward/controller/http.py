"""A port for those who look after the controller: is it well, and what has it done."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from placement_core import RackwardError
from rackward.controller.reconciler import Kept
from rackward.placement_service import Address, ServiceCounts

MOST_AT_ONCE = 16
PATIENCE_SECONDS = 5.0


class PortError(RackwardError, OSError):
    """The port of health and metrics cannot be had."""


@dataclass(frozen=True, slots=True)
class Health:
    """``ready``: the cluster has answered lately. ``facts`` are for people who look."""

    ready: bool
    facts: Mapping[str, object]


class HealthPort:
    """Serves ``/health/live``, ``/health/ready`` and ``/metrics`` from a thread of its own.

    ``health`` is asked for each answer. A few answers at a time, and nobody is waited for long.
    Raises PortError; close it in the end.
    """

    def __init__(
        self, host: str, port: int, health: Callable[[], Health], registry: CollectorRegistry
    ) -> None:
        try:
            self._server = _Server((host, port), _handler(health, registry))
        except OSError as error:
            raise PortError(
                f"{Address(host, port)} cannot be listened at for health and metrics: "
                f"{error.strerror}"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="rackward-health", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> Address:
        """What was bound."""
        return Address(*self._server.server_address[:2])  # type: ignore[arg-type]

    def close(self) -> None:
        """Stop, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_SECONDS)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # With the five of the library a few callers at once wait for seconds until they try again.
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever hangs up, or says nothing, is nobody's fault."""


def _handler(
    health: Callable[[], Health], registry: CollectorRegistry
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE_SECONDS

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/health/live":
                    self._answer(200, "text/plain; charset=utf-8", b"live\n")
                case "/health/ready":
                    found = health()
                    body = json.dumps({"ready": found.ready, **found.facts}, indent=2) + "\n"
                    self._answer(200 if found.ready else 503, "application/json", body.encode())
                case "/metrics":
                    self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
                case _:
                    told = b"there are /health/live, /health/ready and /metrics\n"
                    self._answer(404, "text/plain; charset=utf-8", told)

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Nobody needs a line for each scrape."""

    return Handler


# ---- The controller's figures for Prometheus, read when it asks.


@dataclass(frozen=True, slots=True)
class Figures:
    """A moment's figures; ``service`` is None where none is served. ``failures``: turns that the
    cluster did not let finish; ``answered``: seconds since 1970, None where it never has."""

    kept: Kept
    asked: int
    turns: int
    failures: int
    answered: float | None
    layouts: int
    service: ServiceCounts | None


class ControllerCollector(Collector):
    """Gives a registry what ``figures`` returns."""

    def __init__(self, figures: Callable[[], Figures]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """What prometheus_client calls."""
        now = self._figures()
        yield _gauge("lease_held", "Whether this controller keeps the intents.", now.kept.held)
        yield _gauge("intents", "Topics made with fewer replicas than wanted.", now.kept.intents)
        yield _gauge("intent_partitions", "Their partitions that are still short.", now.kept.open)
        yield _gauge(
            "partitions_under_way", "Of these, those that get replicas now.", now.kept.under_way
        )
        yield _gauge(
            "placeholders_waiting", "Replicas that no live broker can take.", now.kept.waiting
        )
        yield _counter("fills", "Partitions that the cluster was asked to fill.", now.asked)
        yield _counter("turns", "Times that the intents were looked at.", now.turns)
        yield _counter("failed_turns", "Of these, those that the cluster failed.", now.failures)
        yield _counter("leader_layouts", "Leader layouts that were carried out.", now.layouts)
        if now.answered is not None:
            yield _gauge(
                "cluster_answered_timestamp_seconds",
                "When the cluster last answered.",
                now.answered,
            )
        if now.service is not None:
            for each in fields(ServiceCounts):
                value = getattr(now.service, each.name)
                if each.name.startswith("open_"):
                    yield _gauge(f"service_{each.name}", "Of the placement service.", value)
                else:
                    yield _counter(f"service_{each.name}", "Of the placement service.", value)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"rackward_controller_{name}", text, value=float(value))


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"rackward_controller_{name}", text, value=float(value))
