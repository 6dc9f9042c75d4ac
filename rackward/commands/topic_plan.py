"""What ``topics create`` and ``topics add-partitions`` would make: pure, but for the locator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from placement_core import ClusterView, InvalidOptionError, PlacementSpec, TopicPartition
from placement_core.locators import locate
from placement_core.placers import PlacementError, place
from rackward.admin import ClusterState, check_topics
from rackward.admin.topics import NewPartitions
from rackward.commands.placing_options import Placing
from rackward.commands.totals import Totals, totals


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
) -> TopicsPlan:
    """The topics of these names. Raises RackwardError where that cannot be, naming the topic."""
    check_distinct(names)
    check_absent(state, names)
    shapes = [
        (PlacementSpec(partitions, replication_factor, topic=name), configs) for name in names
    ]
    return _planned(state, placing, shapes)


def plan_more(
    state: ClusterState, names: Sequence[str], placing: Placing, partitions: int
) -> TopicsPlan:
    """As many more partitions of these topics as make ``partitions`` of each.

    They get the replication factor that the topic has. Raises RackwardError where that cannot
    be, naming the topic.
    """
    check_distinct(names)
    check_topics(state, names)
    shapes: list[tuple[PlacementSpec, Mapping[str, str]]] = []
    for name in names:
        count = partition_count(state, name)
        if count >= partitions:
            raise InvalidOptionError(
                f"{name} has {count} partitions already: ask for more than {count} in all "
                "(--partitions); Kafka cannot take partitions away"
            )
        replicas = len(state.view.replicas[TopicPartition(name, 0)])
        spec = PlacementSpec(partitions - count, replicas, topic=name, first_partition=count)
        shapes.append((spec, {}))
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


def _planned(
    state: ClusterState,
    placing: Placing,
    shapes: Sequence[tuple[PlacementSpec, Mapping[str, str]]],
) -> TopicsPlan:
    """Each topic placed in turn, in a cluster that has those before it."""
    view = state.view
    wanted = []
    for spec, configs in shapes:
        if not placing.ignore_racks:
            # For each anew: racks may be somebody else's to change.
            view = locate(placing.locator, view)
        asked = replace(spec, ignore_racks=placing.ignore_racks)
        try:
            rows = place(asked, view, placing.placer, placing.brokers, fallback=placing.fallback)
        except PlacementError as error:
            raise PlacementError(f"topic {spec.topic}: {error}") from error
        made = NewPartitions(str(spec.topic), rows, spec.first_partition, configs)
        view = replace(view, replicas={**view.replicas, **made.layout})
        wanted.append(made)
    before = replace(view, replicas=state.view.replicas)
    return TopicsPlan(tuple(wanted), before, view)
