"""UnderReplicatedPlacer: topics on fewer brokers than replicas (KIP-409)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import (
    Broker,
    ClusterView,
    InvalidOptionError,
    PlacementSpec,
    ReplicaLists,
    TopicPartition,
)
from placement_core.cluster import placeholders, with_placeholders, without_placeholders
from placement_core.placers import (
    LikeTopicPlacer,
    MultiLevelPlacer,
    PlacementError,
    PlacerError,
    RackAlternatingPlacer,
    ReplicaPlacer,
    SimplePlacer,
    UnderReplicatedPlacer,
    place,
)
from tests.support.placement import (
    FixedPlacer,
    check_form,
    check_present_first,
    check_racks,
    cluster,
)

PLACERS: list[ReplicaPlacer] = [
    SimplePlacer(seed=3),
    RackAlternatingPlacer(seed=3),
    MultiLevelPlacer(seed=3),
]


def test_the_example_of_kip_409() -> None:
    alone = cluster({1: "a"})
    assert place(PlacementSpec(2, 3), alone, UnderReplicatedPlacer()) == ((1, -1, -2), (1, -1, -2))


def test_one_of_three_racks_is_down() -> None:
    placed = place(
        PlacementSpec(4, 3),
        cluster({0: "a", 1: "b"}),
        UnderReplicatedPlacer(RackAlternatingPlacer(start_index=0), min_insync_replicas=2),
    )
    assert placed == ((0, 1, -1), (1, 0, -1), (0, 1, -1), (1, 0, -1))


@pytest.mark.parametrize("min_insync", [2, 3, 9])
def test_fewer_brokers_than_min_insync_replicas_are_refused(min_insync: int) -> None:
    needed = min(min_insync, 3)
    with pytest.raises(PlacementError, match=f"{needed} in-sync replicas are needed") as error:
        place(
            PlacementSpec(1, 3),
            cluster({4: "a"}),
            UnderReplicatedPlacer(min_insync_replicas=min_insync),
        )
    assert f"min.insync.replicas {min_insync}" in str(error.value)
    assert "there are 1 live brokers (broker 4)" in str(error.value)


def test_min_insync_replicas_is_capped_at_the_replication_factor() -> None:
    placer = UnderReplicatedPlacer(SimplePlacer(start_index=0), min_insync_replicas=3)
    assert place(PlacementSpec(1, 1), cluster("a"), placer) == ((0,),)
    with pytest.raises(PlacementError, match="2 in-sync replicas"):
        place(PlacementSpec(1, 2), cluster("a"), placer)


def test_a_cluster_without_live_brokers_is_refused() -> None:
    with pytest.raises(PlacementError, match=r"there are 0 live brokers \(none\)"):
        place(PlacementSpec(1, 3), cluster({}), UnderReplicatedPlacer())


def test_only_the_requested_brokers_count() -> None:
    view = cluster("aabbcc")
    placed = place(PlacementSpec(3, 3), view, UnderReplicatedPlacer(), broker_ids=[4, 5])
    assert all(set(row) == {4, 5, -1} and row[-1] == -1 for row in placed)
    # Partition 0 can have three replicas: it has one on another broker.
    spec = PlacementSpec(2, 3, present=((1,),))
    first, second = place(spec, view, UnderReplicatedPlacer(), broker_ids=[4, 5])
    assert (first[0], set(first)) == (1, {1, 4, 5})
    assert set(second) == {4, 5, -1}
    with pytest.raises(PlacementError, match="broker 9 requested"):
        place(PlacementSpec(1, 3), view, UnderReplicatedPlacer(), broker_ids=[9])


def test_too_few_brokers_are_an_error_without_the_placer() -> None:
    with pytest.raises(PlacementError, match="replication factor 3 on 2 brokers"):
        place(PlacementSpec(1, 3), cluster("ab"))


@pytest.mark.parametrize("placer", PLACERS, ids=lambda each: type(each).__name__)
@given(
    racks=st.dictionaries(st.integers(0, 20), st.sampled_from("abc"), min_size=1, max_size=7),
    partitions=st.integers(1, 12),
    replicas=st.integers(1, 9),
    min_insync=st.integers(1, 9),
)
def test_one_placeholder_per_missing_broker(
    placer: ReplicaPlacer, racks: dict[int, str], partitions: int, replicas: int, min_insync: int
) -> None:
    view, spec = cluster(dict(racks)), PlacementSpec(partitions, replicas, topic="t")
    wrapped = UnderReplicatedPlacer(placer, min_insync)
    if len(racks) < min(min_insync, replicas):
        with pytest.raises(PlacementError, match="needed to write"):
            place(spec, view, wrapped)
        return
    placed = place(spec, view, wrapped)
    on_live = tuple(map(without_placeholders, placed))
    live_count = min(replicas, len(racks))
    check_form(on_live, partitions, live_count, racks)
    assert all(row[live_count:] == placeholders(replicas - live_count) for row in placed)
    if not isinstance(placer, SimplePlacer):
        check_racks(on_live, racks)
    if live_count == replicas:
        assert placed == place(spec, view, placer)


def test_partitions_with_replicas_on_dead_brokers_keep_them() -> None:
    """Broker 2 is down: a partition with a replica there has one placeholder less."""
    view = cluster({0: "a", 1: "b"}, t=((0, 2), (0,)))
    spec = PlacementSpec(3, 4, topic="t", present=((0, 2), (0,)))
    placed = place(spec, view, UnderReplicatedPlacer(SimplePlacer(seed=1)))
    assert placed[0] == (0, 2, 1, -1)
    assert placed[1] == (0, 1, -1, -2)
    assert set(placed[2]) == {0, 1, -1, -2}


@pytest.mark.parametrize("topic", [None, "t"])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("placer", [SimplePlacer, RackAlternatingPlacer, MultiLevelPlacer])
@pytest.mark.parametrize(
    "present",
    [
        ((0, 9),),
        ((0, 9), (), (0,), (1, 9)),
        ((), (), (1, 9), (0,)),
    ],
)
def test_leaders_are_even_if_replica_counts_differ(
    placer: type[SimplePlacer | RackAlternatingPlacer | MultiLevelPlacer],
    present: ReplicaLists,
    seed: int,
    topic: str | None,
) -> None:
    """Broker 9 is down: a partition with a replica there reaches one more than the others."""
    view = cluster("ab")
    spec = PlacementSpec(12, 4, topic=topic, present=present)
    placed = place(spec, view, UnderReplicatedPlacer(placer(seed=seed)))
    assert Counter(row[0] for row in placed) == {0: 6, 1: 6}
    check_present_first(placed, present)


class TopicRecorder:
    """Places on any brokers, and keeps the topics that it was called for."""

    def __init__(self) -> None:
        self.topics: list[str | None] = []

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists | None:
        self.topics.append(spec.topic)
        return SimplePlacer(seed=3).place(spec, view, broker_ids)


@pytest.mark.parametrize(("topic", "expected"), [("orders", "orders"), (None, "")])
def test_the_wrapped_placer_gets_the_topic_of_every_run(topic: str | None, expected: str) -> None:
    """Partition 0 has a replica on broker 9, which is down, and reaches one more than 1."""
    placer = TopicRecorder()
    spec = PlacementSpec(2, 3, topic=topic, present=((9,), ()))
    placed = UnderReplicatedPlacer(placer).place(spec, cluster({0: "a", 1: "b"}))
    assert placer.topics == [expected, expected]
    assert placed is not None
    assert sorted(placed[0]) == [0, 1, 9]
    assert sorted(placed[1]) == [-1, 0, 1]


def test_a_placer_that_defers_for_some_partitions_defers_for_all() -> None:
    spec = PlacementSpec(2, 3, present=((9,), ()))
    placer = UnderReplicatedPlacer(FixedPlacer(None))
    assert placer.place(spec, cluster({0: "a", 1: "b"})) is None


def test_added_partitions_continue_the_rotation() -> None:
    placer = UnderReplicatedPlacer(RackAlternatingPlacer())
    view = cluster("ab", t=((1, 0, -1), (0, 1, -1), (1, 0, -1)))
    assert place(PlacementSpec(2, 3, topic="t", first_partition=3), view, placer) == (
        (0, 1, -1),
        (1, 0, -1),
    )


def test_the_fallback_of_a_deferring_placer_may_lack_replicas() -> None:
    simple = SimplePlacer(start_index=0)
    wrapped = UnderReplicatedPlacer(FixedPlacer(None))
    assert place(PlacementSpec(2, 3), cluster("ab"), wrapped, fallback=simple) == (
        (0, 1, -1),
        (1, 0, -1),
    )


def test_errors_name_the_wrapped_placer() -> None:
    with pytest.raises(PlacerError, match="placer like-topic: there is no topic 'x'"):
        place(PlacementSpec(1, 3), cluster("ab"), UnderReplicatedPlacer(LikeTopicPlacer("x")))
    with pytest.raises(PlacerError, match="which does not end in"):
        place(PlacementSpec(1, 3), cluster("ab"), UnderReplicatedPlacer(FixedPlacer(((0, 1, 5),))))


@pytest.mark.parametrize("min_insync", [0, -1, True, 1.0, "2"])
def test_invalid_min_insync_replicas_are_rejected(min_insync: object) -> None:
    with pytest.raises(InvalidOptionError, match=r"^min_insync_replicas is "):
        UnderReplicatedPlacer(min_insync_replicas=min_insync)  # type: ignore[arg-type]


def test_a_wrapped_placer_cannot_be_wrapped_again() -> None:
    with pytest.raises(InvalidOptionError, match="wrap it once"):
        UnderReplicatedPlacer(UnderReplicatedPlacer())


def test_placeholders_are_counted_from_minus_one() -> None:
    assert placeholders(0) == ()
    assert with_placeholders((7, -1, 3), 5) == (7, 3, -1, -2, -3)
    assert with_placeholders((7, 3), 1) == (7, 3)


def test_missing_racks_are_an_error() -> None:
    view = ClusterView((Broker(0, "a"), Broker(1)), {TopicPartition("t", 0): (0,)})
    with pytest.raises(PlacementError, match="without a rack"):
        place(PlacementSpec(1, 3), view, UnderReplicatedPlacer())
    ignoring = replace(PlacementSpec(1, 3), ignore_racks=True)
    assert len(place(ignoring, view, UnderReplicatedPlacer())[0]) == 3
