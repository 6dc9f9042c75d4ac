"""The worked tables of the placers' docstrings and of KIP-36."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from placement_core import PlacementSpec
from placement_core.placers import (
    MultiLevelPlacer,
    RackAlternatingPlacer,
    SimplePlacer,
    UnderReplicatedPlacer,
)
from placement_core.placers.ring import Ring
from placement_core.placers.round_robin import RackRotation
from placement_core.placers.spec import candidates
from tests.support.placement import cluster, layout

SIX = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
FIVE = {broker: rack for broker, rack in SIX.items() if broker != 5}
FIRST_ROUND = "031 315 154 542 420 203"
SECOND_ROUND = "042 320 103 531 415 254"
WITHOUT_RACKS = "012 123 234 340 401 023 134 240 301 412"
AT_THE_START = RackAlternatingPlacer(start_index=0, shift=0)


@pytest.mark.parametrize(("racks", "order"), [(SIX, (0, 3, 1, 5, 4, 2)), (FIVE, (0, 3, 1, 4, 2))])
def test_brokers_alternate(racks: dict[int, str], order: tuple[int, ...]) -> None:
    spec = PlacementSpec(1, 1)
    assert RackRotation.of(candidates(spec, cluster(racks), None)).order == order


def test_twelve_partitions_on_six_brokers() -> None:
    placed = AT_THE_START.place(PlacementSpec(12, 3), cluster(SIX))
    assert placed == layout(f"{FIRST_ROUND} {SECOND_ROUND}")


def test_the_order_of_brokers_in_the_view_does_not_matter() -> None:
    view = cluster(dict(reversed(SIX.items())))
    assert AT_THE_START.place(PlacementSpec(6, 3), view) == layout(FIRST_ROUND)


def test_a_rack_of_one_broker() -> None:
    view = cluster({0: "rack1", 1: "rack2", 2: "rack2"})
    assert AT_THE_START.place(PlacementSpec(3, 2), view) == layout("01 10 20")


@pytest.mark.parametrize("placer", [AT_THE_START, SimplePlacer(start_index=0, shift=0)])
def test_no_racks(placer: RackAlternatingPlacer | SimplePlacer) -> None:
    assert placer.place(PlacementSpec(10, 3), cluster([None] * 5)) == layout(WITHOUT_RACKS)


def test_the_simple_placer_ignores_racks() -> None:
    placer = SimplePlacer(start_index=0, shift=0)
    assert placer.place(PlacementSpec(10, 3), cluster("aabbb")) == layout(WITHOUT_RACKS)


def test_start_and_shift() -> None:
    view = cluster(SIX)
    shifted = RackAlternatingPlacer(start_index=0, shift=1).place(PlacementSpec(6, 3), view)
    assert shifted == layout(SECOND_ROUND)
    started = RackAlternatingPlacer(start_index=2, shift=0).place(PlacementSpec(4, 3), view)
    assert started == layout(FIRST_ROUND)[2:]
    assert RackAlternatingPlacer(start_index=2).place(PlacementSpec(4, 3), view) == started


def test_multi_level() -> None:
    racks = ["/dc1/r1", "/dc1/r2", "/dc2/r1", "/dc2/r2", "/dc3/r1", "/dc3/r2"]
    placed = MultiLevelPlacer(seed=1).place(PlacementSpec(12, 3), cluster(racks))
    assert placed == layout("035 314 420 513 142 250 512 153 204 413 052 304")


def test_ring() -> None:
    ring = Ring(sizes=[2, 1], served=[0, 0], rng=Mock(random=lambda: 0.0, randrange=lambda _: 0))
    assert "".join("AB"[child] for child in ring.turns(7)) == "ABAABAA"


def test_under_replicated() -> None:
    placed = UnderReplicatedPlacer(AT_THE_START).place(
        PlacementSpec(3, 3), cluster({0: "a", 1: "b"})
    )
    assert placed == ((0, 1, -1), (1, 0, -1), (0, 1, -1))
