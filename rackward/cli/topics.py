"""``rackward topics``: create topics, add partitions to them, and describe them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec
import typer
from rich.columns import Columns
from rich.console import Console

from placement_core import InvalidOptionError, RackwardError, ReplicaLists
from placement_core.cluster import ClusterLoad
from rackward.cli import describe as topics_describe
from rackward.cli import options
from rackward.cli.commands import command_group
from rackward.cli.completion import complete_topics
from rackward.cli.options import ClusterOptions, PlacingOptions, RunOptions
from rackward.cli.output import confirm, print_json, require_confirmation, stderr, table_console
from rackward.cli.plan_output import MAX_LISTED_PARTITIONS, load_table, replicas_text
from rackward.kafka import AdminConnection, ClusterState, check_topics, read_state
from rackward.kafka.configs import read_min_isr
from rackward.kafka.topics import NewPartitions, create_partitions, read_topic_defaults
from rackward.topics.creator import (
    controller_is_running,
    create_planned,
    min_isr_of_new_topic,
    pending_replicas,
    read_cluster_shape,
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

app = command_group("Create topics, add partitions and describe topics, by rack.")

EPILOG = """
\b
Examples:
  rackward topics create orders -p 36 -r 3
  rackward topics create orders -p 36 -r 3 --dry-run --seed 7
  rackward topics add-partitions orders -p 48

Exit status: 0 success; 1 declined at the prompt; 2 error (reason on stderr); 130 interrupted with
Ctrl-C.
"""

NewTopics = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names of the topics.")]
Topics = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC", help="Names of the topics.", autocompletion=complete_topics),
]


@dataclass(frozen=True, slots=True)
class LayoutOptions(PlacingOptions):
    """The options for the replicas of new partitions."""

    like: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            help="Give partition i the replicas of partition i of this topic, so that joins of the "
            "two stay local.",
            autocompletion=complete_topics,
        ),
    ] = None
    brokers: options.Brokers = None
    allow_under_replicated: Annotated[
        bool,
        typer.Option(
            "--allow-under-replicated",
            help="If fewer brokers are live than the replication factor, but at least "
            "min.insync.replicas, create the partitions with fewer replicas. rackward controller "
            "adds the others.",
        ),
    ] = False
    all_partitions: options.AllPartitions = False


class PlannedTopic(msgspec.Struct, frozen=True):
    """New partitions of a topic, from ``first_partition`` on; ``partitions`` is its total.

    replicas
        By partition; a negative id is a replica that no live broker can take yet.
    """

    name: str
    first_partition: int
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    replicas: Mapping[int, tuple[int, ...]]


class PlannedTopics(msgspec.Struct, frozen=True):
    """The placement strategy, its seed (null: it takes none), and the new partitions."""

    placement: str
    seed: int | None
    topics: list[PlannedTopic]


class Creation(msgspec.Struct, frozen=True):
    """What was done; ``verified``: the layout that was read back is as planned."""

    dry_run: bool
    changed: bool
    verified: bool | None


RESULTS = (Creation, PlannedTopics, ClusterLoad)


@app.command("create", epilog=EPILOG, results=RESULTS)
def create(
    topics: NewTopics,
    *,
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
        typer.Option(metavar="KEY=VALUE", help="Configuration of the topics; may be repeated."),
    ] = None,
    layout: LayoutOptions,
    run: RunOptions,
    cluster: ClusterOptions,
) -> None:
    """Create topics with their replicas spread over the racks.

    Shows the layout, has the brokers validate it, and asks for confirmation. After creation the
    layout is read back and compared. To get the layout of a dry run, give its seed. In a layout,
    -1 and -2 are replicas that no live broker can take yet: see --allow-under-replicated.
    """
    configs = parse_key_values("--config", config or [])
    placing = layout.parse(like=layout.like, brokers=layout.brokers)

    def plan(admin: AdminConnection, state: ClusterState) -> TopicsPlan:
        check_absent(state, topics)
        count, factor = partitions, replication_factor
        if count is None or factor is None:
            default: tuple[int, int] | None
            if placing.like is not None:
                default = topic_shape(state, placing.like)
            elif layout.allow_under_replicated:
                default = read_cluster_shape(admin, state)
            else:
                default = read_topic_defaults(admin, topics[0], configs)
            if default is None:
                raise InvalidOptionError(
                    "this user may not read the brokers' defaults: give --partitions and "
                    "--replication-factor"
                )
            count, factor = count or default[0], factor or default[1]
        min_isr = (
            min_isr_of_new_topic(admin, state, configs) if layout.allow_under_replicated else None
        )
        return plan_new_topics(state, topics, placing, count, factor, configs, min_isr)

    _create("topics create", ("Create", "created"), topics, plan, layout, placing, run, cluster)


@app.command("add-partitions", epilog=EPILOG, results=RESULTS)
def add_partitions(
    topics: Topics,
    *,
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
    layout: LayoutOptions,
    run: RunOptions,
    cluster: ClusterOptions,
) -> None:
    """Add partitions to topics, continuing their layout.

    Existing partitions are not changed; new ones get the same number of replicas. Records with a
    key may go to other partitions than before, because Kafka computes the partition of a key from
    the number of partitions.
    """
    placing = layout.parse(like=layout.like, brokers=layout.brokers)

    def plan(admin: AdminConnection, state: ClusterState) -> TopicsPlan:
        check_topics(state, topics)
        targets, hidden = read_replication_targets(admin, cluster.properties(), state)
        if hidden is not None:
            stderr().print(
                f"Pending replicas of these topics are not considered: {hidden}", style="yellow"
            )
        min_isr = read_min_isr(admin, topics) if layout.allow_under_replicated else None
        return plan_additional_partitions(state, topics, placing, partitions, min_isr, targets)

    verb = ("Add these partitions to", "extended")
    _create("topics add-partitions", verb, topics, plan, layout, placing, run, cluster)


app.command("describe", epilog=topics_describe.EPILOG, results=topics_describe.RESULTS)(
    topics_describe.describe
)


def _create(
    command: str,
    verb: tuple[str, str],
    topics: list[str],
    make_plan: Callable[[AdminConnection, ClusterState], TopicsPlan],
    layout: LayoutOptions,
    placing: PlacementOptions,
    run: RunOptions,
    cluster: ClusterOptions,
) -> None:
    """Plan, validate, show, confirm, create, and compare with the layout that is read back.

    ``verb`` is that of the prompt, and its past participle. Raises RackwardError.
    """
    check_unique(topics)
    require_confirmation(run)
    console = table_console(run.as_json)
    with cluster.connect() as admin:
        state = read_state(admin, reassignments=False)
        plan = make_plan(admin, state)
        if refused := create_partitions(admin, plan.new, validate_only=True):
            raise next(iter(refused.values()))
        show_plan(plan, placing, console, all_partitions=layout.all_partitions)
        if run.dry_run:
            console.print("Dry run: the brokers would accept this; nothing was changed.")
        else:
            noun = f"these {len(topics)} topics" if len(topics) > 1 else f"topic {topics[0]}"
            confirm(f"{verb[0]} {noun}?", run.yes)
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
    if run.as_json:
        changed = not run.dry_run
        creation = Creation(run.dry_run, changed, True if changed else None)
        print_json(command, creation, planned_topics(plan, placing), plan.load)


def _raise_differences(names: list[str], differences: dict[str, str], verb: str) -> None:
    """Raise RackwardError with the topics that are as planned, and what differs in the others."""
    if not differences:
        return
    as_planned = [name for name in names if name not in differences]
    text = "; ".join(f"{name}: {difference}" for name, difference in differences.items())
    first = f"{verb} as planned: {', '.join(as_planned)}; not as planned: " if as_planned else ""
    raise RackwardError(f"{first}{text}; see rackward topics describe {' '.join(differences)}")


def parse_key_values(option: str, pairs: list[str]) -> dict[str, str]:
    """Return ``["a=1", "b=2"]`` as a dict. Raises InvalidOptionError, which names the option."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InvalidOptionError(f"{option} {pair}: write {option} KEY=VALUE")
        if key.strip() in values:
            raise InvalidOptionError(f"{option} {key.strip()} is repeated: give it once")
        values[key.strip()] = value.strip()
    return values


# ---- The plan as tables and as JSON.

MIN_LISTED_PARTITIONS = 6
"""Partitions of each planned topic that are listed in any case."""

_MAX_GRID_WIDTH = 200


def planned_topics(plan: TopicsPlan, options: PlacementOptions) -> PlannedTopics:
    """Return a plan as the JSON of commands has it."""
    return PlannedTopics(
        options.name,
        options.seed,
        [
            PlannedTopic(
                new.topic,
                new.first_partition,
                new.first_partition + len(new.replicas),
                len(new.replicas[0]),
                new.configs,
                dict(enumerate(new.replicas, new.first_partition)),
            )
            for new in plan.new
        ],
    )


def show_plan(
    plan: TopicsPlan, options: PlacementOptions, console: Console, *, all_partitions: bool
) -> None:
    """Print the layout of each topic, and the load of brokers and racks."""
    racks = plan.after.racks()
    limit = max(MIN_LISTED_PARTITIONS, MAX_LISTED_PARTITIONS // len(plan.new))
    for new in plan.new:
        console.print(_heading(new, options), style="bold")
        show_replica_lists(
            new.replicas,
            racks,
            console,
            first=new.first_partition,
            limit=None if all_partitions else limit,
        )
        for key, value in new.configs.items():
            console.print(f"  {key}={value}")
        console.print()
    console.print(load_table(plan.load))


def show_replica_lists(
    rows: ReplicaLists,
    racks: Mapping[int, str | None],
    console: Console,
    *,
    first: int = 0,
    limit: int | None,
) -> None:
    """Print replica lists side by side; the first one is that of partition ``first``.

    ``limit`` is the maximum number of lists; None: all.
    """
    listed = rows[:limit]
    width = len(str(first + len(listed) - 1))
    lists = [
        f"  {number:>{width}}  {replicas_text(row, racks)}"
        for number, row in enumerate(listed, first)
    ]
    grid = Columns(lists, (0, 1), column_first=True)
    console.print(grid, width=min(console.width, _MAX_GRID_WIDTH))
    if hidden := len(rows) - len(listed):
        console.print(f"  ... and {hidden:,} more: --all-partitions lists them")


def _heading(new: NewPartitions, options: PlacementOptions) -> str:
    count = format_count(len(new.replicas), "partition")
    if new.first_partition:
        last = new.first_partition + len(new.replicas) - 1
        count = f"{count} added ({new.first_partition} to {last})"
    seed = "" if options.seed is None else f", seed {options.seed}"
    replicas = format_count(len(new.replicas[0]), "replica")
    return f"{new.topic}: {count}, {replicas} each; placement {options.name}{seed}"
