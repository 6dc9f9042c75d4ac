"""``rackward topics``: create topics, add partitions, and see how they lie."""

from __future__ import annotations

from typing import Annotated

import typer

from placement_core import InvalidOptionError
from rackward.admin import AdminConnection, ClusterState, check_topics
from rackward.admin.topics import default_shape
from rackward.cli import options
from rackward.cli.connect import connection_properties, open_cluster
from rackward.cli.console import check_can_ask, stderr
from rackward.cli.options import key_values, read_placing
from rackward.cli.topics.describe import DESCRIBE_EPILOG, describe
from rackward.topics.creator import (
    carry_out,
    cluster_shape,
    least_of_new,
    least_of_old,
    wanted_of_cluster,
)
from rackward.topics.planner import (
    TopicsPlan,
    check_absent,
    check_distinct,
    plan_more,
    plan_new,
    shape_of,
)

Topics = Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics' names.")]
Every = Annotated[
    bool, typer.Option("--every-partition", help="Show each partition, however many there are.")
]
Like = Annotated[
    str | None,
    typer.Option(
        "--like",
        metavar="TOPIC",
        help="Give partition i the replicas of partition i of this topic, so that joins stay "
        "local.",
    ),
]

EPILOG = """
Exit status: 0 done; 1 where you said no; 2 where it could not be done, with the reason in one
line; 130 after Ctrl-C.

\b
JSON: {schema_version: 1, command, dry_run, changed, verified, placement, seed,
 topics: [{name, first_partition, partitions, replication_factor, configs,
           replicas: {partition: [broker, ...]}}],
 brokers: [{id, rack, leaders_before, leaders_after, replicas_before,
            replicas_after}], racks: [{rack, ...}]}
"""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Create topics, add partitions, see how they lie in the racks.",
)


@app.command(epilog=EPILOG)
def create(
    topics: Topics,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            metavar="N",
            min=1,
            max=1_000_000,
            help="Of each. Default: the cluster's.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            metavar="N",
            min=1,
            max=1000,
            help="Of each. Default: the cluster's.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", metavar="KEY=VALUE", help="A setting of the topics; give it once for each."
        ),
    ] = None,
    like: Like = None,
    placement: options.PlacementName = None,
    placement_properties: options.PlacementProperties = None,
    seed: options.Seed = None,
    brokers: options.Brokers = None,
    ignore_racks: options.IgnoreRacks = False,
    allow_under_replicated: options.AllowUnderReplicated = False,
    rack_locator: options.RackLocatorName = None,
    rack_locator_properties: options.RackLocatorProperties = None,
    every_partition: Every = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Create topics with their replicas spread over the racks.

    Shows the layout first, lets the brokers check it, and asks. Afterwards it is read back and
    compared. What --dry-run shows can be had exactly by giving its seed. In a layout -1, -2 are
    replicas that no broker can hold yet: see --allow-under-replicated.
    """
    configs = key_values("--config", config or [])
    placing = read_placing(
        placement=placement,
        placement_properties=placement_properties,
        like=like,
        seed=seed,
        brokers=brokers,
        ignore_racks=ignore_racks,
        rack_locator=rack_locator,
        rack_locator_properties=rack_locator_properties,
    )
    check_distinct(topics)

    def plan(admin: AdminConnection, state: ClusterState) -> TopicsPlan:
        check_absent(state, topics)
        shape = (partitions, replication_factor)
        if placing.like is not None:
            shape = _filled(shape, shape_of(state, placing.like))
        elif None in shape and allow_under_replicated:
            shape = _filled(shape, cluster_shape(admin, state))
        elif None in shape:
            shape = _filled(shape, default_shape(admin, topics[0], configs))
        count, factor = shape
        if count is None or factor is None:
            raise InvalidOptionError(
                "the cluster does not tell its defaults to this user: give --partitions and "
                "--replication-factor"
            )
        least = least_of_new(admin, state, configs) if allow_under_replicated else None
        return plan_new(state, topics, placing, count, factor, configs, least)

    if not dry_run:
        check_can_ask(yes)
    with open_cluster(bootstrap_server, command_config, timeout) as admin:
        carry_out(
            "topics create",
            admin,
            plan,
            placing,
            every=every_partition,
            dry_run=dry_run,
            yes=yes,
            as_json=as_json,
            verb=("Create", "created"),
            properties=connection_properties(bootstrap_server, command_config),
        )


@app.command(epilog=EPILOG)
def add_partitions(
    topics: Topics,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            "-p",
            metavar="N",
            min=2,
            max=1_000_000,
            help="How many each topic shall have in all.",
        ),
    ],
    like: Like = None,
    placement: options.PlacementName = None,
    placement_properties: options.PlacementProperties = None,
    seed: options.Seed = None,
    brokers: options.Brokers = None,
    ignore_racks: options.IgnoreRacks = False,
    allow_under_replicated: options.AllowUnderReplicated = False,
    rack_locator: options.RackLocatorName = None,
    rack_locator_properties: options.RackLocatorProperties = None,
    every_partition: Every = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Add partitions to topics, continuing their layout.

    The present partitions stay as they are, and new ones get as many replicas. Records with a
    key may go to another partition than before: Kafka chooses it by the number of partitions.
    """
    placing = read_placing(
        placement=placement,
        placement_properties=placement_properties,
        like=like,
        seed=seed,
        brokers=brokers,
        ignore_racks=ignore_racks,
        rack_locator=rack_locator,
        rack_locator_properties=rack_locator_properties,
    )
    check_distinct(topics)

    def plan(admin: AdminConnection, state: ClusterState) -> TopicsPlan:
        check_topics(state, topics)
        properties = connection_properties(bootstrap_server, command_config)
        wanted, hidden = wanted_of_cluster(admin, properties, state)
        if hidden is not None:
            stderr().print(
                f"Replicas that these topics wait for are not counted: {hidden}", style="yellow"
            )
        least = least_of_old(admin, topics) if allow_under_replicated else None
        return plan_more(state, topics, placing, partitions, least, wanted)

    if not dry_run:
        check_can_ask(yes)
    with open_cluster(bootstrap_server, command_config, timeout) as admin:
        carry_out(
            "topics add-partitions",
            admin,
            plan,
            placing,
            every=every_partition,
            dry_run=dry_run,
            yes=yes,
            as_json=as_json,
            verb=("Add these partitions to", "extended"),
            properties=connection_properties(bootstrap_server, command_config),
        )


app.command(epilog=DESCRIBE_EPILOG)(describe)


def _filled(
    shape: tuple[int | None, int | None], default: tuple[int, int] | None
) -> tuple[int | None, int | None]:
    if default is None:
        return shape
    return shape[0] or default[0], shape[1] or default[1]
