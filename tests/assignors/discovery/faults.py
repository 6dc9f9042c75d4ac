"""What a metadata service, or what stands in its place, may answer that is no zone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from tests.assignors.discovery.metadata_server import Fault, Handler

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
