"""Plan the partitions that ``topics create`` and ``topics add-partitions`` create."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from placement_core import (
    ClusterView,
    InvalidOptionError,
    PlacementSpec,
    ReplicaLists,
    TopicPartition,
)
from placement_core.cluster import ClusterLoad, cluster_load, without_placeholders
from placement_core.locators import RackLocator, apply_locator
from placement_core.placers import (
    PlacementError,
    ReplicaPlacer,
    SimplePlacer,
    UnderReplicatedPlacer,
    place,
)
from placement_core.placers.under_replicated import ReplicationTarget
from rackward.kafka import ClusterState, check_topics
from rackward.kafka.topics import NewPartitions


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """How to place replicas.

    name
        The placer's name on the command line.
    fallback
        Places if ``placer`` defers.
    seed
        None if the placer takes none.
    like
        The topic whose layout new topics get; None for other placers than like-topic.
    brokers
        Candidates for replicas; None: all live brokers.
    """

    name: str
    placer: ReplicaPlacer
    fallback: SimplePlacer
    seed: int | None
    like: str | None
    locator: RackLocator
    ignore_racks: bool
    brokers: frozenset[int] | None


@dataclass(frozen=True, slots=True)
class TopicsPlan:
    """Partitions to create, and the cluster before and after, with the racks of the locator."""

    new: tuple[NewPartitions, ...]
    before: ClusterView
    after: ClusterView

    @property
    def load(self) -> ClusterLoad:
        """The load of brokers and racks before and after."""
        return cluster_load(self.before, self.after)


def plan_new_topics(
    state: ClusterState,
    names: Sequence[str],
    options: PlacementOptions,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    min_insync_replicas: int | None = None,
) -> TopicsPlan:
    """Return the plan of new topics.

    With ``min_insync_replicas``, missing brokers get placeholders. Raises RackwardError, which
    names the topic, if there is no such layout or a topic exists.
    """
    check_unique(names)
    check_absent(state, names)
    requests = [
        _Request(
            PlacementSpec(partitions, replication_factor, topic=name), configs, min_insync_replicas
        )
        for name in names
    ]
    return _place(state, options, requests)


def plan_additional_partitions(
    state: ClusterState,
    names: Sequence[str],
    options: PlacementOptions,
    partitions: int,
    min_insync_replicas: Mapping[str, int] | None = None,
    targets: Mapping[TopicPartition, ReplicationTarget] | None = None,
) -> TopicsPlan:
    """Return the plan that gives each topic ``partitions`` partitions in all.

    New partitions get the replication factor of the topic, or that of ``targets`` if it is under-
    replicated. With ``min_insync_replicas`` (per topic), missing brokers get placeholders. Raises
    RackwardError, which names the topic, if there is no such layout.
    """
    check_unique(names)
    check_topics(state, names)
    target_factors: dict[str, int] = {}
    for tp, target in (targets or {}).items():
        target_factors[tp.topic] = max(target.replication_factor, target_factors.get(tp.topic, 0))
    requests = []
    for name in names:
        count = partition_count(state, name)
        if count >= partitions:
            raise InvalidOptionError(
                f"{name} already has {count} partitions: give a total of more than {count} with "
                "--partitions; Kafka cannot remove partitions"
            )
        length = len(state.view.replicas[TopicPartition(name, 0)])
        factor = max(length, target_factors.get(name, 0))
        if min_insync_replicas is None and factor > length:
            raise PlacementError(
                f"{name} has {length} replicas, and {factor} once rackward controller has added "
                "the missing ones: wait for that, or give --allow-under-replicated"
            )
        requests.append(
            _Request(
                PlacementSpec(partitions - count, factor, topic=name, first_partition=count),
                {},
                None if min_insync_replicas is None else min_insync_replicas.get(name, 1),
                length,
            )
        )
    return _place(state, options, requests)


def topic_shape(state: ClusterState, topic: str) -> tuple[int, int]:
    """Return the partition count and the replication factor of a topic."""
    check_topics(state, [topic])
    return partition_count(state, topic), len(state.view.replicas[TopicPartition(topic, 0)])


def partition_count(state: ClusterState, topic: str) -> int:
    """Return the number of partitions of a topic."""
    return sum(tp.topic == topic for tp in state.view.replicas)


def check_absent(state: ClusterState, names: Sequence[str]) -> None:
    """Raise InvalidOptionError if one of the topics exists."""
    for name in names:
        if name in state.topic_ids:
            raise InvalidOptionError(
                f"topic {name} already exists, with {partition_count(state, name)} partitions: "
                "choose another name, or use rackward topics add-partitions"
            )


def check_unique(names: Sequence[str]) -> None:
    """Raise InvalidOptionError if a name is repeated."""
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidOptionError(f"topic {repeated[0]} is repeated: give it once")


@dataclass(frozen=True, slots=True)
class _Request:
    """Partitions to place.

    ``min_insync_replicas`` is None without placeholders. ``length`` is that of the replica lists
    of an existing topic; Kafka requires the same length of new ones.
    """

    spec: PlacementSpec
    configs: Mapping[str, str]
    min_insync_replicas: int | None = None
    length: int | None = None


def _place(
    state: ClusterState, options: PlacementOptions, requests: Sequence[_Request]
) -> TopicsPlan:
    """Place each topic in turn, in a view that contains those before it."""
    view = state.view
    planned = []
    for request in requests:
        spec, placer = request.spec, options.placer
        if request.min_insync_replicas is not None:
            placer = UnderReplicatedPlacer(placer, request.min_insync_replicas)
        if not options.ignore_racks:
            # Once per topic: locators are evaluated for each creation.
            view = apply_locator(options.locator, view)
        try:
            rows = place(
                replace(spec, ignore_racks=options.ignore_racks),
                view,
                placer,
                options.brokers,
                fallback=options.fallback,
            )
            new = NewPartitions(
                str(spec.topic),
                rows,
                spec.first_partition,
                request.configs,
                _requested_rows(rows, request.length, [broker.id for broker in state.fenced]),
            )
        except PlacementError as error:
            raise PlacementError(f"topic {spec.topic}: {error}") from error
        view = replace(view, replicas={**view.replicas, **new.layout})
        planned.append(new)
    before = replace(view, replicas=state.view.replicas)
    return TopicsPlan(tuple(planned), before, view)


def _requested_rows(
    rows: ReplicaLists, length: int | None, down: Collection[int]
) -> ReplicaLists | None:
    """Return the replica lists to request from the cluster if they are not ``rows`` themselves.

    For a new topic: without placeholders. For an existing one: of the given length, with brokers
    that are ``down`` instead of placeholders.
    """
    requested = tuple(
        without_placeholders(row)
        if length is None
        else _with_length(without_placeholders(row), length, down)
        for row in rows
    )
    return None if requested == rows else requested


def _with_length(row: tuple[int, ...], length: int, down: Collection[int]) -> tuple[int, ...]:
    filled = (*row, *(broker for broker in sorted(down) if broker not in row))[:length]
    if len(filled) < length:
        raise PlacementError(
            f"its replica lists have {length} replicas, and Kafka accepts no shorter ones for new "
            f"partitions: {len(row)} brokers are live and {len(down)} are known to be down; "
            "start a broker first"
        )
    return filled
