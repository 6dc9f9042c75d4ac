"""A token endpoint in a thread: the client credentials flow, with tokens that are not signed."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.support.certificates import Signed, write_file

CLIENT_ID = "billing"
SECRET = "canary-hunter2"


def unsecured_token(lifetime: float, subject: str = "alice", **claims: object) -> str:
    """Return an unsecured JWS (``alg`` is none), which Kafka's default validator accepts."""
    now = time.time()
    payload = {"sub": subject, "iat": now, "exp": now + lifetime, **claims}
    return f"{_encoded({'alg': 'none'})}.{_encoded(payload)}."


def _encoded(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@dataclass
class TokenServer:
    """What the server answers, and what it was asked."""

    url: str
    lifetime: float = 3600.0
    respond: Callable[[BaseHTTPRequestHandler], None] | None = None
    forms: list[dict[str, list[str]]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.forms.append(parse_qs(body.decode()))
        scheme, _, credentials = handler.headers["Authorization"].partition(" ")
        self.logins.append(f"{scheme} {base64.b64decode(credentials).decode()}")
        if self.respond is not None:
            self.respond(handler)
        elif self.logins[-1] != f"Basic {CLIENT_ID}:{SECRET}":
            send_json(handler, 401, {"error": "invalid_client"})
        else:
            self.tokens.append(unsecured_token(self.lifetime))
            answer = {"access_token": self.tokens[-1], "expires_in": self.lifetime}
            send_json(handler, 200, answer)


def send_json(handler: BaseHTTPRequestHandler, status: int, answer: object) -> None:
    """Send a response with a JSON document."""
    body = json.dumps(answer).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def run_token_server(certificate: Signed | None = None) -> Iterator[TokenServer]:
    """Run a server on a free port of 127.0.0.1, with TLS if there is a certificate."""
    servers: list[TokenServer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            servers[0].handle(self)

        def log_message(self, *_args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            with tempfile.TemporaryDirectory() as folder:
                pem = certificate.key_pem() + certificate.pem
                context.load_cert_chain(write_file(Path(folder), "server.pem", pem))
            httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
        scheme = "http" if certificate is None else "https"
        servers.append(TokenServer(f"{scheme}://127.0.0.1:{httpd.server_address[1]}/token"))
        thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield servers[0]
        finally:
            httpd.shutdown()
            thread.join(10)
