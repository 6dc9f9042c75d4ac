"""``rackward lead``: assign the partitions of any client's groups by rack."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import fields, replace
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from assignors.group_leader import is_topic_name, sanitize
from assignors.leader_moves import DEFAULT_REFRESH_POLICY, RefreshPolicy
from placement_core import InvalidOptionError
from placement_core.plugins import parse_properties
from rack_traffic.advice import OWN_PROTOCOLS, hosts_of
from rackward.cli import options
from rackward.cli.commands import single_command
from rackward.cli.options import ClusterOptions, RunOptions
from rackward.cli.output import (
    confirm,
    escape_controls,
    log_to_stderr,
    number,
    print_json_line,
    require_confirmation,
    stdout,
    table,
    text,
)
from rackward.groups.explain import ExplainedGroup, explain_live_group
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import find_groups, is_stable, list_matching_groups
from rackward.kafka import AdminConnection, AdminError, read_state
from rackward.kafka.groups import Group, GroupKind
from rackward.kafka.tolerant_reader import TolerantReader
from rackward.lead import (
    NO_WAITING,
    STATES,
    GroupLeader,
    LeadOptions,
    LeadStatus,
    TakeOver,
    TakeOverPolicy,
    list_matched,
    parse_protocols,
    removed_with_leader,
    why_refused,
)
from rackward.lead.led_group import ALONE_SECONDS, JOINING, REBALANCING
from rackward.units import format_count, format_list, parse_listen_address

EPILOG = """
\b
Examples:
  rackward lead billing 'team-a-*' --dry-run
  rackward lead billing --take-over remove --health 127.0.0.1:9101
  rackward lead billing --mapping 10.0.1.0/24=az1,10.0.2.0/24=az2
  rackward lead '*' --worker-group rackward-workers

In a classic consumer group, one member, the leader, assigns the partitions of all. This command
joins groups as a member that reads nothing, and where it leads, each partition goes to a consumer
in the rack of its leader, with balanced loads. Consumers may be of any client, if they use range,
cooperative-sticky, sticky, roundrobin, RoundRobinAssigner or rack-affinity. --protocol adds others,
whose members must apply any assignment: NAME=range, NAME=sticky or NAME=cooperative-sticky. Racks
are those that consumers send (client.rack), else those of --mapping.

Where another member leads, it waits, or with --take-over remove removes that member, and those that
would lead before this process, which join again with their next heartbeat; until then their
partitions are not read. A group that has nothing to gain at the start is not taken over. Before it
joins groups, it shows what it will do, and asks; without a terminal, such as in Kubernetes, give
--yes. Groups of sink connectors (connect-NAME) can be led. Kafka Streams, share groups and groups
of the new protocol cannot, and are left alone: see rackward leaders plan.

Processes with the same --worker-group are members of that Kafka group, through which they know each
other, and each leads its part of the groups that match. When one starts or ends, its part goes over
to or from the others, in one rebalance per group; when one is killed, after 10 s. Give all of them
the same groups and options.

Needs Read on the groups and Describe on their topics; Read on --worker-group. If it stops, the
groups go on with another leader. Run two for availability. See docs/leading.md.

Runs until Ctrl-C, and logs to stderr; /status of --health has the groups. A group that is named and
does not exist is a warning; it is joined for 30 s, to be led from its first consumer on, and then
watched from outside. Exit status: 0 with --dry-run; 1 declined at the prompt; 2 error (reason on
stderr), and with --dry-run a named group that is not found within 5 s; 130 stopped with Ctrl-C.

With --json, a line for each change of a group: event status; with --dry-run, event plan.
"""

app = single_command()

log = logging.getLogger("rackward.lead")

_REFRESH_FIELDS = tuple(each.name for each in fields(RefreshPolicy))

POLL_SECONDS = 0.5

MISSING_SECONDS = 5.0
"""For which a dry run looks for a group that is named and does not exist."""
HANDED_OVER = "handed over"
"""The last state of a group that another worker leads."""


class LeadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group: in the event ``status`` as it is led, in the event ``plan`` before it is.

    state
        ``none``: the group does not exist; ``handed over``: another worker leads it.
    reason
        Why it is not led, empty if it is; in the event ``plan``: why nothing is gained.
    local, off_rack, unknown, optimum
        Its partitions that are local, off-rack, and of an unknown rack or unread, now, and the
        off-rack ones at best; null if it is not stable or has no members. In the event ``status``
        ``off_rack`` and ``optimum`` include what members without a rack read.
    removes
        In the event ``plan``: how many members are removed at most, as expected.
    last_rebalance
        The time of the last one that was led.
    action
        What leading it would begin with; null in the event ``status``.
    """

    group: str
    state: str
    reason: str = ""
    protocol: str
    generation: int | None = None
    members: int | None
    partitions: int | None = None
    local: int | None = None
    off_rack: int | None = None
    unknown: int | None = None
    optimum: int | None = None
    last_rebalance: str | None = None
    action: str | None = None
    removes: int = 0


@app.command(epilog=EPILOG, results=(LeadRow,))
def lead(
    groups: options.Groups,
    *,
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=STRATEGY",
            help="Answer another assignor's name, too: with range, sticky or cooperative-sticky.",
        ),
    ] = None,
    mapping: options.RackMapping = None,
    take_over: Annotated[
        TakeOver,
        typer.Option(help="In a group with another leader: wait until it leaves, or remove it."),
    ] = TakeOver.WAIT,
    remove_static: Annotated[
        bool,
        typer.Option(
            "--remove-static", help="With --take-over remove: also a leader that is static."
        ),
    ] = False,
    refresh: Annotated[
        str | None,
        typer.Option(
            metavar="KEY=VALUE,...",
            help="When moved partition leaders justify a rebalance: min_gain (0.05), "
            "min_partitions (1), stable_seconds (120), unstable_seconds (900), min_interval (600), "
            "check_interval (30); or off.",
        ),
    ] = None,
    worker_group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Divide the groups among all processes with the same NAME, that of a Kafka "
            "group that they join.",
        ),
    ] = None,
    health: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve /health/live, /health/ready, /status, and /metrics for Prometheus.",
        ),
    ] = None,
    log_format: options.Logging = options.LogFormat.TEXT,
    run: RunOptions,
    cluster: ClusterOptions,
) -> None:
    """Assign the partitions of consumer groups by rack, whatever client they use."""
    removes = take_over is TakeOver.REMOVE
    if remove_static and not removes:
        raise InvalidOptionError("--remove-static without --take-over remove: give both or none")
    lead_options = LeadOptions(
        protocols=parse_protocols("--protocol", protocol or []),
        host_racks=HostRacks.parse_option("--mapping", mapping),
        take_over=TakeOverPolicy(take_over, remove_static),
        refresh=parse_refresh("--refresh", refresh),
        worker_group=worker_group,
    )
    if worker_group is not None and not is_topic_name(worker_group):
        raise InvalidOptionError(
            f"--worker-group {worker_group}: use letters, digits, dots, hyphens and underscores"
        )
    address = None if health is None else parse_health("--health", health)
    require_confirmation(run)
    named = {each for each in groups if "*" not in each}
    missing: list[str] = []
    with cluster.connect() as admin:
        # An error of one broker must not end a process that runs for long.
        with nullcontext() if run.dry_run else suppress(AdminError):
            missing = missing_groups(admin, named, MISSING_SECONDS if run.dry_run else 0.0)
        if run.dry_run or removes or not run.yes:
            names = named.union(each.id for each in list_matched(admin, groups))
            plans = plan_groups(admin, sorted(names), lead_options)
            if run.as_json:
                for plan in plans:
                    print_json_line("lead", "plan", plan)
            else:
                show_rows(plans, stdout())
            if run.dry_run:
                if missing:
                    raise InvalidOptionError(
                        f"no such group in {MISSING_SECONDS:g} s: {', '.join(missing)}: check the "
                        "name, or grant this user Describe on the group; it would be led from its "
                        "first consumer on"
                    )
                return
            confirm(question(plans), run.yes)
            unchanged = frozenset(plan.group for plan in plans if plan.reason)
            lead_options = replace(lead_options, not_taken_over=unchanged)
    with (
        log_to_stderr("rackward", log_format),
        GroupLeader(cluster.properties(), groups, lead_options, cluster.properties) as it,
        nullcontext() if address is None else health_port(*address, it),
    ):
        for name in missing:
            log.warning(
                "no such group: group=%s; check the name: it is joined for %g s, to be led from "
                "its first consumer on",
                sanitize(name, 249),
                ALONE_SECONDS,
            )
        watch(it, as_json=run.as_json)


def missing_groups(admin: AdminConnection, names: Collection[str], seconds: float) -> list[str]:
    """Return those of the names of which no group is listed, sorted; looks again for ``seconds``.

    Raises AdminError.
    """
    deadline = time.monotonic() + seconds
    while names:
        brokers = read_state(admin, (), reassignments=False).view.racks()
        listed = {each.id for each in list_matching_groups(admin, brokers, names)}
        missing = sorted({*names} - listed)
        if not missing or time.monotonic() > deadline:
            return missing
        time.sleep(POLL_SECONDS)
    return []


def question(plans: Sequence[LeadRow]) -> str:
    """Return what is asked before groups are joined."""
    joined = [plan for plan in plans if plan.action and not plan.action.startswith("none: ")]
    groups = format_count(len(joined), "group")
    if removes := sum(plan.removes for plan in plans):
        members = format_count(removes, "member")
        return f"Evict up to {members} of {groups}? They rejoin at their next heartbeat"
    return f"Join {groups}? Each rebalances once"


def parse_refresh(option: str, text: str | None) -> RefreshPolicy | None:
    """Return the policy that ``KEY=VALUE,...`` or ``off`` stands for.

    Raises InvalidOptionError, which begins with ``option``.
    """
    if text == "off":
        return None
    try:
        values: dict[str, Any] = {}
        for key, value in parse_properties(text or "").items():
            if key not in _REFRESH_FIELDS:
                raise InvalidOptionError(f"unknown {key}: use {', '.join(_REFRESH_FIELDS)}, or off")
            values[key] = int(value) if key == "min_partitions" else float(value)
        return replace(DEFAULT_REFRESH_POLICY, **values)
    except ValueError as error:
        problem = error if isinstance(error, InvalidOptionError) else "give numbers"
        raise InvalidOptionError(f"{option}: {problem}") from error


def parse_health(option: str, text: str) -> tuple[str, int]:
    """Return host and port. Raises InvalidOptionError, also if the extra is not installed."""
    try:
        address = parse_listen_address(text)
    except ValueError as error:
        raise InvalidOptionError(f"{option} {text}: {error}") from error
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise InvalidOptionError(
            f"{option} needs {error.name}: pip install 'rackward[prometheus]'"
        ) from error
    return address


@contextmanager
def health_port(host: str, port: int, leader: GroupLeader) -> Iterator[str]:
    """Serve the health port and yield its URL.

    It is ready while no group is being joined, or rebalances for long, and the process is in the
    group of workers, if it has one.
    """
    from prometheus_client import CollectorRegistry

    from rackward.health import HealthServer, Readiness
    from rackward.lead.status import LeadMetrics, status_document

    def state() -> Readiness:
        groups = leader.status()
        by_state = {state: [g.group for g in groups if g.state == state] for state in STATES}
        workers = leader.workers
        ready = not (by_state[JOINING] or by_state[REBALANCING])
        ready = ready and (workers is None or workers.confirmed)
        return Readiness(ready, {"groups": {g.group: g.state for g in groups}, **by_state})

    def status() -> dict[str, Any]:
        return status_document(leader.status(), workers=leader.workers)

    registry = CollectorRegistry()
    registry.register(LeadMetrics(leader.status, lambda: leader.workers))
    with closing(HealthServer(host, port, state, status, registry)) as server:
        log.info("health and metrics: http://%s", server.address)
        yield f"http://{server.address}"


def plan_groups(
    admin: AdminConnection, names: Sequence[str], lead_options: LeadOptions
) -> list[LeadRow]:
    """Return, for each group, its figures now and at best, and what leading it would begin with."""
    brokers = read_state(admin, (), reassignments=False).view.racks()
    found = find_groups(admin, brokers, names)
    selectors = TolerantReader(admin).replica_selectors(sorted(brokers))
    plans = []
    waiting = replace(lead_options, take_over=TakeOverPolicy())
    for name in names:
        group = found.get(name)
        plan = LeadRow(
            group=name,
            state="none" if group is None else group.state,
            protocol="" if group is None else group.protocol,
            members=0 if group is None else len(group.members),
        )
        if group is not None and group.members and is_stable(group):
            group = _located_by_client_id(group, lead_options.host_racks)
            explained = explain_live_group(admin, group, lead_options.host_racks, selectors)
            explanation = explained.explanation
            plan = msgspec.structs.replace(
                plan,
                partitions=explanation.partitions,
                local=explanation.local,
                off_rack=explanation.off_rack,
                unknown=explanation.unknown + explanation.unread,
                optimum=explanation.optimum,
                reason=_why_no_gain(explained),
            )
        action, removes = planned_action(group, waiting if plan.reason else lead_options)
        plans.append(msgspec.structs.replace(plan, action=action, removes=removes))
    return plans


def _located_by_client_id(group: Group, host_racks: HostRacks) -> Group:
    """Return the group with a client id for the host of each member whose rack is mapped by it."""
    members = tuple(
        replace(each, host=each.client_id) if each.client_id.lower() in host_racks.hosts else each
        for each in group.members
    )
    return replace(group, members=members)


def _why_no_gain(explained: ExplainedGroup) -> str:
    """Return why leading the group gains nothing; empty if it does."""
    group, explanation = explained.group, explained.explanation
    if len(explained.rackless) == len(group.members):
        hosts = ",".join(f"{host}=RACK" for host in hosts_of(explained.rackless))
        return (
            "nothing to gain yet: its members send no rack (client.rack); without a change of "
            f"clients: --mapping {hosts}"
        )
    if explanation.optimum >= explanation.off_rack:
        return "nothing to gain: its assignment is the best with these members and leaders"
    return ""


def _take_over(group: Group, lead_options: LeadOptions) -> tuple[str, int]:
    """Return what a take-over does, and how many members it removes at most."""
    outside = group.protocol in NO_WAITING
    others = {each.id: each.instance_id for each in group.members}
    names = {
        each.id: each.instance_id or f"{each.client_id} at {','.join(hosts_of([each]))}"
        for each in group.members
    }
    also = removed_with_leader(others, lead_options.take_over, outside=outside)
    members = format_count(len(others), "member")
    static = sum(map(bool, others.values())) if not lead_options.take_over.remove_static else 0
    if outside:
        if not also:
            return "wait outside until the group is empty: it has static members", 0
        return (
            f"join while all its {members} are removed, and lead: leaders with {group.protocol} "
            "may fail if a member reads nothing"
        ), len(also)
    count = min(len(others), len(also) + 1)
    up_to = f"up to {count}" if also else "1"
    text = f"join, remove {up_to} of {members}, and lead: its leader, which brokers do not name"
    if also:
        shown = format_list([names[member] for member in also])
        text += f", and those that would lead before this process ({shown})"
    if static:
        text += f"; wait if its leader is one of {format_count(static, 'static member')}"
    return text, count


def planned_action(group: Group | None, lead_options: LeadOptions) -> tuple[str, int]:
    """Return what leading the group begins with, and how many members it removes at most."""
    if group is not None:
        reason = why_refused(
            group.kind, group.protocol_type, group.protocol, lead_options.protocols
        )
        if reason is not None:
            return f"none: {reason}", 0
        if group.kind is GroupKind.MANUAL:
            return "join when it has consumers: it has only committed offsets", 0
    if group is None or not group.members:
        return "join, and lead from the first consumer on", 0
    if group.leader is not None:
        return "join, and lead when the rackward lead that leads it leaves", 0
    if group.protocol in OWN_PROTOCOLS:
        return (
            f"none needed: its members use {group.protocol}, which assigns by the racks of "
            "leaders; join, and lead only when its leader leaves"
        ), 0
    if lead_options.take_over.mode is TakeOver.WAIT:
        return "join, and lead when its leader leaves", 0
    return _take_over(group, lead_options)


def watch(leader: GroupLeader, as_json: bool) -> None:
    """Wait for a signal; with ``as_json``, print a line for each change of a group.

    Raises CredentialsError if authentication fails, also after the properties were read again.
    """
    shown: tuple[LeadStatus, ...] = ()
    while True:
        status = leader.status()
        if as_json:
            for group in set(status) - set(shown):
                print_json_line("lead", "status", group_status(group))
            for name in {each.group for each in shown} - {each.group for each in status}:
                gone = LeadStatus(name, HANDED_OVER, "another process is to lead it")
                print_json_line("lead", "status", group_status(gone))
            shown = status
        if leader.failure is not None:
            raise leader.failure
        time.sleep(POLL_SECONDS)


def group_status(status: LeadStatus) -> LeadRow:
    """Return a status as the JSON of the command has it."""
    metrics, at = status.metrics, status.last_rebalance
    return LeadRow(
        group=status.group,
        state=status.state,
        reason=status.reason,
        protocol=metrics.protocol,
        generation=metrics.generation,
        members=metrics.members,
        partitions=metrics.partitions,
        off_rack=metrics.off_rack,
        optimum=metrics.optimum,
        last_rebalance=None if at is None else at.isoformat(timespec="seconds"),
    )


def show_rows(rows: Sequence[LeadRow], console: Console) -> None:
    """Print plans as a table in pipes; on a terminal as lines below each name, which is whole."""
    if console.soft_wrap:
        console.print(_table(rows))
        return
    for row in rows:
        console.print(escape_controls(row.group), style="bold", soft_wrap=True)
        for line in _lines(row):
            console.print(Padding(escape_controls(line), (0, 0, 0, 2)))


def _lines(row: LeadRow) -> Iterator[str]:
    """Yield the state and figures of a group, and what is or would be done about it."""
    figures = [", ".join(filter(None, (row.state, row.protocol)))]
    if row.members:
        figures.append(format_count(row.members, "member"))
    if row.partitions is not None and row.off_rack is not None:
        counts = (
            (row.local, "local"),
            (row.off_rack, "off-rack"),
            (row.unknown, "unknown"),
            (row.optimum, "off-rack at best"),
        )
        known = ", ".join(f"{count:,} {name}" for count, name in counts if count is not None)
        figures.append(f"{format_count(row.partitions, 'partition')}: {known}")
    yield "; ".join(figures)
    yield from filter(None, (row.action, row.reason))


def _table(rows: Sequence[LeadRow]) -> Table:
    headings = ("members", "partitions", "local", "off-rack", "unknown", "at best")
    shown = table("group", "state", "assignor", *map(number, headings), "action", "note")
    for row in rows:
        counts = (row.members, row.partitions, row.local, row.off_rack, row.unknown, row.optimum)
        cells = (row.group, row.state, row.protocol, *counts, row.action, row.reason)
        shown.add_row(*map(text, cells))
    return shown
