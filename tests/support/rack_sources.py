"""What a metadata service, or what stands in its place, may answer that is no zone."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

# ---- The metadata services of three clouds, on this machine and without mercy.
#
# Each refuses what the real one refuses: a question without its header, a token that is unknown or
# has expired, a request that came through a proxy. A ``fault`` answers in its place.

Fault = Callable[["Handler"], None]

COMPUTE: dict[str, Any] = {
    "location": "westeurope",
    "zone": "2",
    "name": "vm",
    "tagsList": [{"name": "team", "value": "billing"}],
}


class MetadataServer:
    """All three clouds at one address, until the ``with`` block ends."""

    def __init__(self, fault: Fault | None = None, compute: object = COMPUTE) -> None:
        self.asked: list[str] = []
        self.fault = fault
        self.compute = compute
        self.tokens: dict[str, float] = {}
        self.ending = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.metadata = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ending.set()
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    @property
    def metadata(self) -> MetadataServer:
        found: MetadataServer = self.server.metadata  # type: ignore[attr-defined]
        return found

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        self.metadata.asked.append(f"PUT {self.path}")
        if self.metadata.fault is not None:
            self.metadata.fault(self)
        elif self.path != "/latest/api/token":
            self.answer(404)
        elif "X-Forwarded-For" in self.headers:
            self.answer(403)
        else:
            lifetime = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
            if not lifetime.isdigit() or not 1 <= int(lifetime) <= 21600:
                self.answer(400)
                return
            token = uuid.uuid4().hex + "=="
            self.metadata.tokens[token] = time.monotonic() + int(lifetime)
            self.answer(200, token.encode())

    def do_GET(self) -> None:
        self.metadata.asked.append(f"GET {self.path}")
        if self.metadata.fault is not None:
            self.metadata.fault(self)
            return
        asked = urlsplit(self.path)
        if asked.path.startswith("/latest/meta-data/placement/"):
            self._aws(asked.path.rpartition("/")[2])
        elif asked.path == "/computeMetadata/v1/instance/zone":
            if self.headers.get("Metadata-Flavor") != "Google" or "X-Forwarded-For" in self.headers:
                self.answer(403)
            else:
                zone = b"projects/123456789/zones/europe-west1-b"
                self.answer(200, zone, Metadata_Flavor="Google")
        elif asked.path == "/metadata/instance/compute":
            versions = parse_qs(asked.query).get("api-version", [])
            if self.headers.get("Metadata") != "true" or versions != ["2021-02-01"]:
                self.answer(400)
            else:
                body = json.dumps(self.metadata.compute).encode()
                self.answer(200, body, Content_Type="application/json")
        else:
            self.answer(404)

    def _aws(self, item: str) -> None:
        expiry = self.metadata.tokens.get(self.headers.get("X-aws-ec2-metadata-token", ""), 0)
        zones = {"availability-zone": b"us-east-1a", "availability-zone-id": b"use1-az4"}
        if expiry <= time.monotonic():
            self.answer(401)
        elif item not in zones:
            self.answer(404)
        else:
            self.answer(200, zones[item])


PORTAL = b"<!DOCTYPE html>\n<html><body>Please log in to the network</body></html>\n"


def status(code: int) -> Fault:
    return lambda handler: handler.answer(code, b"projects/1/zones/no-1")


def body(content: bytes) -> Fault:
    return lambda handler: handler.answer(200, content, Metadata_Flavor="Google")


def raw(content: bytes) -> Fault:
    """``content`` in place of an answer, and the end of the connection."""

    def fault(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(content)

    return fault


def hang(handler: Handler) -> None:
    handler.metadata.ending.wait(240)


def slow(seconds: float) -> Fault:
    """A status only after so many seconds."""

    def fault(handler: Handler) -> None:
        handler.metadata.ending.wait(seconds)
        with suppress(OSError):
            handler.answer(404)

    return fault


def trickle(handler: Handler) -> None:
    """One byte at a time, so that no wait for the next is ever long."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n"
    for byte in head + b"x" * 4000:
        if handler.metadata.ending.wait(0.05):
            return
        try:
            handler.wfile.write(bytes([byte]))
        except OSError:
            return


def flood(handler: Handler) -> None:
    """10 MB."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(10 << 20))
    handler.send_header("Metadata-Flavor", "Google")
    handler.end_headers()
    try:
        for _ in range(160):
            handler.wfile.write(b"a" * (1 << 16))
    except OSError:
        handler.close_connection = True


BROKEN_OFF = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\nuse1-az1")

WRONG: dict[str, Fault] = {
    "empty": body(b""),
    "binary": body(bytes(range(256))),
    "10 MB": flood,
    "newlines": body(b"\n\n\nprojects/1/zones/a\n\nprojects/1/zones/b\n\n"),
    "a captive portal": body(PORTAL),
    "JSON of no object": body(b'["westeurope", "1"]'),
    "deep JSON": body(b"[" * 4000),
    "JSON of other types": body(b'{"location": 1, "zone": {"a": "b"}}'),
    "JSON without a zone": body(b'{"location": "westeurope"}'),
    "JSON with a wrong zone": body(b'{"location": "westeurope", "zone": "<b>"}'),
    "HTTP 500": status(500),
    "HTTP 401": status(401),
    "HTTP 403": status(403),
    "HTTP 404": status(404),
    "HTTP 503": status(503),
    "nothing": raw(b""),
    "no HTTP": raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "a broken status": raw(b"HTTP/1.1 abc def\r\n\r\n"),
    "headers without end": raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000),
    "a long header": raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n"),
    "broken off": BROKEN_OFF,
    "broken chunks": raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
}
"""Told at once."""

ENDLESS: dict[str, Callable[[Handler], None]] = {
    "hang": hang,
    "trickle": trickle,
    "slow": slow(240),
}
"""Not told in time."""
