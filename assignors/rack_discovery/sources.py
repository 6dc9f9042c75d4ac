"""Sources of a consumer's rack: cloud metadata, files, commands, environment variables, plug-ins.

``aws-zone-id`` (``use1-az1``), ``aws-zone-name`` (``us-east-1a``)
    Instance Metadata Service version 2: ``PUT /latest/api/token``, with the token's lifetime in a
    header, returns a token for ``GET /latest/meta-data/placement/...``. Version 1, which needs no
    token, is never used. The same zone name may mean different zones in different accounts; an id
    means the same zone in all.
``gce`` (``europe-west1-b``)
    ``GET /computeMetadata/v1/instance/zone`` with ``Metadata-Flavor: Google`` returns
    ``projects/NUMBER/zones/ZONE``, with the same header.
``azure`` (``westeurope-2``)
    ``GET /metadata/instance/compute`` with ``Metadata: true`` returns JSON with ``location``
    (``westeurope``) and ``zone`` (``2``, or nothing for a machine in no zone). Zone numbers are per
    region, so the rack is both, like the node label ``topology.kubernetes.io/zone`` on Azure.
files
    The rack and nothing else, like a field of Kubernetes' downward API; or labels, as the downward
    API writes ``metadata.labels``, one ``key="value"`` per line, and the key after a ``#``:
    ``/etc/podinfo/labels#topology.kubernetes.io/zone``.
commands
    The first line that a program prints.
plug-ins
    Callables without arguments: entry points of the group ``rackward.racks``, or
    ``module:function``.

No error shows what a source returned: it may be a secret, in a file that was named by mistake.

Sources: Amazon EC2 User Guide, "How Instance Metadata Service Version 2 works" and "AZ IDs";
Compute Engine documentation, "View and query VM metadata"; Azure documentation, "Azure Instance
Metadata Service", and Kubernetes' cloud provider for Azure; Kubernetes, ``pkg/fieldpath`` (label
values are quoted as by Go's ``%q`` and contain nothing that is escaped).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from urllib.parse import urlsplit

from assignors.group_leader.logs import sanitize
from placement_core import InvalidOptionError, RackwardError

DEFAULT_ENDPOINT = "http://169.254.169.254"
"""The address of the metadata services of all three clouds."""

PLUGIN_GROUP = "rackward.racks"
_MODULE_AND_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")

MAX_FILE_BYTES = 1 << 20
"""The labels and annotations of a pod are much smaller. A larger file is the wrong one."""

MAX_OUTPUT_BYTES = 1 << 16
PLUGIN_TIMEOUT = 1.0
"""Seconds that a plug-in may take by default."""


class SourceError(RackwardError):
    """A source that should provide a rack does not: the reason, and what to do about it."""


@dataclass(frozen=True, slots=True)
class RackSource:
    """Something that may provide the rack of this process; :func:`discover` returns one.

    ``find(*arguments, timeout)`` returns the rack, or None if there is none, and raises SourceError
    or anything else if it fails. It runs in a thread, which is abandoned shortly after ``timeout``
    seconds. ``name`` stands in log lines and contains no secret.
    """

    name: str
    timeout: float
    find: Callable[..., object]
    arguments: tuple[Hashable, ...] = ()

    def find_rack(self, timeout: float) -> object:
        """Return what the source provides, which need not be a valid rack."""
        return self.find(*self.arguments, timeout)


def invalid_source(name: str, reason: str) -> RackSource:
    """Return a source that fails because it is not configured or installed correctly."""

    def fail(reason: str, _: float) -> None:
        raise SourceError(reason)

    return RackSource(name, 1.0, fail, (reason,))


# ---- Files.


def file_source(text: str) -> RackSource:
    """Return the source of ``PATH`` or ``PATH#KEY``. A path with a ``#`` needs another after it."""
    path, separator, key = text.rpartition("#")
    path, key = (path, key.strip()) if separator else (text, "")
    name = f"file {sanitize(path, 200)}{'#' if key else ''}{sanitize(key)}"
    return RackSource(name, 1.0, _read_file, (path, key))


def _read_file(path: str, key: str, _: float) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a valid path"
        raise SourceError(
            f"cannot be read ({reason}): mount the file, or give another path"
        ) from error
    if len(content) > MAX_FILE_BYTES:
        raise SourceError(f"is larger than {MAX_FILE_BYTES >> 20} MB: give another path")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError("is not UTF-8: give another path") from error
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if key:
        return _label_value(lines, key)
    if not lines:
        raise SourceError("is empty: write the rack into it")
    if len(lines) > 1 or re.fullmatch(r'[^\s=]+=".*"', lines[0]):
        raise SourceError(
            f"has {len(lines)} lines or labels instead of the rack alone: if it contains labels,"
            " give one as FILE#KEY"
        )
    return lines[0]


def _label_value(lines: list[str], wanted: str) -> str:
    for line in lines:
        key, _, quoted = line.partition("=")
        if key == wanted:
            try:
                value = json.loads(quoted)
            except (ValueError, RecursionError):
                value = None
            if not isinstance(value, str):
                raise SourceError('has no value in double quotes for that key: write KEY="VALUE"')
            return value
    raise SourceError('has no line KEY="VALUE" with that key: check that the pod has the label')


# ---- Commands.


def command_source(line: str, timeout: float) -> RackSource:
    """Return the source of a command line. Raise InvalidOptionError if it cannot be parsed."""
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise InvalidOptionError(f"the command for the rack cannot be parsed: {error}") from error
    if not words:
        raise InvalidOptionError("the command for the rack is empty: write command:PROGRAM ARG")
    return RackSource(f"command {words[0]}", timeout, _first_line_printed, (words,))


def _first_line_printed(command: Sequence[str], timeout: float) -> str:
    try:
        output = run_command(command, timeout, MAX_OUTPUT_BYTES).decode()
    except UnicodeDecodeError as error:
        raise SourceError("printed text that is not UTF-8") from error
    return output.strip().split("\n")[0]


def run_command(command: Sequence[str], timeout: float, max_bytes: int) -> bytes:
    """Run ``command`` without a shell and without input, and return its standard output.

    After ``timeout`` seconds it is killed with all that it started in its session. More than
    ``max_bytes`` of output are an error. Raise SourceError, which does not contain the arguments:
    they may be secret.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # In a new session, so that its children can be killed with it.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"cannot be run: {reason}") from error
    with process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise SourceError(
                f"took longer than {timeout:.3g} s and was stopped: make it faster, or have it"
                " write a file, and use that"
            ) from error
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        error_lines = errors.decode(errors="replace").strip().splitlines()
        last = f": {sanitize(error_lines[-1], 200)}" if error_lines else ""
        raise SourceError(f"ended with status {process.returncode}{last}")
    if len(output) > max_bytes:
        raise SourceError(f"printed more than {max_bytes} bytes")
    return output


# ---- Plug-ins.


def plugin_source(name: str, timeout: float) -> RackSource | None:
    """Return the source of an entry point or of ``module:function``, or None if it is neither."""
    entries = sorted(entry_points(group=PLUGIN_GROUP, name=name), key=lambda entry: entry.value)
    if not entries and _MODULE_AND_FUNCTION.fullmatch(name):
        entries = [EntryPoint(name, name, PLUGIN_GROUP)]
    return _plugin(entries[0], timeout) if entries else None


def installed_plugins() -> list[RackSource]:
    """Return a source for each plug-in, sorted by name."""
    try:
        entries = sorted(
            entry_points(group=PLUGIN_GROUP), key=lambda entry: (entry.name, entry.value)
        )
    except Exception as error:  # noqa: BLE001 - the metadata of other packages
        return [invalid_source(f"plug-ins of {PLUGIN_GROUP}", f"cannot be listed: {error!r:.200}")]
    return [_plugin(entry, PLUGIN_TIMEOUT) for entry in entries]


def _plugin(entry: EntryPoint, timeout: float) -> RackSource:
    return RackSource(f"plug-in {entry.name} ({entry.value})", timeout, _call_plugin, (entry,))


def _call_plugin(entry: EntryPoint, _: float) -> object:
    # Importing the plug-in counts towards its time.
    return entry.load()()


# ---- Cloud metadata.


def cloud_source(name: str, endpoint: str, timeout: float) -> RackSource:
    """Return the source of that key of CLOUDS. Raise InvalidOptionError for ``endpoint``."""
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        parts, host, port = urlsplit(""), None, 0
    if (
        parts.scheme != "http"
        or not host
        or parts.path not in ("", "/")
        or parts.query
        or parts.username
    ):
        shown = endpoint.rpartition("@")[2]  # A password may stand before the @.
        raise InvalidOptionError(
            f"the endpoint of the metadata service is {shown!r}: write http://HOST:PORT"
        )
    return RackSource(name, timeout, _request_zone, (name, host, port))


def _request_zone(name: str, host: str, port: int, timeout: float) -> str:
    cloud = CLOUDS[name]
    service = _MetadataService(host, port, time.monotonic() + timeout)
    headers = dict(cloud.headers)
    if name.startswith("aws-"):
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        token, _ = service.request("PUT", "/latest/api/token", lifetime)
        if not re.fullmatch(r"[!-~]{1,1024}", token):
            raise service.error("returned no token")
        headers["X-aws-ec2-metadata-token"] = token
    text, flavor = service.request("GET", cloud.path, headers)
    if name == "gce" and flavor != "Google":
        raise service.error("responded without Metadata-Flavor: Google")
    zone = cloud.parse(text)
    if zone is None:
        raise service.error("returned no zone")
    return zone


@dataclass(frozen=True, slots=True)
class _Cloud:
    """The request for the zone, and the function that finds the zone in the response or not."""

    path: str
    parse: Callable[[str], str | None]
    headers: Mapping[str, str]


def _parse_aws(text: str) -> str | None:
    return text if re.fullmatch(r"[a-z]+[a-z0-9]*(-[a-z0-9]+)+", text) else None


def _parse_gce(text: str) -> str | None:
    zone = re.fullmatch(r"projects/[^/]+/zones/([a-z][a-z0-9-]*)", text)
    return zone and zone[1]


def _parse_azure(text: str) -> str | None:
    try:
        compute = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(compute, dict):
        return None
    location, zone = str(compute.get("location")).lower(), compute.get("zone")
    if zone == "":
        raise SourceError("reports that this machine is in no availability zone: set a rack")
    if not isinstance(zone, str) or not re.fullmatch(r"[0-9A-Za-z-]{1,60}", zone):
        return None
    return f"{location}-{zone}" if re.fullmatch(r"[a-z0-9]{1,60}", location) else None


_AWS_PATH = "/latest/meta-data/placement/availability-zone"
_AZURE_PATH = "/metadata/instance/compute?api-version=2021-02-01&format=json"
CLOUDS: Mapping[str, _Cloud] = {
    "aws-zone-id": _Cloud(f"{_AWS_PATH}-id", _parse_aws, {}),
    "aws-zone-name": _Cloud(_AWS_PATH, _parse_aws, {}),
    "gce": _Cloud("/computeMetadata/v1/instance/zone", _parse_gce, {"Metadata-Flavor": "Google"}),
    "azure": _Cloud(_AZURE_PATH, _parse_azure, {"Metadata": "true"}),
}
"""The clouds by the name of their source."""

MAX_RESPONSE_BYTES = 1 << 18
"""Azure's response also has the machine's tags, keys and up to 64 KB of user data."""


@dataclass(frozen=True, slots=True)
class _MetadataService:
    """HTTP requests by ``deadline`` on the monotonic clock.

    They ignore the proxies of the environment and do not follow redirects. A server that sends a
    byte now and then takes longer; its thread is abandoned, as that of any source.
    """

    host: str
    port: int
    deadline: float

    def error(self, problem: str) -> SourceError:
        """Return the error with the address, and what to do."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return SourceError(
            f"{problem} at http://{host}:{self.port}: check that this machine runs in that cloud,"
            " and that its metadata service is enabled (in a container, EC2 requires an instance"
            " hop limit of 2 or more)"
        )

    def request(self, method: str, path: str, headers: dict[str, str]) -> tuple[str, str | None]:
        """Return the text of the response, and its Metadata-Flavor. Raise SourceError."""
        import http.client  # Not at the top: most consumers never search a cloud.

        timeout = max(self.deadline - time.monotonic(), 0.001)
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            with closing(connection):
                connection.request(method, path, headers=headers)
                response = connection.getresponse()
                body = response.read(MAX_RESPONSE_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise self.error("timed out") from error
            reason = (isinstance(error, OSError) and error.strerror) or type(error).__name__
            raise self.error(f"cannot be reached ({reason})") from error
        if response.status != 200:
            raise self.error(f"returned HTTP {response.status}")
        if response.length:
            raise self.error(
                f"returned more than {MAX_RESPONSE_BYTES} bytes"
                if len(body) == MAX_RESPONSE_BYTES
                else "closed the connection before the end of its response"
            )
        return body.decode(errors="replace").strip(), response.getheader("Metadata-Flavor")
