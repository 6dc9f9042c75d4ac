"""``rackward leaders plan``: plan which replicas should be leaders, given the consumers' racks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from placement_core import ClusterView, InvalidOptionError, TopicPartition
from placement_core.leaders import (
    BytesAcross,
    ConsumerDemand,
    LeaderLayout,
    Obstacle,
    UnmetReads,
    WriterDemand,
    plan_leaders,
)
from rack_traffic.advice import command
from rack_traffic.writers import ALL_TOPICS, parse_writers, read_measured_writers
from rackward.cli import options
from rackward.cli.completion import complete_groups
from rackward.cli.live import step_reporter
from rackward.cli.options import ClusterOptions, LocatorOptions, TopicOptions
from rackward.cli.output import stderr
from rackward.cli.plan_output import ChangeResult, PlanFile, PlanOutput, format_now, write_plan
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import (
    AssignmentKind,
    Readers,
    check_readers,
    may_read_followers,
    parse_readers,
    rackless_members,
    read_leader_bytes,
    readers_of_groups,
    select_groups,
)
from rackward.kafka import AdminConnection, ClusterState, read_state
from rackward.kafka.metadata import by_topic, unauthorized_topics
from rackward.kafka.tolerant_reader import TolerantReader
from rackward.reassignment import BatchLimits, PlanKind
from rackward.reassignment.plan import build_plan
from rackward.reassignment.planner import check_not_reassigning, planning_view
from rackward.units import format_count, format_list

EPILOG = """
\b
Examples:
  rackward leaders plan billing 'team-a-*' -o leaders.json
  rackward leaders plan --topics orders --readers a=2,b=1 -o leaders.json
  rackward leaders plan billing --writers a=6,b=3,c=1 -o plan.json
  rackward leaders plan billing --writers-from tables -o plan.json

Groups of rackward's assignors follow when leaders move: their figures are those of a balanced,
leader-rack-aware assignment. All other groups keep their partitions: leaders go to the members that
own them. --assignment sets one of the two for all groups. For current assignments, only leaders
whose partition becomes local move, and no broker gets more than twice the mean of leaders
(--max-imbalance). With a pattern, such as 'team-a-*', groups without subscribed members are named
on stderr. See docs/leader-layouts.md.

Exit status: 0 success (also if there is nothing to change); 2 error (reason on stderr).
"""


class Partitioner(StrEnum):
    """How producers choose a partition."""

    STOCK = "stock"
    RACK_AWARE = "rack-aware"


class Weights(StrEnum):
    """Weights of groups relative to each other, per partition."""

    EQUAL = "equal"
    BYTES = "bytes"


class UnmetRow(msgspec.Struct, frozen=True):
    """Partitions of a group that are not local after the plan; ``rack`` is their members'."""

    group: str
    reason: Obstacle
    rack: str | None
    partitions: dict[str, list[int]]


class LayoutResult(msgspec.Struct, frozen=True):
    """The most partitions that a broker may lead (null: any), what is not local after the plan,
    and what is consumed and produced across racks, in the unit of --weights. A better layout could
    save ``gap`` of all that is read and written at most. Leaders on ``heaviest_broker`` serve so
    many times the mean."""

    leader_limit: int | None
    unmet: list[UnmetRow]
    consumed: tuple[BytesAcross, ...] = ()
    produced: tuple[BytesAcross, ...] = ()
    gap: float = 0.0
    heaviest_broker: float = 0.0


RESULTS = (PlanFile, ChangeResult, LayoutResult)

_MEASURED = "measured"
"""Name of the writers of topics whose racks flow records measured."""


def plan(
    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="GROUP",
            help="Consumer groups; * matches any characters.",
            autocompletion=complete_groups,
        ),
    ] = None,
    *,
    readers: Annotated[
        str | None,
        typer.Option(
            metavar="RACK=N,...",
            help="Instead of GROUP: the number of consumers of --topics in each rack.",
        ),
    ] = None,
    mapping: options.RackMapping = None,
    assignment: Annotated[
        AssignmentKind | None,
        typer.Option(
            help="The assignment of the groups after the change: current, the members keep their "
            "partitions; rackward, rackward's assignor follows the leaders. Default: what "
            "each group's assignor does."
        ),
    ] = None,
    max_imbalance: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            help="By what share of the mean a broker may lead more partitions than the mean, "
            "unless it does so already. Default: 1.0 with current assignments, else any.",
        ),
    ] = None,
    max_byte_imbalance: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            help="By what share of the mean the leaders on a broker may serve more bytes than the "
            "mean, read and written. Ranks before locality; needs --weights bytes. Default: any.",
        ),
    ] = None,
    weights: Annotated[
        Weights,
        typer.Option(
            help="Weights of groups that need different leaders: all equal, or by the bytes "
            "stored per partition that they read (of groups that follow, the "
            "mean)."
        ),
    ] = Weights.EQUAL,
    writers: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TOPIC:]RACK=SHARE,...",
            help="The shares of a topic's bytes that producers in each rack write, such as "
            "a=60,b=30,c=10; without TOPIC, of all other topics. May be repeated.",
        ),
    ] = None,
    writers_from: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder or URL of the tables of `rackward traffic run --flows`: writers are where "
            "flow records measured them. --writers TOPIC:... overrides, --writers without TOPIC is "
            "for topics that were not measured.",
        ),
    ] = None,
    writers_cluster: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The name of this cluster in the tables, if they have several."
        ),
    ] = None,
    partitioner: Annotated[
        Partitioner,
        typer.Option(
            help="How the writers choose partitions: stock, whatever the leaders; rack-aware, "
            "records without keys go to leaders in the producer's rack."
        ),
    ] = Partitioner.STOCK,
    topics: TopicOptions,
    levels: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Compare racks such as /dc1/room2 by their first N levels only.",
        ),
    ] = None,
    locators: LocatorOptions,
    written: PlanOutput,
    cluster: ClusterOptions,
) -> None:
    """Plan which replicas lead, so that consumers find leaders in their own racks.

    Only the order of replicas changes; no data is copied. Among the layouts with the best locality
    the plan has the one with the most even leaders per broker, then the fewest changes; with
    current assignments, the fewest changes come first. Leaders that gain nothing do not move.
    """
    if bool(groups) == (readers is not None):
        raise InvalidOptionError("give either GROUP or --readers")
    if readers is not None and topics.topics is None:
        raise InvalidOptionError("--readers needs --topics: give the topics that they read")
    if mapping is not None and not groups:
        raise InvalidOptionError("--mapping is for the members of groups: give GROUP")
    if assignment is not None and not groups:
        raise InvalidOptionError("--assignment is that of groups: give GROUP")
    if max_byte_imbalance is not None and weights is not Weights.BYTES:
        raise InvalidOptionError("--max-byte-imbalance needs --weights bytes")
    if writers_cluster is not None and writers_from is None:
        raise InvalidOptionError("--writers-cluster needs --writers-from")
    measured = {} if writers_from is None else _measured_writers(writers_from, writers_cluster)
    written.check()
    locator = locators.locator()
    host_racks = HostRacks.parse_option("--mapping", mapping)
    consumers = None if readers is None else parse_readers("--readers", readers)
    progress = step_reporter(stderr())
    with cluster.connect() as admin:
        progress("Reading topics")
        state = read_state(admin)
        chosen = topics.match(state.topics)
        names: list[str] = []
        if consumers is not None:
            found = Readers((ConsumerDemand("--readers", chosen, consumers),))
        else:
            progress("Reading groups")
            found, names = _read_readers(admin, state, groups or [], host_racks, assignment)
        read_topics = found.topics & chosen
        if not read_topics:
            raise InvalidOptionError(
                "the groups read none of the selected topics: change --topics or --exclude"
            )
        check_not_reassigning(read_topics, state)
        view = planning_view(state, locator)
        progress("Reading sizes of partitions")
        # Weights matter to a choice between readers, or between readers and writers.
        alone = not (writers or measured or found.assignments) and len(found.demands) < 2
        amounts: Mapping[TopicPartition, float] = {}
        if weights is Weights.BYTES and not (alone and max_byte_imbalance is None):
            amounts = read_leader_bytes(admin, view, found.topics)
            found = found.weighted(amounts)
        if max_imbalance is None:
            max_imbalance = found.max_imbalance
        progress("Planning")
        layout = plan_leaders(
            view,
            found.demands,
            assignments=found.assignments,
            writers=writer_demands(
                writers or [], partitioner, read_topics, view, amounts, measured
            ),
            topics=read_topics,
            levels=levels,
            max_imbalance=max_imbalance,
            max_byte_imbalance=max_byte_imbalance,
            only_gains=True,
        )
    built = build_plan(
        PlanKind.LEADERS,
        layout.moves,
        state,
        view,
        created_at=format_now(),
        options={
            "groups": names,
            "readers": {
                f"{demand.name} in {rack or '?'}": count
                for demand in found.demands
                for rack, count in demand.consumers.items()
            },
            "current_assignments": [each.name for each in found.assignments],
            "max_imbalance": max_imbalance,
            "max_byte_imbalance": max_byte_imbalance,
            "writers": list(writers or []),
            "measured_writers": [
                f"{topic}:{','.join(f'{rack}={part:.4g}' for rack, part in row.items())}"
                for topic, row in measured.items()
                if topic in read_topics
            ],
            "partitioner": partitioner.value,
            "weights": weights.value,
            "topics": topics.topics,
            "exclude": topics.exclude,
            "levels": levels,
            "proved_most_local": layout.locality_proved,
        },
        rack_source=locators.source(),
        sizes={},
        limits=BatchLimits(),
        localities=layout.localities,
    )
    write_plan(
        "leaders plan",
        built,
        view,
        written,
        notes=[*unmet_notes(layout, view), *across_notes(layout)],
        more=layout_result(layout),
    )
    if not layout.locality_proved:
        stderr().print(
            "Some groups share only part of their topics, or brokers lead as many partitions as "
            "--max-imbalance permits, or --max-byte-imbalance moves leaders: the plan may not have "
            "the best locality."
        )


def _read_readers(
    admin: AdminConnection,
    state: ClusterState,
    patterns: Sequence[str],
    host_racks: HostRacks,
    assignment: AssignmentKind | None,
) -> tuple[Readers, list[str]]:
    """Return the readers and the names of their groups, without those that brokers do not tell the
    readers of, unless they are named."""
    brokers = state.view.racks()
    groups, refused = select_groups(admin, brokers, patterns, check_readers)
    for reason in refused.values():
        stderr().print(f"Not planned: {reason}", style="yellow")
    if rackless := sum(len(rackless_members(group, host_racks)) for group in groups):
        stderr().print(
            f"{format_count(rackless, 'member')} of these groups without a rack: the figures count "
            "their partitions as not local; see --mapping.",
            style="yellow",
        )
    selectors = TolerantReader(admin).replica_selectors(sorted(state.view.racks()))
    following = [each.id for each in groups if may_read_followers(each, selectors)]
    if following:
        stderr().print(
            f"Brokers have a replica selector: members of {format_list(following)} that fetch with "
            "a rack read from in-sync replicas in it, wherever leaders are.",
            style="yellow",
        )
    readers = readers_of_groups(groups, host_racks, assignment)
    if hidden := unauthorized_topics(admin, readers.topics - state.topic_ids.keys()):
        topics = format_count(len(hidden), "topic")
        stderr().print(
            f"Not planned: {topics} of these groups that this user may not describe "
            f"({format_list(hidden)}): grant this user Describe on them",
            style="yellow",
        )
    return readers, [group.id for group in groups]


def writer_demands(
    values: Sequence[str],
    partitioner: Partitioner,
    topics: Collection[str],
    view: ClusterView,
    amounts: Mapping[TopicPartition, float],
    measured: Mapping[str, Mapping[str, float]],
) -> list[WriterDemand]:
    """Return the writers of --writers, and those of other topics that were ``measured``.

    ``amounts`` is the weight of a partition, 1 by default. Raises InvalidOptionError.
    """
    shares = parse_writers(values).shares
    if len(shares) < len(values):
        raise InvalidOptionError("--writers: a topic has two: give one")
    if unknown := sorted(shares.keys() - {ALL_TOPICS, *topics}):
        raise InvalidOptionError(f"--writers: the plan has no topic {', '.join(unknown)}")
    written: dict[str, dict[str | TopicPartition, dict[str | None, float]]] = {
        "--writers": {},
        _MEASURED: {},
    }
    for topic in sorted(topics):
        is_measured = topic in measured and topic not in shares
        row = measured[topic] if is_measured else shares.get(topic, shares.get(ALL_TOPICS, {}))
        total = sum(amounts.get(tp, 1.0) for tp in view.replicas if tp.topic == topic)
        if row:
            of_topic: dict[str | None, float] = {rack: total * part for rack, part in row.items()}
            written[_MEASURED if is_measured else "--writers"][topic] = of_topic
    aware = partitioner is Partitioner.RACK_AWARE
    return [WriterDemand(name, each, rack_aware=aware) for name, each in written.items() if each]


def _measured_writers(folder: str, cluster: str | None) -> Mapping[str, Mapping[str, float]]:
    """Return topic to the measured shares of racks, and say how much was measured."""
    found = read_measured_writers(folder, cluster)
    stderr().print(
        f"Racks of producers: measured in {format_count(found.hours, 'hour')} for "
        f"{found.coverage:.1%} of what was written to {format_count(len(found.shares), 'topic')}."
    )
    return found.shares


# What is not local after the plan.


def across_notes(layout: LeaderLayout) -> Iterator[str]:
    """Yield what producers write across racks, and the gap, if there is any."""
    for each in layout.produced:
        now, planned = (share / (each.total or 1.0) for share in (each.before, each.after))
        source = " (racks measured)" if each.name == _MEASURED else ""
        yield f"Produced across racks{source}: {now:.1%} now, {planned:.1%} planned."
    if layout.gap:
        yield f"A better layout saves at most {layout.gap:.2%} of what is read and written."


def unmet_notes(layout: LeaderLayout, view: ClusterView) -> Iterator[str]:
    """Yield a sentence for each reason of each group."""
    counts: Counter[tuple[str, str]] = Counter()
    for unmet in layout.unmet:
        counts[unmet.name, _reason(unmet, layout, view)] += len(unmet.partitions)
    for (name, reason), count in counts.items():
        yield f"{name}: {format_count(count, 'partition')} not local: {reason}."


def _reason(unmet: UnmetReads, layout: LeaderLayout, view: ClusterView) -> str:
    rack = unmet.rack or ""
    match unmet.obstacle:
        case Obstacle.UNREAD:
            return "no member owns them"
        case Obstacle.RACKLESS_MEMBER:
            return "the racks of their members are unknown; see --mapping"
        case Obstacle.NO_BROKER_IN_RACK:
            return f"their members are in rack {rack}, which has no brokers"
        case Obstacle.NO_REPLICA_IN_RACK:
            return (
                f"they have no replica in their members' rack {rack}; to add one: "
                f"{_placement_command(unmet, view)}"
            )
        case Obstacle.NOT_SELECTED:
            return "their topics are not selected; see --topics and --exclude"
        case Obstacle.LEADER_LIMIT:
            return (
                f"the brokers in rack {rack} lead as many partitions as --max-imbalance permits "
                f"({layout.leader_limit:,})"
            )
        case Obstacle.BYTE_LIMIT:
            return (
                f"the brokers in rack {rack} serve as many bytes as --max-byte-imbalance permits "
                f"(the heaviest {layout.heaviest_broker:.2f} times the mean)"
            )
        case Obstacle.OTHER_READERS:
            return "other groups read them in another rack"


def _placement_command(unmet: UnmetReads, view: ClusterView) -> str:
    """Return the command that gives the partitions a replica in each rack."""
    racks = len({rack for rack in view.racks().values() if rack is not None})
    topics = sorted({tp.topic for tp in unmet.partitions})
    factor = max(len(view.replicas[tp]) for tp in unmet.partitions)
    more = ("--replication-factor", str(racks)) if factor < racks else ()
    return command("placement", "plan", "--topics", ",".join(topics), *more)


def layout_result(layout: LeaderLayout) -> LayoutResult:
    """Return what the JSON of the command has of a layout."""
    return LayoutResult(
        layout.leader_limit,
        [
            UnmetRow(unmet.name, unmet.obstacle, unmet.rack, by_topic(unmet.partitions))
            for unmet in layout.unmet
        ],
        layout.consumed,
        layout.produced,
        layout.gap,
        layout.heaviest_broker,
    )
