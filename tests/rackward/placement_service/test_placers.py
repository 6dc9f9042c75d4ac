"""Through the service, every placer returns what it returns to a direct call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from placement_core import ClusterView, PlacementSpec, ReplicaLists
from placement_core.locators import StaticLocator
from placement_core.placers import (
    RackAlternatingPlacer,
    SimplePlacer,
)
from rackward.placement_service import (
    PlacementRequest,
    place_replicas,
)
from tests.support.placement import cluster

GUIDE = Path(__file__).parents[3] / "docs" / "placement.md"

ORDERS = SimplePlacer(seed=9).place(PlacementSpec(16, 3), cluster([None] * 6))
VIEW = cluster(["/a/1", "/a/2", "/b/1", "/b/2", "/c/1", "/c/1"], orders=ORDERS)
FALLBACK = SimplePlacer(seed=4)


def test_the_locator_is_called_per_request_unless_simple() -> None:
    racks = {0: "x", 1: "x", 2: "y", 3: "y", 4: "z", 5: "z"}
    seen: list[ClusterView] = []

    class Located(StaticLocator):
        def racks(self, view: ClusterView) -> dict[int, str]:
            seen.append(view)
            return dict(racks)

    placer = RackAlternatingPlacer(start_index=0)

    def place_on_racks(*, simple: bool) -> ReplicaLists:
        request = PlacementRequest(1, 3, force_simple_placement=simple)
        return place_replicas(request, VIEW, placer, locator=Located(racks), fallback=FALLBACK)

    assert place_on_racks(simple=False) == ((0, 2, 4),)
    racks.update({1: "y", 2: "x"})
    assert place_on_racks(simple=False) == ((0, 1, 4),)
    assert place_on_racks(simple=True) == FALLBACK.place(PlacementSpec(1, 3), VIEW)
    assert len(seen) == 2


def test_racks_can_be_ignored() -> None:
    request = PlacementRequest(9, 3)
    placer = RackAlternatingPlacer(start_index=0)
    result = place_replicas(request, VIEW, placer, ignore_racks=True)
    assert result == SimplePlacer(start_index=0).place(PlacementSpec(9, 3), VIEW)


def test_the_program_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    section = GUIDE.read_text(encoding="utf-8").split("### In a program")[1]
    program = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert program is not None
    exec(compile(program[1], str(GUIDE), "exec"), {"__name__": "guide"})
    rows, metrics = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\(\((\d, ){2}\d\), \((\d, ){2}\d\)\)", rows)
    assert "placements=1" in metrics
