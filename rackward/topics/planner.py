"""What ``topics create`` and ``topics add-partitions`` would make: pure, but for the locator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from placement_core import (
    ClusterView,
    InvalidOptionError,
    PlacementSpec,
    ReplicaLists,
    TopicPartition,
)
from placement_core.cluster import without_placeholders
from placement_core.locators import locate
from placement_core.placers import PlacementError, UnderReplicatedPlacer, place
from placement_core.under_replication import Wanted
from rackward.admin import ClusterState, check_topics
from rackward.admin.topics import NewPartitions
from rackward.cli.options import Placing

# ---- What brokers and racks carry before and after a change.


@dataclass(frozen=True, slots=True)
class Load:
    """Leaders (partitions whose first replica is there) and replicas, before and after."""

    leaders_before: int = 0
    leaders_after: int = 0
    replicas_before: int = 0
    replicas_after: int = 0

    def __add__(self, other: Load) -> Load:
        return Load(
            self.leaders_before + other.leaders_before,
            self.leaders_after + other.leaders_after,
            self.replicas_before + other.replicas_before,
            self.replicas_after + other.replicas_after,
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """``brokers``: id to rack and load, gone ones that still hold replicas among them;
    ``racks``: rack to load (None: brokers without one)."""

    brokers: Mapping[int, tuple[str | None, Load]]
    racks: Mapping[str | None, Load]


def totals(before: ClusterView, after: ClusterView) -> Totals:
    """The loads by two views of one cluster; the racks are those of ``after``."""
    racks = {**before.racks(), **after.racks()}
    leads_before, holds_before = _counts(before.replicas)
    leads_after, holds_after = _counts(after.replicas)
    brokers = {
        broker: (
            racks.get(broker),
            Load(
                leads_before[broker], leads_after[broker], holds_before[broker], holds_after[broker]
            ),
        )
        for broker in sorted({*racks, *holds_before, *holds_after})
    }
    per_rack: dict[str | None, Load] = {}
    for rack, load in sorted(brokers.values(), key=lambda each: (each[0] is None, each[0] or "")):
        per_rack[rack] = per_rack.get(rack, Load()) + load
    return Totals(brokers, per_rack)


def _counts(
    replicas: Mapping[TopicPartition, tuple[int, ...]],
) -> tuple[Counter[int], Counter[int]]:
    leads, holds = Counter[int](), Counter[int]()
    for row in replicas.values():
        leads[row[0]] += 1
        holds.update(row)
    return leads, holds


@dataclass(frozen=True, slots=True)
class TopicsPlan:
    """The partitions to make, and the cluster before and after, with the racks that were asked
    for."""

    wanted: tuple[NewPartitions, ...]
    before: ClusterView
    after: ClusterView

    @property
    def totals(self) -> Totals:
        """What brokers and racks carry before and after."""
        return totals(self.before, self.after)


def plan_new(
    state: ClusterState,
    names: Sequence[str],
    placing: Placing,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    min_insync_replicas: int | None = None,
) -> TopicsPlan:
    """The topics of these names. ``min_insync_replicas``, where given, allows placeholders for
    missing brokers. Raises RackwardError where that cannot be, naming the topic."""
    check_distinct(names)
    check_absent(state, names)
    shapes = [
        _Shape(
            PlacementSpec(partitions, replication_factor, topic=name), configs, min_insync_replicas
        )
        for name in names
    ]
    return _planned(state, placing, shapes)


def plan_more(
    state: ClusterState,
    names: Sequence[str],
    placing: Placing,
    partitions: int,
    least: Mapping[str, int] | None = None,
    wanted: Mapping[TopicPartition, Wanted] | None = None,
) -> TopicsPlan:
    """As many more partitions of these topics as make ``partitions`` of each.

    They get the replication factor that the topic has, or shall have by ``wanted``. ``least``,
    where given, is min.insync.replicas per topic, and allows placeholders for missing brokers.
    Raises RackwardError where that cannot be, naming the topic.
    """
    check_distinct(names)
    check_topics(state, names)
    shapes = []
    promised: dict[str, int] = {}
    for where, want in (wanted or {}).items():
        promised[where.topic] = max(want.replication_factor, promised.get(where.topic, 0))
    for name in names:
        count = partition_count(state, name)
        if count >= partitions:
            raise InvalidOptionError(
                f"{name} has {count} partitions already: ask for more than {count} in all "
                "(--partitions); Kafka cannot take partitions away"
            )
        length = len(state.view.replicas[TopicPartition(name, 0)])
        replicas = max(length, promised.get(name, 0))
        if least is None and replicas > length:
            raise PlacementError(
                f"{name} has {length} replicas for now and shall have {replicas}: wait until "
                "rackward controller has added them, or give --allow-under-replicated"
            )
        spec = PlacementSpec(partitions - count, replicas, topic=name, first_partition=count)
        shapes.append(_Shape(spec, {}, None if least is None else least.get(name, 1), length))
    return _planned(state, placing, shapes)


def shape_of(state: ClusterState, topic: str) -> tuple[int, int]:
    """The partitions and the replication factor of a topic, to make others like it."""
    check_topics(state, [topic])
    return partition_count(state, topic), len(state.view.replicas[TopicPartition(topic, 0)])


def check_absent(state: ClusterState, names: Sequence[str]) -> None:
    """Raise InvalidOptionError where one of the topics exists."""
    for name in names:
        if name in state.topic_ids:
            raise InvalidOptionError(
                f"topic {name} exists already, with {partition_count(state, name)} partitions: "
                "choose another name, or use rackward topics add-partitions"
            )


def check_distinct(names: Sequence[str]) -> None:
    """Raise InvalidOptionError where a name is there twice."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidOptionError(f"the topic {twice[0]} is named twice: name it once")


def partition_count(state: ClusterState, topic: str) -> int:
    """How many partitions a topic has."""
    return sum(place.topic == topic for place in state.view.replicas)


@dataclass(frozen=True, slots=True)
class _Shape:
    """``min_insync_replicas`` None: without placeholders. ``length``: of the lists that an old
    topic has, which the cluster asks of new ones too."""

    spec: PlacementSpec
    configs: Mapping[str, str]
    min_insync_replicas: int | None = None
    length: int | None = None


def _planned(state: ClusterState, placing: Placing, shapes: Sequence[_Shape]) -> TopicsPlan:
    """Each topic placed in turn, in a cluster that has those before it."""
    view = state.view
    wanted = []
    for shape in shapes:
        spec, placer = shape.spec, placing.placer
        if shape.min_insync_replicas is not None:
            placer = UnderReplicatedPlacer(placer, shape.min_insync_replicas)
        if not placing.ignore_racks:
            # For each anew: racks may be somebody else's to change.
            view = locate(placing.locator, view)
        asked = replace(spec, ignore_racks=placing.ignore_racks)
        try:
            rows = place(asked, view, placer, placing.brokers, fallback=placing.fallback)
            made = NewPartitions(
                str(spec.topic),
                rows,
                spec.first_partition,
                shape.configs,
                _lists_for(rows, shape.length, [broker.id for broker in state.fenced]),
            )
        except PlacementError as error:
            raise PlacementError(f"topic {spec.topic}: {error}") from error
        view = replace(view, replicas={**view.replicas, **made.layout})
        wanted.append(made)
    before = replace(view, replicas=state.view.replicas)
    return TopicsPlan(tuple(wanted), before, view)


def _lists_for(
    rows: ReplicaLists, length: int | None, down: Collection[int]
) -> ReplicaLists | None:
    """The lists to ask the cluster for, where these are not ``rows`` themselves.

    Of a new topic: without placeholders. Of an old one: as long as those that it has, which is
    all that Kafka takes. Brokers that are down stand in for missing ones then.
    """
    made = tuple(
        without_placeholders(row)
        if length is None
        else _as_long_as(without_placeholders(row), length, down)
        for row in rows
    )
    return None if made == rows else made


def _as_long_as(row: tuple[int, ...], length: int, down: Collection[int]) -> tuple[int, ...]:
    found = (*row, *(broker for broker in sorted(down) if broker not in row))[:length]
    if len(found) < length:
        raise PlacementError(
            f"its lists have {length} replicas, and Kafka takes no shorter ones for new "
            f"partitions: {len(row)} brokers are live and {len(down)} are known to be down; "
            "start a broker first"
        )
    return found
