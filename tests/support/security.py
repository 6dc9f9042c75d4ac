"""TLS and OAuth: a certificate authority and what it signs, and an endpoint for tokens.

The endpoint runs in a thread. It implements the client credentials flow, with unsigned tokens.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
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

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey
PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


@dataclass(frozen=True)
class Signed:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Key

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        return self.key.private_bytes(PEM, PKCS8, _encryption(password)).decode()

    def pkcs12(self, password: str | None, *chain: Signed) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"client",
            self.key,
            self.certificate,
            [each.certificate for each in chain],
            _encryption(password),
        )


@dataclass(frozen=True)
class Authority(Signed):
    """A certificate authority."""

    def sign(self, name: str, *, addresses: tuple[str, ...] = ("127.0.0.1",)) -> Signed:
        """Return a new certificate for the DNS name and the IP addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName(name)]
        names += [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
        builder = _builder(name, self.certificate.subject, key, is_authority=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Signed(builder.sign(self.key, hashes.SHA256()), key)


def make_authority(name: str = "test authority") -> Authority:
    """Return a new authority, valid from yesterday for a week."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, _name(name), key, is_authority=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def trust_store(password: str, *trusted: Signed) -> bytes:
    """Return a PKCS#12 store that contains certificates only."""
    return pkcs12.serialize_java_truststore(
        [
            pkcs12.PKCS12Certificate(each.certificate, f"ca-{number}".encode())
            for number, each in enumerate(trusted)
        ],
        _encryption(password),
    )


def write_file(folder: Path, name: str, content: str | bytes) -> str:
    """Write a file in ``folder`` and return its path."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def _builder(
    name: str, issuer: x509.Name, key: Key, *, is_authority: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=7))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _encryption(password: str | None) -> serialization.KeySerializationEncryption:
    if password is None:
        return serialization.NoEncryption()
    return serialization.BestAvailableEncryption(password.encode())


# The token endpoint.

CLIENT_ID = "billing"
SECRET = "canary-hunter2"


def unsecured_token(lifetime: float) -> str:
    """Return an unsecured JWS (``alg`` is none), which Kafka's default validator accepts."""
    now = time.time()
    payload = {"sub": "alice", "iat": now, "exp": now + lifetime}
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
