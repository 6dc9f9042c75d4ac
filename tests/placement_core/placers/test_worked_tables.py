"""The worked tables of the placers' docstrings and of KIP-36."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import Mock

import pytest

from placement_core import PlacementSpec
from placement_core.placers import (
    MultiLevelPlacer,
    RackAlternatingPlacer,
    ReplicaPlacer,
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


@pytest.mark.parametrize(
    ("placer", "racks", "spec", "expected"),
    [
        (AT_THE_START, SIX, (12, 3), f"{FIRST_ROUND} {SECOND_ROUND}"),
        # The order of brokers in the view does not matter.
        (AT_THE_START, dict(reversed(SIX.items())), (6, 3), FIRST_ROUND),
        # A rack of one broker.
        (AT_THE_START, {0: "rack1", 1: "rack2", 2: "rack2"}, (3, 2), "01 10 20"),
        (AT_THE_START, [None] * 5, (10, 3), WITHOUT_RACKS),
        (SimplePlacer(start_index=0, shift=0), [None] * 5, (10, 3), WITHOUT_RACKS),
        (SimplePlacer(start_index=0, shift=0), "aabbb", (10, 3), WITHOUT_RACKS),
        (RackAlternatingPlacer(start_index=0, shift=1), SIX, (6, 3), SECOND_ROUND),
        (RackAlternatingPlacer(start_index=2, shift=0), SIX, (4, 3), "154 542 420 203"),
        (RackAlternatingPlacer(start_index=2), SIX, (4, 3), "154 542 420 203"),
        (
            MultiLevelPlacer(seed=1),
            [f"/dc{1 + n // 2}/r{1 + n % 2}" for n in range(6)],
            (12, 3),
            "035 314 420 513 142 250 512 153 204 413 052 304",
        ),
    ],
)
def test_worked_tables(
    placer: ReplicaPlacer, racks: Sequence[str | None], spec: tuple[int, int], expected: str
) -> None:
    assert placer.place(PlacementSpec(*spec), cluster(racks)) == layout(expected)


def test_ring() -> None:
    ring = Ring(sizes=[2, 1], served=[0, 0], rng=Mock(random=lambda: 0.0, randrange=lambda _: 0))
    assert "".join("AB"[child] for child in ring.turns(7)) == "ABAABAA"


def test_under_replicated() -> None:
    placed = UnderReplicatedPlacer(AT_THE_START).place(
        PlacementSpec(3, 3), cluster({0: "a", 1: "b"})
    )
    assert placed == ((0, 1, -1), (1, 0, -1), (0, 1, -1))
