"""``rackward leaders apply``: let other replicas lead."""

from __future__ import annotations

from rackward.admin import ClusterState, read_state
from rackward.cli import options
from rackward.cli.apply import (
    APPLY_JSON,
    DEFAULT_STALL,
    STATUS,
    Job,
    Manner,
    NeededPlan,
    Patience,
    carry_out,
    check_can_ask_of,
    load_plan,
)
from rackward.cli.connect import open_cluster
from rackward.cli.console import check_can_ask
from rackward.cli.options import BatchCount, over, read_pace
from rackward.cli.render.plan import EveryPartition
from rackward.reassignment import LiveCluster, PlanKind, check_current
from rackward.reassignment.plan_file import name_of
from rackward.reassignment.progress import DEFAULT_ORDER_BATCH

EPILOG = f"""
{STATUS}

\b
{APPLY_JSON}
"""

COMMAND = "leaders apply"


def apply(
    plan: NeededPlan,
    batch_count: BatchCount = None,
    stall_timeout: Patience = DEFAULT_STALL,
    every_partition: EveryPartition = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Carry a leader layout out: reorder replicas, elect, and read back who leads.

    No data moves. Consumers read from the new leaders at once; which consumer reads what, a
    group decides at its next rebalance.
    """
    manner = Manner(yes, dry_run, as_json, every_partition, stall_timeout, additional=False)
    check_can_ask_of(plan, manner)
    if not dry_run:
        check_can_ask(yes)
    given = read_pace(None, batch_count, None)
    loaded = load_plan(plan, PlanKind.LEADERS)

    def check(state: ClusterState) -> None:
        check_current(name_of(plan), loaded, state)

    with open_cluster(bootstrap_server, command_config, timeout) as admin:
        job = Job(
            COMMAND,
            plan,
            tuple(each.move for each in loaded.moves),
            read_state(admin, ongoing=False).view,
            over(given, loaded.pace),
            localities=loaded.localities,
        )
        carry_out(job, LiveCluster(admin), manner, check, DEFAULT_ORDER_BATCH)
