"""``rackward placement plan``: which replicas to move, where to, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

import typer

from placement_core import ClusterView, InvalidOptionError, TopicPartition
from placement_core.cluster import Move
from rackward.admin import AdminConnection, AdminError, ClusterState, read_sizes, read_state
from rackward.cli import options
from rackward.cli import options as selection
from rackward.cli.connect import open_cluster
from rackward.cli.options import (
    BatchBytes,
    BatchCount,
    Throttle,
    broker_ids,
    read_pace,
    read_placing,
)
from rackward.cli.render.plan import (
    PLAN_JSON,
    EveryPartition,
    Format,
    Output,
    PlanFormat,
    check_output,
    deliver,
)
from rackward.reassignment import PlanKind, RacksFrom
from rackward.reassignment.plan import make_plan
from rackward.reassignment.planner import PlacementRequest, check_request, moves_for, view_for

EPILOG = f"""
Without --even, --drain or --replication-factor, it repairs what breaks the rack rules and leaves
the rest where it is. Nothing is changed before the plan is applied.

Exit status: 0 done (also where nothing is to be changed); 2 where it cannot be planned, with the
reason in one line.

\b
{PLAN_JSON}
"""


def plan(
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            metavar="N",
            min=1,
            max=1000,
            help="How many replicas each partition shall have. Default: as many as now.",
        ),
    ] = None,
    drain: Annotated[
        str | None,
        typer.Option(
            "--drain",
            metavar="ID,...",
            help="Brokers that shall hold nothing of these topics; they may be down.",
        ),
    ] = None,
    topics: selection.Topics = None,
    exclude: selection.Exclude = None,
    even: Annotated[
        bool,
        typer.Option(
            "--even/--no-even",
            help="Also even out replicas over brokers (new ones, say), with the fewest copies.",
        ),
    ] = False,
    placement: Annotated[
        str | None,
        typer.Option(
            "--placement",
            metavar="NAME",
            help="Let a placer choose where missing replicas go: rack-alternating, simple, "
            "multi-level, like-topic, or module:Class. Default: the fewest copies.",
        ),
    ] = None,
    placement_properties: options.PlacementProperties = None,
    seed: options.Seed = None,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew", help="With --placement: place the topics as if they were new, at any cost."
        ),
    ] = False,
    ignore_racks: options.IgnoreRacks = False,
    rack_locator: options.RackLocatorName = None,
    rack_locator_properties: options.RackLocatorProperties = None,
    throttle: Throttle = None,
    batch_count: BatchCount = None,
    batch_bytes: BatchBytes = None,
    output: Output = None,
    format: Format = PlanFormat.RACKWARD,
    every_partition: EveryPartition = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Plan a reassignment: the fewest copies that lead to a layout that keeps the rack rules.

    Raises or lowers the replication factor, drains brokers, spreads replicas over racks, evens
    out. Replicas and leaders that can stay where they are do. With --placement, a placer
    decides where missing replicas go.
    """
    placing = read_placing(
        placement=placement,
        placement_properties=placement_properties,
        seed=seed,
        ignore_racks=ignore_racks,
        rack_locator=rack_locator,
        rack_locator_properties=rack_locator_properties,
    )
    check_output(output, format, as_json)
    _check_options(placement, placement_properties, seed, anew, even)
    drained = frozenset[int]() if drain is None else broker_ids(drain, "--drain")
    pace = read_pace(throttle, batch_count, batch_bytes)
    with open_cluster(bootstrap_server, command_config, timeout) as admin:
        state = read_state(admin)
        request = PlacementRequest(
            topics=_chosen(state, topics, exclude, replication_factor),
            replication_factor=replication_factor,
            drain=drained,
            even=even,
            ignore_racks=ignore_racks,
            placer=None if placement is None else placing.placer,
            fallback=placing.fallback,
            anew=anew,
        )
        check_request(request, state)
        view = view_for(state, placing.locator)
        moves = moves_for(request, view)
        sizes = leader_sizes(admin, view, moves)
    made = make_plan(
        PlanKind.PLACEMENT,
        moves,
        state,
        view,
        made=now_text(),
        asked={
            "replication_factor": replication_factor,
            "drain": sorted(drained),
            "topics": topics,
            "exclude": exclude,
            "even": even,
            "placement": placement,
            "seed": placing.seed if placement is not None else None,
            "anew": anew,
        },
        racks_from=racks_from(ignore_racks, rack_locator),
        sizes=sizes,
        pace=pace,
    )
    deliver("placement plan", made, view, output, format, every=every_partition, as_json=as_json)


def now_text() -> str:
    """Now, as plans have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def racks_from(ignore_racks: bool, rack_locator: str | None) -> RacksFrom:
    """Where the options take racks from."""
    if ignore_racks:
        return RacksFrom.IGNORED
    return RacksFrom.METADATA if rack_locator in (None, "metadata") else RacksFrom.LOCATOR


def leader_sizes(
    admin: AdminConnection, view: ClusterView, moves: Iterable[Move]
) -> dict[TopicPartition, int]:
    """Bytes of the partitions that are to be copied, on their leaders; fewer, or none, where
    brokers do not tell."""
    leaders = {
        move.partition: view.leaders[move.partition]
        for move in moves
        if move.adding and move.partition in view.leaders
    }
    try:
        sizes = read_sizes(admin, sorted(set(leaders.values())), leaders)
    except AdminError:
        return {}
    return {
        place: size.bytes
        for place, leader in leaders.items()
        if (size := sizes.get((place, leader))) is not None
    }


def _chosen(
    state: ClusterState, topics: str | None, exclude: str | None, factor: int | None
) -> frozenset[str]:
    """The topics that may change. A replication factor is for one's own topics: those that
    Kafka keeps for itself are named, or left as they are."""
    known = state.topics
    if factor is not None and topics is None:
        known = tuple(topic for topic in known if topic not in state.internal)
    return selection.select(known, topics, exclude)


def _check_options(
    placement: str | None, properties: str | None, seed: int | None, anew: bool, even: bool
) -> None:
    for option, given in (
        ("--placement-properties", properties is not None),
        ("--seed", seed is not None),
        ("--anew", anew),
    ):
        if given and placement is None:
            raise InvalidOptionError(f"{option} is for a placer: name one with --placement")
    if even and placement is not None:
        raise InvalidOptionError("--even and --placement: a placer decides by itself, give one")
