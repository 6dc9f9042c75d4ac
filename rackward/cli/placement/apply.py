"""``rackward placement apply``: carry a plan out."""

from __future__ import annotations

from placement_core import TopicPartition
from rackward.admin import AdminConnection, ClusterState, read_state
from rackward.cli import options
from rackward.cli.apply import (
    APPLY_JSON,
    DEFAULT_STALL,
    STATUS,
    Additional,
    Job,
    Manner,
    Patience,
    PlanArgument,
    ReassignmentFile,
    carry_out,
    check_can_ask_of,
    load_plan,
    load_target,
    moves_to,
    one_of,
)
from rackward.cli.connect import open_cluster
from rackward.cli.console import check_can_ask
from rackward.cli.options import BatchBytes, BatchCount, Throttle, over, read_pace
from rackward.cli.placement.plan import leader_sizes
from rackward.cli.render.plan import EveryPartition, sizes_of
from rackward.reassignment import LiveCluster, Pace, Plan, PlanKind, check_current
from rackward.reassignment.plan_file import name_of

EPILOG = f"""
{STATUS}

\b
{APPLY_JSON}
"""

COMMAND = "placement apply"


def apply(
    plan: PlanArgument = None,
    reassignment_json_file: ReassignmentFile = None,
    throttle: Throttle = None,
    batch_count: BatchCount = None,
    batch_bytes: BatchBytes = None,
    stall_timeout: Patience = DEFAULT_STALL,
    additional: Additional = False,
    every_partition: EveryPartition = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Carry a plan out: batch by batch, throttled, watched, and read back at the end.

    The plan is refused where the cluster has changed since. What an earlier run has begun,
    also on another machine, is taken up. The throttle is lifted whatever happens; after a kill,
    by the next apply or cancel.
    """
    one_of(plan, reassignment_json_file)
    manner = Manner(yes, dry_run, as_json, every_partition, stall_timeout, additional)
    check_can_ask_of(plan or reassignment_json_file, manner)
    if not dry_run:
        check_can_ask(yes)
    given = read_pace(throttle, batch_count, batch_bytes)
    if plan is not None:
        loaded = load_plan(plan, PlanKind.PLACEMENT)
        with open_cluster(bootstrap_server, command_config, timeout) as admin:
            _apply_plan(admin, plan, loaded, given, manner)
        return
    path = str(reassignment_json_file)
    target = load_target(path)
    with open_cluster(bootstrap_server, command_config, timeout) as admin:
        _apply_target(admin, path, target, given, manner)


def _apply_plan(admin: AdminConnection, path: str, plan: Plan, given: Pace, manner: Manner) -> None:
    view = read_state(admin, ongoing=False).view
    job = Job(
        COMMAND,
        path,
        tuple(each.move for each in plan.moves),
        view,
        over(given, plan.pace),
        sizes_of(plan),
    )

    def check(state: ClusterState) -> None:
        check_current(name_of(path), plan, state, divert=manner.additional)

    carry_out(job, LiveCluster(admin), manner, check)


def _apply_target(
    admin: AdminConnection,
    path: str,
    target: dict[TopicPartition, tuple[int, ...]],
    given: Pace,
    manner: Manner,
) -> None:
    state = read_state(admin)
    moves = moves_to(name_of(path), target, state)
    job = Job(
        COMMAND,
        f"--reassignment-json-file {path}",
        moves,
        state.view,
        given,
        leader_sizes(admin, state.view, moves),
    )
    carry_out(job, LiveCluster(admin), manner, lambda _state: None)
