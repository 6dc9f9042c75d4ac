"""The metadata services of three clouds, on this machine and without mercy.

Each refuses what the real one refuses: a question without its header, a token that is unknown or
has expired, a request that came through a proxy. A ``fault`` answers in its place.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

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
