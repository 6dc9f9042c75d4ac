"""Shell completion of the names of groups and topics, which are read from the cluster."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import typer

from rackward.cli.settings import read_settings
from rackward.groups.readers import list_matching_groups
from rackward.kafka import AdminConnection, read_state

SECONDS = 2.0
"""After which a shell gets no names."""


def complete_groups(context: typer.Context, incomplete: str) -> list[str]:
    """Return the groups whose name begins with ``incomplete``; none if they cannot be read."""

    def read(admin: AdminConnection) -> list[str]:
        brokers = read_state(admin, (), reassignments=False).view.racks()
        return [group.id for group in list_matching_groups(admin, brokers, ["*"])]

    return _complete(context, incomplete, read)


def complete_topics(context: typer.Context, incomplete: str) -> list[str]:
    """Return the topics whose name begins with ``incomplete``, or with what is after its last
    comma; none if they cannot be read."""
    before, comma, last = incomplete.rpartition(",")
    found = _complete(context, last, lambda admin: read_state(admin, reassignments=False).topics)
    return [f"{before}{comma}{name}" for name in found]


def _complete(
    context: typer.Context, incomplete: str, read: Callable[[AdminConnection], Iterable[str]]
) -> list[str]:
    names: list[str] = []

    def complete() -> None:
        # Whatever is wrong, a shell has no place for it.
        with suppress(Exception), _connection(context) as admin:
            names.extend(sorted(name for name in read(admin) if name.startswith(incomplete)))

    logging.disable()
    # The timeout is that of one request; this is for all of them.
    thread = threading.Thread(target=complete, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return names


def _connection(context: typer.Context) -> AdminConnection:
    """Return a connection to the cluster of the command line, the environment or the settings.

    Defaults from the settings are set when a command is run, which a completion does not do.
    """
    from rackward.cli.options import ClusterOptions

    values = read_settings(os.environ, context.find_root().params.get("name"))
    servers, file = (
        context.params.get(name) or values.get(f"RACKWARD_{name.upper()}")
        for name in ("bootstrap_server", "command_config")
    )
    return ClusterOptions(servers, None if file is None else Path(file), SECONDS).connect()
