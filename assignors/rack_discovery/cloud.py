"""Racks from the metadata services of AWS, Google Cloud and Azure.

Each of these answers HTTP requests from a virtual machine at a link-local address:

``aws-zone-id`` (``use1-az1``), ``aws-zone-name`` (``us-east-1a``)
    Instance Metadata Service version 2: ``PUT /latest/api/token``, with the token's lifetime in a
    header, returns a token. ``GET /latest/meta-data/placement/...`` with the token in another
    header returns the item. Version 1, which needs no token, is never used. The same zone name may
    mean different zones in different accounts; an id means the same zone in all.
``gce`` (``europe-west1-b``)
    ``GET /computeMetadata/v1/instance/zone`` with ``Metadata-Flavor: Google`` returns
    ``projects/NUMBER/zones/ZONE``, with the same header.
``azure`` (``westeurope-2``)
    ``GET /metadata/instance/compute?api-version=...`` with ``Metadata: true`` returns JSON with
    ``location`` (``westeurope``) and ``zone`` (``2``, or nothing for a machine in no zone). Zone
    numbers are per region, so the rack is both, like the node label
    ``topology.kubernetes.io/zone`` on Azure.

Requests ignore the proxies of the environment, do not follow redirects, and limit the time and
the size of the response.

Sources: Amazon EC2 User Guide, "How Instance Metadata Service Version 2 works" and "AZ IDs";
Compute Engine documentation, "View and query VM metadata"; Azure documentation, "Azure Instance
Metadata Service", and Kubernetes' cloud provider for Azure.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from assignors.rack_discovery.source import SourceError
from placement_core import InvalidOptionError

ENDPOINT_VARIABLE = "RACKWARD_METADATA_ENDPOINT"
CLOUD_TIMEOUT = 1.0
"""Seconds that the requests to a metadata service may take by default."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Host and port of a metadata service."""

    host: str
    port: int

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Parse ``http://HOST:PORT``. Raise InvalidOptionError."""
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
            shown = url.rpartition("@")[2]  # A password may stand before the @.
            raise InvalidOptionError(
                f"the endpoint of the metadata service is {shown!r}: write http://HOST:PORT"
            )
        return cls(host, 80 if port is None else port)

    def __str__(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


DEFAULT_ENDPOINT = Endpoint("169.254.169.254", 80)
"""The address of the metadata services of all three clouds."""


@dataclass(frozen=True, slots=True)
class CloudSource:
    """The zone of this virtual machine, from its cloud's metadata service.

    ``name`` is a key of CLOUDS.
    """

    name: str
    endpoint: Endpoint = DEFAULT_ENDPOINT
    timeout: float = CLOUD_TIMEOUT

    def find_rack(self, timeout: float) -> str:
        """Request the zone. Raise SourceError."""
        cloud = CLOUDS[self.name]
        deadline = time.monotonic() + timeout
        headers = dict(cloud.headers)
        if cloud.uses_token:
            headers["X-aws-ec2-metadata-token"] = self._request_token(cloud, deadline)
        request = Request("GET", cloud.path, headers, cloud.hints, cloud.max_bytes)
        zone = cloud.parse(send(request, self.endpoint, deadline))
        if zone is None:
            raise SourceError(
                f"returned no zone at {self.endpoint}: check that this is the metadata service of"
                f" {cloud.service}"
            )
        return zone

    def _request_token(self, cloud: _Cloud, deadline: float) -> str:
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        request = Request("PUT", "/latest/api/token", lifetime, cloud.hints)
        token = send(request, self.endpoint, deadline).text
        if not re.fullmatch(r"[!-~]{1,1024}", token):
            raise SourceError(
                f"returned no token at {self.endpoint}: check that this is the metadata service of"
                f" {cloud.service}"
            )
        return token


# ---- The table of clouds.


@dataclass(frozen=True, slots=True)
class _Cloud:
    """The request for the zone, and how to parse the response.

    ``parse`` returns None if there is no zone in it. ``hints`` has what to do about an HTTP status.
    """

    service: str
    path: str
    parse: Callable[[Response], str | None]
    hints: Mapping[int, str]
    headers: Mapping[str, str] = field(default_factory=dict)
    uses_token: bool = False
    max_bytes: int = 4096


def _parse_aws(response: Response) -> str | None:
    zone = re.fullmatch(r"[a-z]+[a-z0-9]*(-[a-z0-9]+)+", response.text)
    return zone and zone[0]


def _parse_gce(response: Response) -> str | None:
    if response.headers.get("metadata-flavor") != "Google":
        raise SourceError(
            f"responded without Metadata-Flavor: Google at {response.endpoint}: another server"
            " listens there"
        )
    zone = re.fullmatch(r"projects/[^/]+/zones/([a-z][a-z0-9-]*)", response.text)
    return zone and zone[1]


def _parse_azure(response: Response) -> str | None:
    try:
        compute = json.loads(response.body)
    except (ValueError, RecursionError):
        compute = None
    if not isinstance(compute, dict):
        raise SourceError(
            f"returned no JSON object at {response.endpoint}: check that this is the metadata"
            " service of Azure"
        )
    location, zone = compute.get("location"), compute.get("zone")
    if zone == "":
        raise SourceError("reports that this machine is in no availability zone: set a rack")
    if not isinstance(location, str) or not isinstance(zone, str):
        return None
    if not re.fullmatch(r"[a-z0-9]{1,60}", location.lower()):
        return None
    return f"{location.lower()}-{zone}" if re.fullmatch(r"[0-9A-Za-z-]{1,60}", zone) else None


_AWS_HINTS = {
    401: "the token was rejected; check that no other server listens there",
    403: "enable the metadata service for this instance",
    404: "this is not an EC2 instance, or its metadata lacks this item",
}

CLOUDS: Mapping[str, _Cloud] = {
    "aws-zone-id": _Cloud(
        service="EC2",
        path="/latest/meta-data/placement/availability-zone-id",
        parse=_parse_aws,
        hints=_AWS_HINTS,
        uses_token=True,
    ),
    "aws-zone-name": _Cloud(
        service="EC2",
        path="/latest/meta-data/placement/availability-zone",
        parse=_parse_aws,
        hints=_AWS_HINTS,
        uses_token=True,
    ),
    "gce": _Cloud(
        service="Compute Engine",
        path="/computeMetadata/v1/instance/zone",
        parse=_parse_gce,
        headers={"Metadata-Flavor": "Google"},
        hints={
            403: "the request was modified on the way; check that there is no proxy",
            404: "this is not a Compute Engine instance",
        },
    ),
    "azure": _Cloud(
        service="Azure",
        path="/metadata/instance/compute?api-version=2021-02-01&format=json",
        parse=_parse_azure,
        headers={"Metadata": "true"},
        hints={
            400: "this is not an Azure virtual machine, or the service is too old",
            403: "the request was modified on the way; check that there is no proxy",
            404: "this is not an Azure virtual machine",
        },
        # The response also has the machine's tags, keys and up to 64 KB of user data.
        max_bytes=1 << 18,
    ),
}
"""The clouds by the name of their source."""


# ---- One HTTP request with a deadline.


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request. A response of more than ``max_bytes`` is an error.

    ``hints`` has what to do about a status other than 200.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    hints: Mapping[int, str]
    max_bytes: int = 4096


@dataclass(frozen=True, slots=True)
class Response:
    """Body and headers of a response with status 200. Header names are in lower case."""

    endpoint: Endpoint
    body: bytes
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        """The body without surrounding white space. Raises SourceError if it is not ASCII."""
        try:
            return self.body.decode("ascii").strip()
        except UnicodeDecodeError as error:
            raise SourceError("returned text that is not ASCII") from error


def send(request: Request, endpoint: Endpoint, deadline: float) -> Response:
    """Return the response, by ``deadline`` on the monotonic clock. Raise SourceError."""
    import http.client  # Not at the top: most consumers never search a cloud.

    timeout = max(deadline - time.monotonic(), 0.001)
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout)
    try:
        with closing(connection):
            connection.connect()
            # A server that sends a byte now and then never exceeds the socket's timeout.
            watchdog = threading.Timer(
                max(deadline - time.monotonic(), 0), _shut_down, [connection.sock]
            )
            watchdog.daemon = True
            watchdog.start()
            try:
                connection.request(request.method, request.path, headers=dict(request.headers))
                response = connection.getresponse()
                body = response.read(request.max_bytes + 1)
            finally:
                watchdog.cancel()
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, TimeoutError) or time.monotonic() >= deadline:
            raise _timed_out(endpoint) from error
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        raise SourceError(
            f"cannot be reached at {endpoint} ({reason}): check that this machine runs in that"
            " cloud"
        ) from error
    if time.monotonic() >= deadline:
        raise _timed_out(endpoint)
    if response.status != 200:
        hint = request.hints.get(response.status, "check that this is the cloud's metadata service")
        raise SourceError(f"returned HTTP {response.status} at {endpoint}: {hint}")
    if len(body) > request.max_bytes:
        raise SourceError(f"returned more than {request.max_bytes} bytes at {endpoint}")
    if response.length:
        raise SourceError(f"closed the connection before the end of its response at {endpoint}")
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Response(endpoint, body, headers)


def _shut_down(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _timed_out(endpoint: Endpoint) -> SourceError:
    return SourceError(
        f"timed out at {endpoint}: check that it can be reached from here (in a container, EC2"
        " requires an instance hop limit of 2 or more)"
    )
