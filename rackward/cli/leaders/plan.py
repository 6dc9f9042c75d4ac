"""``rackward leaders plan``: plan which replicas should be leaders, given the consumers' racks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from placement_core import ClusterView, InvalidOptionError, TopicPartition
from placement_core.leaders import ConsumerDemand, plan_leaders
from rackward.admin import AdminConnection, ClusterState, read_replica_sizes, read_state
from rackward.admin.metadata import LATEST, read_log_offsets
from rackward.cli import options
from rackward.cli.console import stderr
from rackward.cli.options import ClusterOptions, match_topics, parse_placement
from rackward.cli.placement.plan import format_now, rack_source
from rackward.cli.render.plan import PLAN_JSON, Format, Output, PlanFormat, check_output, write_plan
from rackward.group_readers import (
    count_rackless_members,
    demand_of_group,
    parse_readers,
    read_groups,
)
from rackward.host_racks import HostRacks
from rackward.reassignment import BatchLimits, PlanKind
from rackward.reassignment.plan import build_plan
from rackward.reassignment.planner import check_not_reassigning, planning_view
from rackward.units import format_count

EPILOG = f"""
A consumer's rack is its client.rack, or the one that an assignor of rackward sends; --mapping adds
those of other consumers. The figures assume balanced, leader-rack-aware assignments and count each
partition once. For topics that a range assignor assigns together (partition i of all topics to one
member), they are upper bounds.

Exit status: 0 success (also if there is nothing to change); 2 error (reason on stderr).

\b
{PLAN_JSON}
"""


class Weights(StrEnum):
    """Weights of groups relative to each other, per partition."""

    EQUAL = "equal"
    BYTES = "bytes"
    RECORDS = "records"


def plan(
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", metavar="GROUP", help="A consumer group; may be repeated."),
    ] = None,
    readers: Annotated[
        str | None,
        typer.Option(
            "--readers",
            metavar="RACK=N,...",
            help="Instead of --group: the number of consumers of --topics in each rack.",
        ),
    ] = None,
    mapping: options.RackMapping = None,
    weights: Annotated[
        Weights,
        typer.Option(
            "--weights",
            help="Weights of groups that need different leaders: all equal, or by the mean bytes "
            "stored or records written per partition that they read.",
        ),
    ] = Weights.EQUAL,
    topics: options.Topics = None,
    exclude: options.Exclude = None,
    levels: Annotated[
        int | None,
        typer.Option(
            "--levels",
            metavar="N",
            min=1,
            help="Compare racks such as /dc1/room2 by their first N levels only.",
        ),
    ] = None,
    rack_locator: options.RackLocatorName = None,
    rack_locator_properties: options.RackLocatorProperties = None,
    output: Output = None,
    format: Format = PlanFormat.RACKWARD,
    every_partition: options.EveryPartition = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Plan which replicas lead, so that consumers find leaders in their own racks.

    Only the order of replicas changes; no data is copied. Among the layouts with the best locality
    the plan has the one with the most even leaders per broker, then the fewest changes.
    """
    _check_options(group, readers, mapping, topics)
    check_output(output, format, as_json)
    placing = parse_placement(
        rack_locator=rack_locator, rack_locator_properties=rack_locator_properties
    )
    host_racks = HostRacks.parse_option("--mapping", mapping)
    consumers = None if readers is None else parse_readers("--readers", readers)
    with ClusterOptions(bootstrap_server, command_config, timeout).connect() as admin:
        state = read_state(admin)
        chosen = match_topics(state.topics, topics, exclude)
        if consumers is not None:
            demands = [ConsumerDemand("--readers", chosen, consumers)]
        else:
            demands = _read_demands(admin, state, group or [], host_racks)
        read_topics = frozenset[str]().union(*(demand.topics for demand in demands)) & chosen
        if not read_topics:
            raise InvalidOptionError(
                "the groups read none of the selected topics: change --topics or --exclude"
            )
        check_not_reassigning(read_topics, state)
        view = planning_view(state, placing.locator)
        demands = _with_weights(admin, view, demands, weights)
    layout = plan_leaders(view, demands, topics=read_topics, levels=levels)
    built = build_plan(
        PlanKind.LEADERS,
        layout.moves,
        state,
        view,
        created_at=format_now(),
        options={
            "groups": list(group or []),
            "readers": {
                f"{demand.name} in {rack or '?'}": count
                for demand in demands
                for rack, count in demand.consumers.items()
            },
            "weights": weights.value,
            "topics": topics,
            "exclude": exclude,
            "levels": levels,
            "proved_most_local": layout.locality_proved,
        },
        rack_source=rack_source(rack_locator, ignore_racks=False),
        sizes={},
        limits=BatchLimits(),
        localities=layout.localities,
    )
    write_plan(
        "leaders plan",
        built,
        view,
        output,
        format,
        every_partition=every_partition,
        as_json=as_json,
    )
    if not layout.locality_proved:
        stderr().print(
            "Some groups share only part of their topics: the plan may not have the best locality."
        )


def _check_options(
    group: Sequence[str] | None, readers: str | None, mapping: str | None, topics: str | None
) -> None:
    if bool(group) == (readers is not None):
        raise InvalidOptionError(
            "give the consumers: either --group (may be repeated) or --readers"
        )
    if readers is not None and topics is None:
        raise InvalidOptionError("--readers needs --topics: give the topics that they read")
    if mapping is not None and not group:
        raise InvalidOptionError("--mapping is for the members of groups: give --group")


def _read_demands(
    admin: AdminConnection, state: ClusterState, names: Sequence[str], host_racks: HostRacks
) -> list[ConsumerDemand]:
    groups = read_groups(admin, state, list(dict.fromkeys(names)))
    if rackless := count_rackless_members(groups, host_racks):
        stderr().print(
            f"{format_count(rackless, 'member')} of these groups without a rack: the figures count "
            "their partitions as not local; see --mapping.",
            style="yellow",
        )
    return [demand for group in groups for demand in demand_of_group(group, host_racks)]


def _with_weights(
    admin: AdminConnection,
    view: ClusterView,
    demands: Sequence[ConsumerDemand],
    weights: Weights,
) -> list[ConsumerDemand]:
    """Return the demands, each weighted with the mean of its partitions."""
    if weights is Weights.EQUAL or len(demands) < 2:
        return list(demands)
    topics = frozenset[str]().union(*(demand.topics for demand in demands))
    leaders = {tp: leader for tp, leader in view.known_leaders.items() if tp.topic in topics}
    read = _read_bytes if weights is Weights.BYTES else _read_records
    amounts = read(admin, leaders)
    weighted = []
    for demand in demands:
        of_demand = [amounts.get(tp, 0) for tp in leaders if tp.topic in demand.topics]
        mean = sum(of_demand) / len(of_demand) if of_demand else 0.0
        # The weight of an empty topic is small, but not 0.
        weighted.append(replace(demand, weight=max(mean, 1.0)))
    return weighted


def _read_bytes(
    admin: AdminConnection, leaders: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int]:
    sizes = read_replica_sizes(admin, sorted(set(leaders.values())), list(leaders))
    return {tp: sizes[tp, leader].bytes for tp, leader in leaders.items() if (tp, leader) in sizes}


def _read_records(
    admin: AdminConnection, leaders: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for broker in sorted(set(leaders.values())):
        led = [tp for tp, leader in leaders.items() if leader == broker]
        offsets.update(read_log_offsets(admin, broker, led, LATEST))
    return offsets
