"""Sources of racks: a metadata server and its possible faults, plug-ins, long timeouts.

The server implements the metadata services of three clouds, and refuses what these refuse:
requests without the required header, unknown or expired tokens, and requests through a proxy.
Plug-ins are callables of this module, and a distribution with entry points to them.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from assignors.rack_discovery import RackSource, SourceError
from assignors.rack_discovery.resolve import SearchResult, search
from assignors.rack_discovery.sources import PLUGIN_GROUP
from tests.support.waiting import TEST_TIMEOUT


def search_with_long_timeouts(sources: Iterable[RackSource]) -> SearchResult:
    """Search with timeouts that a busy machine does not exceed."""

    patient = [replace(source, timeout=TEST_TIMEOUT) for source in sources]
    return search(patient, timeout=10 * TEST_TIMEOUT)


# The server.

Fault = Callable[["Handler"], None]
"""Answers a request in place of the server."""

COMPUTE: dict[str, Any] = {
    "location": "westeurope",
    "zone": "2",
    "name": "vm",
    "tagsList": [{"name": "team", "value": "billing"}],
}


class MetadataServer:
    """The metadata services of all three clouds at one address; see :func:`metadata_server`.

    ``requests`` lists method and path of each request. ``stopping`` is set when the server stops.
    """

    def __init__(self, fault: Fault | None, compute: object) -> None:
        self.requests: list[str] = []
        self.fault = fault
        self.compute = compute
        self.token_expiry: dict[str, float] = {}
        self.stopping = threading.Event()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.metadata = self  # type: ignore[attr-defined]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"


@contextmanager
def metadata_server(
    fault: Fault | None = None, compute: object = COMPUTE
) -> Iterator[MetadataServer]:
    """Run a metadata server. ``compute`` is Azure's description of the machine."""
    server = MetadataServer(fault, compute)
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.http.shutdown()
        thread.join(10)
        server.http.server_close()


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    @property
    def metadata(self) -> MetadataServer:
        server: MetadataServer = self.server.metadata  # type: ignore[attr-defined]
        return server

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def respond(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.metadata.requests.append(f"{self.command} {self.path}")
        if self.metadata.fault is not None:
            self.metadata.fault(self)
            return
        url, headers = urlsplit(self.path), self.headers
        if (self.command, url.path) == ("PUT", "/latest/api/token"):
            lifetime = headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
            if "X-Forwarded-For" in headers:
                self.respond(403)
            elif not lifetime.isdigit() or not 1 <= int(lifetime) <= 21600:
                self.respond(400)
            else:
                token = uuid.uuid4().hex + "=="
                self.metadata.token_expiry[token] = time.monotonic() + int(lifetime)
                self.respond(200, token.encode())
        elif self.command == "PUT":
            self.respond(404)
        elif url.path.startswith("/latest/meta-data/placement/"):
            self._aws(url.path.rpartition("/")[2])
        elif url.path == "/computeMetadata/v1/instance/zone":
            if headers.get("Metadata-Flavor") != "Google" or "X-Forwarded-For" in headers:
                self.respond(403)
            else:
                zone = b"projects/123456789/zones/europe-west1-b"
                self.respond(200, zone, Metadata_Flavor="Google")
        elif url.path == "/metadata/instance/compute":
            versions = parse_qs(url.query).get("api-version", [])
            if headers.get("Metadata") != "true" or versions != ["2021-02-01"]:
                self.respond(400)
            else:
                body = json.dumps(self.metadata.compute).encode()
                self.respond(200, body, Content_Type="application/json")
        else:
            self.respond(404)

    do_PUT = do_GET

    def _aws(self, item: str) -> None:
        expiry = self.metadata.token_expiry.get(self.headers.get("X-aws-ec2-metadata-token", ""), 0)
        zones = {"availability-zone": b"us-east-1a", "availability-zone-id": b"use1-az4"}
        if expiry <= time.monotonic():
            self.respond(401)
        elif item not in zones:
            self.respond(404)
        else:
            self.respond(200, zones[item])


# Faults.

PORTAL = b"<!DOCTYPE html>\n<html><body>Please log in to the network</body></html>\n"


def status(code: int) -> Fault:
    return lambda handler: handler.respond(code, b"projects/1/zones/no-1")


def body(content: bytes) -> Fault:
    return lambda handler: handler.respond(200, content, Metadata_Flavor="Google")


def raw(content: bytes) -> Fault:
    """Send ``content`` in place of a response, and close the connection."""

    def fault(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(content)

    return fault


def hang(handler: Handler) -> None:
    """Send nothing."""
    handler.metadata.stopping.wait(240)


def slow(seconds: float) -> Fault:
    """Respond with a status after that many seconds."""

    def fault(handler: Handler) -> None:
        handler.metadata.stopping.wait(seconds)
        with suppress(OSError):
            handler.respond(404)

    return fault


def trickle(handler: Handler) -> None:
    """Send a byte now and then, so that no single read times out."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n"
    for byte in head + b"x" * 4000:
        if handler.metadata.stopping.wait(0.05):
            return
        try:
            handler.wfile.write(bytes([byte]))
        except OSError:
            return


def flood(handler: Handler) -> None:
    """Send 10 MB."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(10 << 20))
    handler.send_header("Metadata-Flavor", "Google")
    handler.end_headers()
    try:
        for _ in range(160):
            handler.wfile.write(b"a" * (1 << 16))
    except OSError:
        handler.close_connection = True


WRONG_RESPONSES: dict[str, Fault] = {
    "empty": body(b""),
    "binary": body(bytes(range(256))),
    "10 MB": flood,
    "newlines": body(b"\n\n\nprojects/1/zones/a\n\nprojects/1/zones/b\n\n"),
    "a captive portal": body(PORTAL),
    "JSON that is not an object": body(b'["westeurope", "1"]'),
    "deep JSON": body(b"[" * 4000),
    "JSON of other types": body(b'{"location": 1, "zone": {"a": "b"}}'),
    "JSON without a zone": body(b'{"location": "westeurope"}'),
    "JSON with a wrong zone": body(b'{"location": "westeurope", "zone": "<b>"}'),
    "HTTP 500": status(500),
    "HTTP 401": status(401),
    "HTTP 403": status(403),
    "HTTP 404": status(404),
    "HTTP 503": status(503),
    "no response": raw(b""),
    "not HTTP": raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "an invalid status line": raw(b"HTTP/1.1 abc def\r\n\r\n"),
    "endless headers": raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000),
    "a long header": raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n"),
    # The part that arrives looks like a token or a zone.
    "truncated": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\nuse1-az1"),
    "invalid chunks": raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
}
"""Responses that are wrong, and arrive at once."""

LATE_RESPONSES: dict[str, Fault] = {
    "hang": hang,
    "slow": slow(240),
}
"""Responses that do not arrive in time."""


# Plug-ins.

HERE = __name__
RELEASE = threading.Event()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **plugins: str) -> None:
    """Install plug-ins by name: functions of this module, or any MODULE:ATTRIBUTE."""
    info = folder / "example-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
    lines = [
        f"{name} = {target if ':' in target else f'{HERE}:{target}'}"
        for name, target in plugins.items()
    ]
    (info / "entry_points.txt").write_text("\n".join([f"[{PLUGIN_GROUP}]", *lines, ""]))
    monkeypatch.syspath_prepend(folder)


def rack_a() -> str:
    return "a"


def rack_b() -> str:
    return " b\n"


def none() -> None:
    return None


def number() -> int:
    return 7


def empty() -> str:
    return ""


def html() -> str:
    return "<html>log in</html>"


def fails() -> str:
    raise ZeroDivisionError("planted\nin two lines")


def raises_source_error() -> str:
    raise SourceError("is not in the inventory\n" + "x" * 5000)


def exits() -> str:
    raise SystemExit(3)


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError


def unprintable() -> str:
    raise _Unprintable


def late() -> str:
    time.sleep(2)
    return "late"


def hangs() -> str:
    RELEASE.wait(60)
    return "far too late"
