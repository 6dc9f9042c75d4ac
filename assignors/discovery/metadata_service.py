"""One question to a cloud's metadata service, which answers from within the machine's host.

It is asked directly, whatever proxies the environment names; redirects are not followed; and both
the time and the size of an answer are bounded.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from assignors.discovery.source import SourceError
from placement_core import InvalidOptionError

ENDPOINT_VARIABLE = "RACKWARD_METADATA_ENDPOINT"
DEFAULT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a metadata service listens."""

    host: str
    port: int

    @classmethod
    def read(cls, url: str) -> Endpoint:
        """From ``http://HOST:PORT``. Raises InvalidOptionError."""
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        if (
            parts.scheme != "http"
            or not host
            or parts.path not in ("", "/")
            or parts.query
            or parts.username
        ):
            told = url.rpartition("@")[2]  # What is before it may be a password.
            raise InvalidOptionError(
                f"the endpoint of a metadata service is {told!r}: write http://HOST:PORT"
            )
        return cls(host, 80 if port is None else port)

    def __str__(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


CLOUD = Endpoint("169.254.169.254", 80)
"""The address that the metadata services of all three clouds have."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked; an answer of more than ``most`` bytes is none."""

    method: str
    path: str
    headers: Mapping[str, str]
    remedies: Mapping[int, str] = field(default_factory=dict)
    """What to do about a status other than 200."""
    most: int = 4096


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of an answer of status 200, and its headers."""

    body: bytes
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        """The body, stripped. Raises SourceError."""
        try:
            return self.body.decode("ascii").strip()
        except UnicodeDecodeError as error:
            raise SourceError("answered what is no text of ASCII") from error


def fetch(question: Question, endpoint: Endpoint, deadline: float) -> Answer:
    """The answer to ``question``, by ``deadline`` on the monotonic clock. Raises SourceError."""
    left = deadline - time.monotonic()
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=max(left, 0.001))
    try:
        connection.connect()
        # A server that sends a byte now and then would never exceed the time-out of a socket.
        watch = threading.Timer(max(deadline - time.monotonic(), 0), _cut, [connection.sock])
        watch.daemon = True
        watch.start()
        try:
            connection.request(question.method, question.path, headers=dict(question.headers))
            response = connection.getresponse()
            body = response.read(question.most + 1)
        finally:
            watch.cancel()
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, TimeoutError) or time.monotonic() >= deadline:
            raise _slow(endpoint) from error
        raise SourceError(
            f"cannot be asked at {endpoint} ({_told(error)}): see that this machine has it"
        ) from error
    finally:
        connection.close()
    if time.monotonic() >= deadline:
        raise _slow(endpoint)
    if response.status != 200:
        remedy = question.remedies.get(response.status, "see that it is this cloud's")
        raise SourceError(f"answered HTTP {response.status} at {endpoint}: {remedy}")
    if len(body) > question.most:
        raise SourceError(f"answered more than {question.most} bytes at {endpoint}")
    if response.length:
        raise SourceError(f"broke off its answer at {endpoint}")
    return Answer(body, {name.lower(): value for name, value in response.getheaders()})


def _cut(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _slow(endpoint: Endpoint) -> SourceError:
    return SourceError(
        f"did not answer in time at {endpoint}: see that it can be reached from here (from a"
        " container, EC2 answers where the instance's hop limit is 2 or more)"
    )


def _told(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
