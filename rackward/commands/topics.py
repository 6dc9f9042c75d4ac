"""``rackward topics``: create topics, add partitions, and see how they lie."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from placement_core import InvalidOptionError, RackwardError
from rackward.admin import AdminConnection, AdminError, ClusterState, read_state
from rackward.admin.topics import await_layout, default_shape, make_partitions
from rackward.commands import options
from rackward.commands.asking import ask, check_can_ask
from rackward.commands.cluster import open_cluster
from rackward.commands.output import for_people, print_json
from rackward.commands.placing_options import Placing, key_values, read_placing
from rackward.commands.topic_plan import (
    TopicsPlan,
    check_absent,
    check_distinct,
    plan_more,
    plan_new,
    shape_of,
)
from rackward.commands.topic_plan_output import plan_json, show_plan
from rackward.commands.topics_describe import DESCRIBE_EPILOG, describe

Planner = Callable[[AdminConnection, ClusterState], TopicsPlan]

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
    compared. What --dry-run shows can be had exactly by giving its seed.
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
        elif None in shape:
            shape = _filled(shape, default_shape(admin, topics[0], configs))
        count, factor = shape
        if count is None or factor is None:
            raise InvalidOptionError(
                "the cluster does not tell its defaults to this user: give --partitions and "
                "--replication-factor"
            )
        return plan_new(state, topics, placing, count, factor, configs)

    if not dry_run:
        check_can_ask(yes)
    with open_cluster(bootstrap_server, command_config, timeout) as admin:
        _carry_out(
            "topics create",
            admin,
            plan,
            placing,
            every=every_partition,
            dry_run=dry_run,
            yes=yes,
            as_json=as_json,
            verb=("Create", "created"),
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
    if not dry_run:
        check_can_ask(yes)
    with open_cluster(bootstrap_server, command_config, timeout) as admin:
        _carry_out(
            "topics add-partitions",
            admin,
            lambda _, state: plan_more(state, topics, placing, partitions),
            placing,
            every=every_partition,
            dry_run=dry_run,
            yes=yes,
            as_json=as_json,
            verb=("Add these partitions to", "extended"),
        )


app.command(epilog=DESCRIBE_EPILOG)(describe)


def _filled(
    shape: tuple[int | None, int | None], default: tuple[int, int] | None
) -> tuple[int | None, int | None]:
    if default is None:
        return shape
    return shape[0] or default[0], shape[1] or default[1]


def _carry_out(
    command: str,
    admin: AdminConnection,
    planner: Planner,
    placing: Placing,
    *,
    every: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    verb: tuple[str, str],
) -> None:
    """Plan, let the brokers check, show, ask, do, read back and compare."""
    plan = planner(admin, read_state(admin, ongoing=False))
    if refused := make_partitions(admin, plan.wanted, validate_only=True):
        raise next(iter(refused.values()))
    console = for_people(as_json)
    show_plan(plan, placing, console, every=every)
    names = [wanted.topic for wanted in plan.wanted]
    if dry_run:
        console.print("Dry run: the brokers would accept this; nothing was changed.")
    else:
        several = f"these {len(names)} topics" if len(names) > 1 else f"topic {names[0]}"
        ask(f"{verb[0]} {several}?", yes)
        _check(names, _made(admin, plan), verb[1])
        console.print(
            f"{verb[1].capitalize()} {', '.join(names)}; read back: the layout is the one planned.",
            style="green",
        )
    if as_json:
        print_json(command, _outcome(plan, placing, changed=not dry_run))


def _made(admin: AdminConnection, plan: TopicsPlan) -> dict[str, str]:
    """Make it, and look: topic to what is not as planned. Broken off, it says what may be."""
    names = " ".join(wanted.topic for wanted in plan.wanted)
    doubt = f"the request was sent, and may be carried out: see rackward topics describe {names}"
    try:
        refused = make_partitions(admin, plan.wanted)
        made = [wanted for wanted in plan.wanted if wanted.topic not in refused]
        faults = await_layout(admin, made) if made else {}
    except AdminError as error:
        raise AdminError(f"{error}; {doubt}") from error
    except BaseException:
        sys.stderr.write(f"rackward: {doubt}\n")
        raise
    return {**{name: str(error) for name, error in refused.items()}, **faults}


def _outcome(plan: TopicsPlan, placing: Placing, *, changed: bool) -> dict[str, Any]:
    return {
        "dry_run": not changed,
        "changed": changed,
        "verified": True if changed else None,
        **plan_json(plan, placing),
    }


def _check(names: list[str], faults: dict[str, str], done: str) -> None:
    """Raise RackwardError that says which topics are as planned and what is wrong with others."""
    if not faults:
        return
    sound = [name for name in names if name not in faults]
    told = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
    first = f"{done} as planned: {', '.join(sound)}; not so " if sound else ""
    raise RackwardError(f"{first}{told}; see rackward topics describe {' '.join(faults)}")
