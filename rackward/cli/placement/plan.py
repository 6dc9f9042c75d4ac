"""``rackward placement plan``: plan a reassignment of replicas."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import typer

from placement_core import InvalidOptionError
from rackward.cli.live import step_reporter
from rackward.cli.options import (
    BatchOptions,
    ClusterOptions,
    PlacingOptions,
    TopicOptions,
    parse_broker_ids,
)
from rackward.cli.output import stderr
from rackward.cli.plan_output import ChangeResult, PlanFile, PlanOutput, format_now, write_plan
from rackward.kafka import read_state
from rackward.reassignment import PlanKind
from rackward.reassignment.plan import build_plan
from rackward.reassignment.planner import (
    ReassignmentRequest,
    check_request,
    plan_moves,
    planning_view,
    rackless_notes,
)
from rackward.reassignment.run_plan import read_leader_sizes

EPILOG = """
\b
Examples:
  rackward placement plan -o plan.json
  rackward placement plan --drain 4 --throttle 50MB -o plan.json
  rackward placement plan --topics orders -r 3 --even -o plan.json

Without --even, --drain or --replication-factor, the plan repairs violations of the rack rules and
leaves everything else unchanged. The cluster is changed by rackward placement apply only.

Exit status: 0 success (also if there is nothing to change); 2 error (reason on stderr).
"""


RESULTS = (PlanFile, ChangeResult)


def plan(
    *,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            metavar="N",
            min=1,
            max=1000,
            help="New replication factor; a lower one removes replicas. Default: unchanged. "
            "Internal topics are included only if --topics matches them.",
        ),
    ] = None,
    drain: Annotated[
        str | None,
        typer.Option(
            metavar="ID,...",
            help="Move all replicas of these topics off these brokers, which may be down.",
        ),
    ] = None,
    topics: TopicOptions,
    even: Annotated[
        bool,
        typer.Option(
            "--even/--no-even",
            help="Also balance replicas and leaders over the brokers, new ones included, with the "
            "fewest copies.",
        ),
    ] = False,
    from_scratch: Annotated[
        bool,
        typer.Option(
            "--from-scratch",
            help="With --placement: place all replicas as if the topics were new, however many "
            "copies that takes.",
        ),
    ] = False,
    placing: PlacingOptions,
    batches: BatchOptions,
    written: PlanOutput,
    cluster: ClusterOptions,
) -> None:
    """Plan the reassignment with the fewest copies to a layout that keeps the rack rules.

    Can change the replication factor, drain brokers, spread replicas over racks and balance
    brokers. Replicas and leaders that can stay are not moved. With --placement, a placement
    strategy chooses the brokers of missing replicas.
    """
    placement = placing.parse()
    written.check()
    for option, given in (
        ("--placement-properties", placing.placement_properties is not None),
        ("--seed", placing.seed is not None),
        ("--from-scratch", from_scratch),
    ):
        if given and placing.placement is None:
            raise InvalidOptionError(f"{option} needs --placement: give a placement strategy")
    if even and placing.placement is not None:
        raise InvalidOptionError("--even and --placement exclude each other: give one of the two")
    drained = frozenset[int]() if drain is None else parse_broker_ids("--drain", drain)
    limits = batches.limits()
    progress = step_reporter(stderr())
    with cluster.connect() as admin:
        progress("Reading topics")
        state = read_state(admin)
        names: Collection[str] = state.topics
        if replication_factor is not None and topics.topics is None:
            names = set(names) - state.internal
        request = ReassignmentRequest(
            topics=topics.match(names),
            replication_factor=replication_factor,
            drain=drained,
            even=even,
            ignore_racks=placing.ignore_racks,
            placer=None if placing.placement is None else placement.placer,
            fallback=placement.fallback,
            from_scratch=from_scratch,
        )
        check_request(request, state)
        view = planning_view(state, placement.locator)
        progress("Planning")
        moves = plan_moves(request, view)
        progress("Reading sizes of replicas")
        sizes = read_leader_sizes(admin, view, moves)
    built = build_plan(
        PlanKind.PLACEMENT,
        moves,
        state,
        view,
        created_at=format_now(),
        options={
            "replication_factor": replication_factor,
            "drain": sorted(drained),
            "topics": topics.topics,
            "exclude": topics.exclude,
            "even": even,
            "placement": placing.placement,
            "seed": None if placing.placement is None else placement.seed,
            "from_scratch": from_scratch,
        },
        rack_source=placing.source(ignore_racks=placing.ignore_racks),
        sizes=sizes,
        limits=limits,
    )
    write_plan(
        "placement plan",
        built,
        view,
        written,
        topics=request.topics,
        notes=rackless_notes(request, view),
    )
