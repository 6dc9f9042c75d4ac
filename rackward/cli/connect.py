"""Connecting to the cluster that ``--bootstrap-server`` and ``--command-config`` name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assignors.connection import ConnectionPropertyError, read_properties, server_list
from placement_core import InvalidOptionError
from rackward.admin import AdminConnection, connect

_MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options that name a cluster; ``bootstrap_server`` overrides the file's servers."""

    bootstrap_server: str | None
    command_config: Path | None
    timeout: float

    def connect(self) -> AdminConnection:
        """Return a connection, to be closed with ``with``.

        Raises RackwardError if the file is not valid or the cluster cannot be reached.
        """
        try:
            return connect(self.properties(), timeout=self.timeout)
        except ConnectionPropertyError as error:
            if self.command_config is None:
                raise
            raise InvalidOptionError(f"--command-config {self.command_config}: {error}") from error

    def properties(self) -> dict[str, object]:
        """Return the connection properties. Raises InvalidOptionError."""
        return connection_properties(self.bootstrap_server, self.command_config)


def connection_properties(
    bootstrap_server: str | None, command_config: Path | None
) -> dict[str, object]:
    """Return the connection properties that the options give. Raises InvalidOptionError."""
    properties: dict[str, object] = {}
    if command_config is not None:
        properties |= read_config_file(command_config)
    if bootstrap_server is not None:
        server_list(bootstrap_server, "--bootstrap-server")
        properties["bootstrap.servers"] = bootstrap_server
    return properties


def read_config_file(path: Path) -> dict[str, str]:
    """Return the properties in a file. Raises InvalidOptionError, which names it."""
    option = f"--command-config {path}"
    try:
        with path.expanduser().open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidOptionError(f"{option}: it cannot be read: {error.strerror}") from error
    if len(content) > _MAX_FILE_BYTES or b"\0" in content:
        raise InvalidOptionError(f"{option}: it is not a properties file: give another one")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        # The encoding of Java's own properties files.
        text = content.decode("latin-1")
    try:
        return read_properties(text)
    except ConnectionPropertyError as error:
        raise InvalidOptionError(f"{option}: {error}") from error
