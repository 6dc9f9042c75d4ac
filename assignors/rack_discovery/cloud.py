"""One question to a cloud's metadata service, which answers from within the machine's host.

It is asked directly, whatever proxies the environment names; redirects are not followed; and both
the time and the size of an answer are bounded.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from assignors.rack_discovery.source import SourceError
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


# ---- The zone of an EC2 instance, by the Instance Metadata Service version 2.
#
# ``PUT /latest/api/token`` with the token's lifetime in a header answers a token; with that in
# another header, ``GET /latest/meta-data/placement/...`` answers the item. Version 1, which answers
# without a token, is never asked.
#
# Source: Amazon EC2 User Guide, "How Instance Metadata Service Version 2 works" and "AZ IDs".

_NAMES = {"availability-zone-id": "aws-zone-id", "availability-zone": "aws-zone-name"}
_AWS_ZONE = re.compile(r"[a-z]+[a-z0-9]*(-[a-z0-9]+)+")
_TOKEN = re.compile(r"[!-~]{1,1024}")
_AWS_REMEDIES = {
    401: "the token was not taken; see that no other service answers in its place",
    403: "switch the metadata service on for this instance",
    404: "this is no EC2 instance, or it does not tell this item",
}


@dataclass(frozen=True, slots=True)
class AwsSource:
    """The zone's id (``use1-az1``), or its name (``us-east-1a``).

    Names may stand for another place in another account; ids do not.
    """

    item: Literal["availability-zone-id", "availability-zone"]
    endpoint: Endpoint = CLOUD
    timeout: float = DEFAULT_SECONDS

    @property
    def name(self) -> str:
        """See RackSource."""
        return _NAMES[self.item]

    def ask(self, seconds: float) -> str:
        """See RackSource."""
        deadline = time.monotonic() + seconds
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        asked = Question("PUT", "/latest/api/token", lifetime, _AWS_REMEDIES)
        token = fetch(asked, self.endpoint, deadline).text
        if not _TOKEN.fullmatch(token):
            raise SourceError(f"answered no token at {self.endpoint}: see that it is EC2's")
        path = f"/latest/meta-data/placement/{self.item}"
        wanted = Question("GET", path, {"X-aws-ec2-metadata-token": token}, _AWS_REMEDIES)
        zone = fetch(wanted, self.endpoint, deadline).text
        if not _AWS_ZONE.fullmatch(zone):
            raise SourceError(f"answered no zone at {self.endpoint}: see that it is EC2's")
        return zone


# ---- The zone of an Azure virtual machine, by the Azure Instance Metadata Service.
#
# ``GET /metadata/instance/compute?api-version=...`` with ``Metadata: true`` answers JSON that has
# ``location`` (``westeurope``) and ``zone`` (``2``, or nothing where the machine is in no zone).
# Zones are numbered anew in each region, so the rack is both: ``westeurope-2``, as the node label
# ``topology.kubernetes.io/zone`` has it on Azure.
#
# Source: Azure documentation, "Azure Instance Metadata Service"; Kubernetes' cloud provider for
# Azure.

API_VERSION = "2021-02-01"
_MOST_BYTES = 1 << 18
"""It tells tags and keys of the machine as well, and up to 64 KB of its owner's data."""

_LOCATION = re.compile(r"[a-z0-9]{1,60}")
_AZURE_ZONE = re.compile(r"[0-9A-Za-z-]{1,60}")
_AZURE_REMEDIES = {
    400: "this is no Azure virtual machine, or the service is too old",
    403: "the request was changed on its way; see that no proxy is between",
    404: "this is no Azure virtual machine",
}


@dataclass(frozen=True, slots=True)
class AzureSource:
    """The location and the zone, such as ``westeurope-2``."""

    endpoint: Endpoint = CLOUD
    timeout: float = DEFAULT_SECONDS
    name: str = "azure"

    def ask(self, seconds: float) -> str:
        """See RackSource."""
        path = f"/metadata/instance/compute?api-version={API_VERSION}&format=json"
        asked = Question("GET", path, {"Metadata": "true"}, _AZURE_REMEDIES, _MOST_BYTES)
        answer = fetch(asked, self.endpoint, time.monotonic() + seconds)
        try:
            compute = json.loads(answer.body)
        except (ValueError, RecursionError):
            compute = None
        if not isinstance(compute, dict):
            raise SourceError(f"answered no JSON object at {self.endpoint}: see that it is Azure's")
        location, zone = (compute.get(key) for key in ("location", "zone"))
        if zone == "":
            raise SourceError("says that this machine is in no availability zone: name a rack")
        if not isinstance(location, str) or not isinstance(zone, str):
            location = zone = ""
        if not _LOCATION.fullmatch(location.lower()) or not _AZURE_ZONE.fullmatch(zone):
            raise SourceError(f"answered no zone at {self.endpoint}: see that it is Azure's")
        return f"{location.lower()}-{zone}"


# ---- The zone of a Compute Engine instance, by its metadata server.
#
# ``GET /computeMetadata/v1/instance/zone`` with ``Metadata-Flavor: Google`` answers
# ``projects/NUMBER/zones/ZONE``, with the same header.
#
# Source: Compute Engine documentation, "View and query VM metadata".

_FLAVOR = {"Metadata-Flavor": "Google"}
_GCE_ZONE = re.compile(r"projects/[^/]+/zones/([a-z][a-z0-9-]*)")
_GCE_REMEDIES = {
    403: "the request was changed on its way; see that no proxy is between",
    404: "this is no Compute Engine instance",
}


@dataclass(frozen=True, slots=True)
class GceSource:
    """The zone, such as ``europe-west1-b``."""

    endpoint: Endpoint = CLOUD
    timeout: float = DEFAULT_SECONDS
    name: str = "gce"

    def ask(self, seconds: float) -> str:
        """See RackSource."""
        asked = Question("GET", "/computeMetadata/v1/instance/zone", _FLAVOR, _GCE_REMEDIES)
        answer = fetch(asked, self.endpoint, time.monotonic() + seconds)
        if answer.headers.get("metadata-flavor") != "Google":
            raise SourceError(
                f"answered without Metadata-Flavor: Google at {self.endpoint}: something else"
                " answers in its place"
            )
        zone = _GCE_ZONE.fullmatch(answer.text)
        if zone is None:
            raise SourceError(f"answered no zone at {self.endpoint}: see that it is Google's")
        return zone[1]
