"""``rackward topics describe``: how topics lie, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated

import typer

from placement_core import InvalidOptionError
from rackward.admin import (
    AdminConnection,
    UnauthorizedError,
    check_topics,
    min_in_sync,
    read_ongoing,
    read_state,
    read_topic_configs,
)
from rackward.admin.configs import MIN_IN_SYNC
from rackward.cli import options
from rackward.cli.connect import connection_properties, open_cluster
from rackward.cli.console import print_json, stdout
from rackward.cli.render.topics import Description, describe_json, show_description
from rackward.topics.creator import wanted_of_cluster
from rackward.topics.health import chosen_topics, health_of

DESCRIBE_EPILOG = """
"Unhealthy" are partitions that have no leader, fewer replicas in sync than
min.insync.replicas, replicas that do not follow, replicas that could be spread better
over the racks, or placeholders: -1, -2 are replicas that a topic made with
--allow-under-replicated still waits for.

\b
JSON: {schema_version: 1, command, cluster_id,
 brokers: [{id, rack, address, live, leaders, replicas}],
 racks: [{rack, brokers, leaders, replicas}],
 topics: [{name, id, internal, min_in_sync, unhealthy,
           partitions: [{partition, leader, replicas, in_sync, notes,
                         adding, removing}]}],
 findings: [{severity, kind, subject, message}], not_shown: [what, ...]}
"""


def describe(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="The topics' names. Default: all."),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(
            "--match", metavar="REGEX", help="Only topics in whose name this is found (^, $)."
        ),
    ] = None,
    unhealthy: Annotated[
        bool, typer.Option("--unhealthy", help="Only topics and partitions that are unhealthy.")
    ] = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also the topics that Kafka keeps for itself.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="How many topics to list; 0: all.")
    ] = 40,
    every_partition: Annotated[
        bool,
        typer.Option("--every-partition", help="Show each partition, however many there are."),
    ] = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Show leaders and replicas by rack, and what is wrong.

    Many topics get a line each, the unhealthy first; a few partitions get one each.
    """
    pattern = _pattern(match)
    with open_cluster(bootstrap_server, command_config, timeout) as admin:
        found = _described(
            admin,
            connection_properties(bootstrap_server, command_config),
            topics or [],
            pattern,
            internal=internal,
            unhealthy=unhealthy,
        )
    if as_json:
        print_json("topics describe", describe_json(found))
    else:
        show_description(found, stdout(), limit=limit, every=every_partition, named=bool(topics))


def _described(
    admin: AdminConnection,
    properties: Mapping[str, object],
    names: Collection[str],
    pattern: re.Pattern[str] | None,
    *,
    internal: bool,
    unhealthy: bool,
) -> Description:
    state = read_state(admin, names or None, internal=internal or bool(names), ongoing=False)
    check_topics(state, names)
    if pattern is not None:
        state = state.only([name for name in state.topics if pattern.search(name)])
    not_shown = []
    try:
        state = state.with_ongoing(read_ongoing(admin))
    except UnauthorizedError as error:
        not_shown.append(str(error))
    configured: dict[str, int] = {}
    try:
        configured = min_in_sync(read_topic_configs(admin, state.topics, [MIN_IN_SYNC]))
    except UnauthorizedError as error:
        not_shown.append(str(error))
    wanted, hidden = wanted_of_cluster(admin, properties, state)
    if hidden is not None:
        not_shown.append(f"placeholders: {hidden}")
    health = health_of(state, configured, wanted)
    return Description(
        state=state,
        health=health,
        min_in_sync=configured,
        wanted=wanted,
        topics=tuple(chosen_topics(state, health, unhealthy=unhealthy)),
        unhealthy_only=unhealthy,
        not_shown=tuple(not_shown),
    )


def _pattern(match: str | None) -> re.Pattern[str] | None:
    if match is None:
        return None
    try:
        return re.compile(match)
    except re.error as error:
        raise InvalidOptionError(f"--match {match}: no regular expression: {error}") from error
