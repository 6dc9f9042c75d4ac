"""Sources that are asked only where someone names them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from assignors.discovery.aws import AwsSource
from assignors.discovery.azure import AzureSource
from assignors.discovery.command import DEFAULT_SECONDS as COMMAND_SECONDS
from assignors.discovery.command import CommandSource
from assignors.discovery.gce import GceSource
from assignors.discovery.metadata_service import CLOUD, DEFAULT_SECONDS, ENDPOINT_VARIABLE, Endpoint
from assignors.discovery.searching import BUDGET
from assignors.discovery.source import RackSource
from placement_core import InvalidOptionError

NAMES = ("aws-zone-id", "aws-zone-name", "gce", "azure", "command:PROGRAM ARG ...")


def discover(
    name: str,
    *,
    endpoint: str | None = None,
    timeout: float | None = None,
    environ: Mapping[str, str] = os.environ,
) -> RackSource:
    """The source of that name, to be given to an assignor as its ``rack``.

    ``name`` is ``aws-zone-id``, ``aws-zone-name``, ``gce``, ``azure`` or ``command:`` and a command
    line. ``endpoint`` (``http://HOST:PORT``) is where a cloud's metadata service listens, None:
    where RACKWARD_METADATA_ENDPOINT of ``environ`` says, else at the cloud's own address.
    ``timeout`` is in seconds, None: 1, and 2 for a command. Nothing is asked yet. Raises
    InvalidOptionError.
    """
    if timeout is not None and not 0 < timeout <= BUDGET:
        raise InvalidOptionError(
            f"timeout is {timeout!r}: give seconds, more than 0 and at most {BUDGET:g}"
        )
    kind, colon, line = name.strip().partition(":")
    if kind == "command" and colon:
        if endpoint is not None:
            raise InvalidOptionError("a command has no endpoint: leave it out")
        return CommandSource.written(line, timeout or COMMAND_SECONDS)
    url = endpoint or environ.get(ENDPOINT_VARIABLE, "").strip()
    where = Endpoint.read(url) if url else CLOUD
    seconds = timeout or DEFAULT_SECONDS
    match name.strip():
        case "aws-zone-id":
            return AwsSource("availability-zone-id", where, seconds)
        case "aws-zone-name":
            return AwsSource("availability-zone", where, seconds)
        case "gce":
            return GceSource(where, seconds)
        case "azure":
            return AzureSource(where, seconds)
    raise InvalidOptionError(
        f"there is no source of racks {kind[:60]!r}: choose one of {', '.join(NAMES)}"
    )
