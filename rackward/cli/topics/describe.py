"""``rackward topics describe``: replicas, leaders and problems of topics."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated

import typer

from placement_core import InvalidOptionError
from rackward.cli import options
from rackward.cli.console import print_json, stdout
from rackward.cli.options import ClusterOptions
from rackward.cli.render.topics import Description, describe_json, show_description
from rackward.kafka import (
    AdminConnection,
    UnauthorizedError,
    check_topics,
    read_reassignments,
    read_state,
)
from rackward.topics.creator import read_min_isr, read_replication_targets
from rackward.topics.health import listed_topics, partition_health, read_throttle_findings

EPILOG = """
\b
Examples:
  rackward topics describe orders
  rackward topics describe --unhealthy

A partition is unhealthy if it has no leader, has fewer replicas in sync than min.insync.replicas,
has replicas that are not in sync, could be spread better over the racks, or has placeholders: -1
and -2 are the replicas that a topic created with --allow-under-replicated is waiting for.

Exit status: 0 success, also if there are problems; 2 error (reason on stderr).

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
        typer.Argument(metavar="TOPIC", help="Names of the topics. Default: all topics."),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(
            "--match",
            metavar="REGEX",
            help="Only topics whose name contains a match; ^ and $ anchor it.",
        ),
    ] = None,
    unhealthy: Annotated[
        bool, typer.Option("--unhealthy", help="Only unhealthy topics and partitions.")
    ] = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Include Kafka's internal topics.")
    ] = False,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="N", min=0, help="Maximum number of topics to list; 0: no limit."
        ),
    ] = 40,
    every_partition: options.EveryPartition = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Show leaders and replicas by rack, and problems.

    Topics are listed one per line, unhealthy ones first. Partitions are listed if topics are named
    or with --unhealthy, up to 60; --all-partitions lists them all.
    """
    pattern = _parse_pattern(match)
    cluster = ClusterOptions(bootstrap_server, command_config, timeout)
    with cluster.connect() as admin:
        description = _read_description(
            admin,
            cluster.properties(),
            topics or [],
            pattern,
            internal=internal,
            unhealthy=unhealthy,
        )
    if as_json:
        print_json("topics describe", describe_json(description))
    else:
        show_description(
            description,
            stdout(),
            limit=limit,
            every_partition=every_partition,
            named=bool(topics),
        )


def _read_description(
    admin: AdminConnection,
    properties: Mapping[str, object],
    names: Collection[str],
    pattern: re.Pattern[str] | None,
    *,
    internal: bool,
    unhealthy: bool,
) -> Description:
    state = read_state(admin, names or None, internal=internal or bool(names), reassignments=False)
    check_topics(state, names)
    if pattern is not None:
        state = state.only([name for name in state.topics if pattern.search(name)])
    not_shown = []
    try:
        state = state.with_reassignments(read_reassignments(admin))
    except UnauthorizedError as error:
        not_shown.append(str(error))
    min_isr: dict[str, int] = {}
    try:
        min_isr = read_min_isr(admin, state.topics)
    except UnauthorizedError as error:
        not_shown.append(str(error))
    targets, reason = read_replication_targets(admin, properties, state)
    if reason is not None:
        not_shown.append(f"placeholders: {reason}")
    throttled, reason = read_throttle_findings(admin, reassigning=bool(state.reassignments))
    if reason is not None:
        not_shown.append(f"throttles: {reason}")
    health = partition_health(state, min_isr, targets)
    health = replace(health, findings=(*throttled, *health.findings))
    return Description(
        state=state,
        health=health,
        min_isr=min_isr,
        targets=targets,
        topics=tuple(listed_topics(state, health, unhealthy=unhealthy)),
        unhealthy_only=unhealthy,
        not_shown=tuple(not_shown),
    )


def _parse_pattern(match: str | None) -> re.Pattern[str] | None:
    if match is None:
        return None
    try:
        return re.compile(match)
    except re.error as error:
        raise InvalidOptionError(f"--match {match}: not a regular expression: {error}") from error
