"""UnderReplicatedPlacer: topics on fewer brokers than replicas (KIP-409)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import (
    InvalidOptionError,
    PlacementSpec,
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


def test_partitions_with_replicas_get_no_placeholders() -> None:
    """Broker 9 is down: with a replica there, a partition can have three."""
    view = cluster({0: "a", 1: "b"})
    placer = UnderReplicatedPlacer(SimplePlacer(seed=1))
    assert place(PlacementSpec(1, 3, present=((9, 0),)), view, placer) == ((9, 0, 1),)
    with pytest.raises(PlacementError, match=r"which has replicas on \[0\]"):
        place(PlacementSpec(1, 3, present=((0,),)), view, placer)


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
