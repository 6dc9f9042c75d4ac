"""Through the service, every placer returns what it returns to a direct call."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import pytest

from placement_core import ClusterView, PlacementSpec, RackwardError, ReplicaLists
from placement_core.locators import StaticLocator
from placement_core.placers import (
    PLACERS,
    LikeTopicPlacer,
    MultiLevelPlacer,
    RackAlternatingPlacer,
    ReplicaPlacer,
    SimplePlacer,
    place,
)
from rackward.placement_service import (
    PlacementRequest,
    ServiceRefusedError,
    create_replica_placement,
    place_replicas,
)
from tests.support.placement import FixedPlacer, cluster
from tests.support.placement_server import run_service

GUIDE = Path(__file__).parents[3] / "docs" / "placement-service.md"

ORDERS = SimplePlacer(seed=9).place(PlacementSpec(16, 3), cluster([None] * 6))
VIEW = cluster(["/a/1", "/a/2", "/b/1", "/b/2", "/c/1", "/c/1"], orders=ORDERS)
FALLBACK = SimplePlacer(seed=4)

BUILT_IN: dict[str, ReplicaPlacer] = {
    "simple": SimplePlacer(seed=1),
    "rack-alternating": RackAlternatingPlacer(seed=2),
    "multi-level": MultiLevelPlacer(seed=3),
    "like-topic": LikeTopicPlacer("orders"),
}
CONFIGURED: dict[str, ReplicaPlacer] = {
    **BUILT_IN,
    "none": FixedPlacer(None),
    "raising": FixedPlacer(LookupError("the inventory\nis closed")),
    "refusing": FixedPlacer(RackwardError("the room is full: build another")),
    "wrong": FixedPlacer(((0, 0, 0),) * 16),
    "ending": FixedPlacer(SystemExit(3)),
}
SHAPES = [(16, 3, ()), (1, 1, ()), (7, 2, (1, 2, 3, 4)), (5, 3, (0, 99)), (5, 7, ()), (16, 3, (5,))]


def place_directly(
    placer: ReplicaPlacer, partitions: int, factor: int, broker_ids: Collection[int], simple: bool
) -> ReplicaLists | str:
    """Return the placement, or the end of the error."""
    spec = PlacementSpec(partitions, factor, ignore_racks=simple)
    chosen = FALLBACK if simple else placer
    try:
        return place(spec, VIEW, chosen, broker_ids or None, fallback=FALLBACK)
    except RackwardError as error:
        return f"{error} (INVALID_REPLICA_ASSIGNMENT)"
    except SystemExit:
        return "the service failed with SystemExit: see its log (UNKNOWN_SERVER_ERROR)"


def test_all_placers_are_covered() -> None:
    assert BUILT_IN.keys() == PLACERS.keys()


@pytest.mark.parametrize("name", CONFIGURED)
def test_the_service_returns_what_its_placer_returns(name: str) -> None:
    placer = CONFIGURED[name]

    def handler(request: PlacementRequest) -> ReplicaLists:
        return place_replicas(request, VIEW, placer, fallback=FALLBACK)

    placements = failures = 0
    with run_service(handler) as service:
        for simple in (False, True):
            for partitions, factor, broker_ids in SHAPES:
                expected = place_directly(placer, partitions, factor, broker_ids, simple)
                try:
                    actual: ReplicaLists | str = create_replica_placement(
                        str(service.address),
                        partitions,
                        factor,
                        force_simple_placement=simple,
                        broker_ids=broker_ids,
                    )
                    placements += 1
                except ServiceRefusedError as error:
                    actual = str(error).removeprefix(
                        f"the placement service at {service.address}: "
                    )
                    failures += 1
                assert actual == expected
        metrics = service.metrics
    # Of every placer: simple placement does not use it.
    assert placements >= 3
    assert failures >= 3
    assert (metrics.placements, metrics.failed_placements) == (placements, failures)


def test_the_exception_of_a_placer_is_shown() -> None:
    def handler(request: PlacementRequest) -> ReplicaLists:
        return place_replicas(request, VIEW, CONFIGURED["raising"])

    with run_service(handler) as service:
        for _ in range(2):
            with pytest.raises(ServiceRefusedError, match="it failed with LookupError: the inv"):
                create_replica_placement(str(service.address), 1, 1)


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
    section = GUIDE.read_text(encoding="utf-8").split("## In a program")[1]
    program = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert program is not None
    exec(compile(program[1], str(GUIDE), "exec"), {"__name__": "guide"})
    rows, metrics = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\(\((\d, ){2}\d\), \((\d, ){2}\d\)\)", rows)
    assert "placements=1" in metrics
