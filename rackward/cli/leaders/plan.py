"""``rackward leaders plan``: which replica should lead, given where the consumers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from placement_core import ClusterView, InvalidOptionError, TopicPartition
from placement_core.leaders import Readers, plan_leaders
from rackward.admin import AdminConnection, ClusterState, read_sizes, read_state
from rackward.admin.offsets import LATEST, read_log_offsets
from rackward.cli import options
from rackward.cli import options as selection
from rackward.cli.connect import open_cluster
from rackward.cli.console import stderr
from rackward.cli.options import read_placing
from rackward.cli.placement.plan import now_text, racks_from
from rackward.cli.render.plan import (
    PLAN_JSON,
    EveryPartition,
    Format,
    Output,
    PlanFormat,
    check_output,
    deliver,
)
from rackward.group_readers import (
    RackOf,
    racks_of_members,
    read_groups,
    readers_by_hand,
    readers_of,
    without_rack,
)
from rackward.reassignment import Pace, PlanKind
from rackward.reassignment.plan import make_plan
from rackward.reassignment.planner import PlacementRequest, check_request, view_for
from rackward.units import count_text

EPILOG = f"""
Racks of consumers are what they say (client.rack, or an assignor of rackward's); --mapping tells
those of others. Figures are for balanced, leader-rack-aware assignments, each partition counted
once. For topics whose partitions a range assignor joins (partition i of all of them to one
member), they are what can be had at best.

Exit status: 0 done (also where nothing is to be changed); 2 where it cannot be planned, with the
reason in one line.

\b
{PLAN_JSON}
"""


class Weights(StrEnum):
    """What one set of readers counts for beside another, per partition."""

    EQUAL = "equal"
    BYTES = "bytes"
    RECORDS = "records"


def plan(
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group", "-g", metavar="GROUP", help="A consumer group; give it once for each."
        ),
    ] = None,
    readers: Annotated[
        str | None,
        typer.Option(
            "--readers",
            metavar="RACK=N,...",
            help="Instead of groups: so many consumers in each rack, of --topics.",
        ),
    ] = None,
    mapping: options.RackMapping = None,
    weights: Annotated[
        Weights,
        typer.Option(
            "--weights",
            help="What groups count for where they want different leaders: all alike, or by the "
            "bytes stored, or the records ever written, per partition that they read.",
        ),
    ] = Weights.EQUAL,
    topics: selection.Topics = None,
    exclude: selection.Exclude = None,
    levels: Annotated[
        int | None,
        typer.Option(
            "--levels",
            metavar="N",
            min=1,
            help="Racks such as /dc1/room2 that share so many levels count as one.",
        ),
    ] = None,
    rack_locator: options.RackLocatorName = None,
    rack_locator_properties: options.RackLocatorProperties = None,
    output: Output = None,
    format: Format = PlanFormat.RACKWARD,
    every_partition: EveryPartition = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Plan which replicas lead, so that consumers find leaders in their own racks.

    Only the order of replicas changes, and no data moves. As local as any order can be; leaders
    as even over brokers as that permits; the fewest changes.
    """
    _check_options(group, readers, mapping, topics)
    check_output(output, format, as_json)
    placing = read_placing(
        rack_locator=rack_locator, rack_locator_properties=rack_locator_properties
    )
    rack_of = racks_of_members("--mapping", mapping)
    with open_cluster(bootstrap_server, command_config, timeout) as admin:
        state = read_state(admin)
        chosen = selection.select(state.topics, topics, exclude)
        sets = (
            [readers_by_hand("--readers", readers, chosen)]
            if readers is not None
            else _from_groups(admin, state, group or [], rack_of)
        )
        read = frozenset().union(*(each.topics for each in sets)) & chosen
        if not read:
            raise InvalidOptionError("the readers read none of these topics: choose others")
        check_request(PlacementRequest(topics=read), state, leaders_only=True)
        view = view_for(state, placing.locator)
        sets = _weighted(admin, view, sets, weights)
    layout = plan_leaders(view, sets, topics=read, levels=levels)
    made = make_plan(
        PlanKind.LEADERS,
        layout.moves,
        state,
        view,
        made=now_text(),
        asked={
            "groups": list(group or []),
            "readers": {
                f"{each.name} in {rack or '?'}": count
                for each in sets
                for rack, count in each.consumers.items()
            },
            "weights": weights.value,
            "topics": topics,
            "exclude": exclude,
            "levels": levels,
            "proved_most_local": layout.most_local,
        },
        racks_from=racks_from(False, rack_locator),
        sizes={},
        pace=Pace(),
        localities=layout.localities,
    )
    deliver("leaders plan", made, view, output, format, every=every_partition, as_json=as_json)
    if not layout.most_local:
        stderr().print("Groups share topics in part: it is not proved that this is most local.")


def _from_groups(
    admin: AdminConnection, state: ClusterState, names: Sequence[str], rack_of: RackOf
) -> list[Readers]:
    groups = read_groups(admin, state, list(dict.fromkeys(names)))
    if lost := without_rack(groups, rack_of):
        stderr().print(
            f"{count_text(lost, 'member')} of these groups {'does' if lost == 1 else 'do'} not say "
            "their rack, and read nothing locally in these figures: see --mapping.",
            style="yellow",
        )
    return [each for group in groups for each in readers_of(group, rack_of)]


def _weighted(
    admin: AdminConnection, view: ClusterView, sets: Sequence[Readers], weights: Weights
) -> list[Readers]:
    """The readers, each with the mean of what its partitions hold."""
    if weights is Weights.EQUAL or len(sets) < 2:
        return list(sets)
    topics = frozenset().union(*(each.topics for each in sets))
    places = [place for place in view.leaders if place.topic in topics]
    held = _held(admin, view, places, weights)
    weighted = []
    for each in sets:
        found = [held.get(place, 0) for place in places if place.topic in each.topics]
        # An empty topic counts for little, and not for nothing.
        mean = sum(found) / len(found) if found else 0.0
        weighted.append(replace(each, weight=max(mean, 1.0)))
    return weighted


def _held(
    admin: AdminConnection, view: ClusterView, places: Sequence[TopicPartition], weights: Weights
) -> Mapping[TopicPartition, int]:
    if weights is Weights.BYTES:
        leaders = sorted({view.leaders[place] for place in places})
        sizes = read_sizes(admin, leaders, places)
        return {
            place: sizes[place, view.leaders[place]].bytes
            for place in places
            if (place, view.leaders[place]) in sizes
        }
    found: dict[TopicPartition, int] = {}
    for leader in sorted({view.leaders[place] for place in places}):
        mine = [place for place in places if view.leaders[place] == leader]
        found.update(read_log_offsets(admin, leader, mine, LATEST))
    return found


def _check_options(
    group: Sequence[str] | None, readers: str | None, mapping: str | None, topics: str | None
) -> None:
    if bool(group) == (readers is not None):
        raise InvalidOptionError("say who reads: give --group (once for each), or --readers")
    if readers is not None and topics is None:
        raise InvalidOptionError("--readers without --topics: say what they read")
    if mapping is not None and not group:
        raise InvalidOptionError("--mapping is for the members of groups: give --group")
