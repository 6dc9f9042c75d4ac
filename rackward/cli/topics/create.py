"""``rackward topics create`` and ``rackward topics add-partitions``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from placement_core import InvalidOptionError, RackwardError
from rackward.cli import options
from rackward.cli.console import confirm, print_json, require_confirmation, stderr, table_console
from rackward.cli.options import ClusterOptions, RunOptions, parse_key_values, parse_placement
from rackward.cli.render.topics import plan_json, show_plan
from rackward.kafka import AdminConnection, ClusterState, check_topics, read_state
from rackward.kafka.topics import create_partitions, read_topic_defaults
from rackward.topics.creator import (
    controller_is_running,
    create_planned,
    min_isr_of_new_topic,
    pending_replicas,
    read_cluster_shape,
    read_min_isr,
    read_replication_targets,
)
from rackward.topics.planner import (
    PlacementOptions,
    TopicsPlan,
    check_absent,
    check_unique,
    plan_additional_partitions,
    plan_new_topics,
    topic_shape,
)
from rackward.units import format_count

TopicNames = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names of the topics.")]
Like = Annotated[
    str | None,
    typer.Option(
        "--like",
        metavar="TOPIC",
        help="Give partition i the replicas of partition i of this topic, so that joins of the "
        "two stay local.",
    ),
]

EPILOG = """
\b
Examples:
  rackward topics create orders -p 36 -r 3
  rackward topics create orders -p 36 -r 3 --dry-run --seed 7
  rackward topics add-partitions orders -p 48

Exit status: 0 success; 1 declined at the prompt; 2 error (reason on stderr); 130 interrupted with
Ctrl-C.

\b
JSON: {schema_version: 1, command, dry_run, changed, verified,
 placement, seed,
 topics: [{name, first_partition, partitions, replication_factor, configs,
           replicas: {partition: [broker, ...]}}],
 brokers: [{id, rack, leaders_before, leaders_after, replicas_before,
            replicas_after}], racks: [{rack, ...}]}
"""


def create(
    topics: TopicNames,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            metavar="N",
            min=1,
            max=1_000_000,
            help="Number of partitions per topic. Default: num.partitions of the brokers.",
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
            help="Number of replicas per partition. Default: default.replication.factor of the "
            "brokers.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", metavar="KEY=VALUE", help="Configuration of the topics; may be repeated."
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
    every_partition: options.EveryPartition = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Create topics with their replicas spread over the racks.

    Shows the layout, has the brokers validate it, and asks for confirmation. After creation the
    layout is read back and compared. To get the layout of a dry run, give its seed. In a layout,
    -1 and -2 are replicas that no live broker can take yet: see --allow-under-replicated.
    """
    configs = parse_key_values("--config", config or [])
    placing = parse_placement(
        placement=placement,
        placement_properties=placement_properties,
        like=like,
        seed=seed,
        brokers=brokers,
        ignore_racks=ignore_racks,
        rack_locator=rack_locator,
        rack_locator_properties=rack_locator_properties,
    )

    def plan(admin: AdminConnection, state: ClusterState) -> TopicsPlan:
        check_absent(state, topics)
        count, factor = partitions, replication_factor
        if count is None or factor is None:
            default: tuple[int, int] | None
            if placing.like is not None:
                default = topic_shape(state, placing.like)
            elif allow_under_replicated:
                default = read_cluster_shape(admin, state)
            else:
                default = read_topic_defaults(admin, topics[0], configs)
            if default is None:
                raise InvalidOptionError(
                    "this user may not read the brokers' defaults: give --partitions and "
                    "--replication-factor"
                )
            count, factor = count or default[0], factor or default[1]
        min_isr = min_isr_of_new_topic(admin, state, configs) if allow_under_replicated else None
        return plan_new_topics(state, topics, placing, count, factor, configs, min_isr)

    _create(
        "topics create",
        ("Create", "created"),
        topics,
        plan,
        placing,
        RunOptions(yes, dry_run, as_json, every_partition),
        ClusterOptions(bootstrap_server, command_config, timeout),
    )


def add_partitions(
    topics: TopicNames,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            "-p",
            metavar="N",
            min=2,
            max=1_000_000,
            help="Total number of partitions per topic, existing ones included.",
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
    every_partition: options.EveryPartition = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Add partitions to topics, continuing their layout.

    Existing partitions are not changed; new ones get the same number of replicas. Records with a
    key may go to other partitions than before, because Kafka computes the partition of a key from
    the number of partitions.
    """
    placing = parse_placement(
        placement=placement,
        placement_properties=placement_properties,
        like=like,
        seed=seed,
        brokers=brokers,
        ignore_racks=ignore_racks,
        rack_locator=rack_locator,
        rack_locator_properties=rack_locator_properties,
    )
    cluster = ClusterOptions(bootstrap_server, command_config, timeout)

    def plan(admin: AdminConnection, state: ClusterState) -> TopicsPlan:
        check_topics(state, topics)
        targets, hidden = read_replication_targets(admin, cluster.properties(), state)
        if hidden is not None:
            stderr().print(
                f"Pending replicas of these topics are not considered: {hidden}", style="yellow"
            )
        min_isr = read_min_isr(admin, topics) if allow_under_replicated else None
        return plan_additional_partitions(state, topics, placing, partitions, min_isr, targets)

    _create(
        "topics add-partitions",
        ("Add these partitions to", "extended"),
        topics,
        plan,
        placing,
        RunOptions(yes, dry_run, as_json, every_partition),
        cluster,
    )


def _create(
    command: str,
    verb: tuple[str, str],
    topics: list[str],
    make_plan: Callable[[AdminConnection, ClusterState], TopicsPlan],
    placing: PlacementOptions,
    run_options: RunOptions,
    cluster: ClusterOptions,
) -> None:
    """Plan, validate, show, confirm, create, and compare with the layout that is read back.

    ``verb`` is that of the prompt, and its past participle. Raises RackwardError.
    """
    check_unique(topics)
    require_confirmation(run_options.yes, run_options.dry_run)
    console = table_console(run_options.as_json)
    with cluster.connect() as admin:
        state = read_state(admin, reassignments=False)
        plan = make_plan(admin, state)
        if refused := create_partitions(admin, plan.new, validate_only=True):
            raise next(iter(refused.values()))
        show_plan(plan, placing, console, every_partition=run_options.every_partition)
        if run_options.dry_run:
            console.print("Dry run: the brokers would accept this; nothing was changed.")
        else:
            noun = f"these {len(topics)} topics" if len(topics) > 1 else f"topic {topics[0]}"
            confirm(f"{verb[0]} {noun}?", run_options.yes)
            pending = pending_replicas(plan.new, state)
            differences = create_planned(admin, plan, cluster.properties(), pending)
            _raise_differences(topics, differences, verb[1])
            console.print(
                f"{verb[1].capitalize()} {', '.join(topics)}; verified: the layout is as planned.",
                style="green",
            )
            if pending:
                count = format_count(sum(len(each.partitions) for each in pending), "partition")
                console.print(
                    f"rackward controller will add the missing replicas of {count} when brokers "
                    "join."
                )
                if not controller_is_running(admin, state):
                    console.print(
                        "No rackward controller is running for this cluster: start one.",
                        style="yellow",
                    )
    if run_options.as_json:
        changed = not run_options.dry_run
        fields = {
            "dry_run": run_options.dry_run,
            "changed": changed,
            "verified": True if changed else None,
            **plan_json(plan, placing),
        }
        print_json(command, fields)


def _raise_differences(names: list[str], differences: dict[str, str], verb: str) -> None:
    """Raise RackwardError with the topics that are as planned, and what differs in the others."""
    if not differences:
        return
    as_planned = [name for name in names if name not in differences]
    text = "; ".join(f"{name}: {difference}" for name, difference in differences.items())
    first = f"{verb} as planned: {', '.join(as_planned)}; not as planned: " if as_planned else ""
    raise RackwardError(f"{first}{text}; see rackward topics describe {' '.join(differences)}")
