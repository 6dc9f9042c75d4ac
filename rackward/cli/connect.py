"""The cluster that the options name."""

from __future__ import annotations

from pathlib import Path

from assignors.connection import ConnectionPropertyError, read_properties, server_list
from placement_core import InvalidOptionError
from rackward.admin import AdminConnection, connect

_MOST_BYTES = 1 << 20


def open_cluster(
    bootstrap_server: str | None, command_config: Path | None, timeout: float
) -> AdminConnection:
    """A connection, to be closed by ``with``; ``bootstrap_server`` wins over the file's.

    Raises RackwardError where the file cannot be used or the cluster not be reached.
    """
    try:
        return connect(connection_properties(bootstrap_server, command_config), timeout=timeout)
    except ConnectionPropertyError as error:
        if command_config is None:
            raise
        raise InvalidOptionError(f"--command-config {command_config}: {error}") from error


def connection_properties(
    bootstrap_server: str | None, command_config: Path | None
) -> dict[str, object]:
    """What the options say of how to connect. Raises InvalidOptionError."""
    properties: dict[str, object] = {}
    if command_config is not None:
        properties |= read_config_file(command_config)
    if bootstrap_server is not None:
        server_list(bootstrap_server, "--bootstrap-server")
        properties["bootstrap.servers"] = bootstrap_server
    return properties


def read_config_file(path: Path) -> dict[str, str]:
    """The properties in a file. Raises InvalidOptionError, which names it."""
    option = f"--command-config {path}"
    try:
        with path.expanduser().open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InvalidOptionError(f"{option}: it cannot be read: {error.strerror}") from error
    if len(content) > _MOST_BYTES or b"\0" in content:
        raise InvalidOptionError(f"{option}: this is no properties file: name another")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        # What Java writes.
        text = content.decode("latin-1")
    try:
        return read_properties(text)
    except ConnectionPropertyError as error:
        raise InvalidOptionError(f"{option}: {error}") from error
