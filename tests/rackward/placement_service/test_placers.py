"""Through the service, every placer answers what it answers to a direct call."""

from __future__ import annotations

from collections.abc import Collection

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
    PlacementQuestion,
    ServiceRefusedError,
    answer_question,
    create_replica_placement,
)
from tests.support.placement import cluster
from tests.support.placement_server import running
from tests.support.placer_plugin import Answering

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
    "none": Answering(None),
    "raising": Answering(LookupError("the inventory\nis closed")),
    "refusing": Answering(RackwardError("the room is full: build another")),
    "wrong": Answering(((0, 0, 0),) * 16),
    "ending": Answering(SystemExit(3)),
}
SHAPES = [(16, 3, ()), (1, 1, ()), (7, 2, (1, 2, 3, 4)), (5, 3, (0, 99)), (5, 7, ()), (16, 3, (5,))]


def asked_directly(
    placer: ReplicaPlacer, partitions: int, factor: int, broker_ids: Collection[int], simple: bool
) -> ReplicaLists | str:
    """The layout, or how the refusal ends."""
    spec = PlacementSpec(partitions, factor, ignore_racks=simple)
    chosen = FALLBACK if simple else placer
    try:
        return place(spec, VIEW, chosen, broker_ids or None, fallback=FALLBACK)
    except RackwardError as error:
        return f"{error} (INVALID_REPLICA_ASSIGNMENT)"
    except SystemExit:
        return "the service failed with RuntimeError: its log may say more (UNKNOWN_SERVER_ERROR)"


def test_all_placers_are_asked() -> None:
    assert BUILT_IN.keys() == PLACERS.keys()


@pytest.mark.parametrize("name", CONFIGURED)
def test_the_service_answers_as_its_placer_does(name: str) -> None:
    placer = CONFIGURED[name]

    def placing(question: PlacementQuestion) -> ReplicaLists:
        return answer_question(question, VIEW, placer, fallback=FALLBACK)

    made = failed = 0
    with running(placing) as served:
        for simple in (False, True):
            for partitions, factor, broker_ids in SHAPES:
                expected = asked_directly(placer, partitions, factor, broker_ids, simple)
                try:
                    found: ReplicaLists | str = create_replica_placement(
                        str(served.address),
                        partitions,
                        factor,
                        force_simple_placement=simple,
                        broker_ids=broker_ids,
                    )
                    made += 1
                except ServiceRefusedError as error:
                    found = str(error).removeprefix(f"the placement service at {served.address}: ")
                    failed += 1
                assert found == expected
        counts = served.service.counts
    # Neither all made nor all failed, whatever the placer: forced ones do not ask it.
    assert made >= 3
    assert failed >= 3
    assert (counts.placements, counts.failed_placements) == (made, failed)


def test_a_placer_that_raises_is_named_with_what_it_said() -> None:
    def placing(question: PlacementQuestion) -> ReplicaLists:
        return answer_question(question, VIEW, CONFIGURED["raising"])

    with running(placing) as served:
        for _ in range(2):
            with pytest.raises(ServiceRefusedError, match="it failed with LookupError: the inv"):
                create_replica_placement(str(served.address), 1, 1)


def test_racks_are_asked_for_each_time_and_not_where_simple_placement_is_forced() -> None:
    racks = {0: "x", 1: "x", 2: "y", 3: "y", 4: "z", 5: "z"}
    seen: list[ClusterView] = []

    class Located(StaticLocator):
        def racks(self, view: ClusterView) -> dict[int, str]:
            seen.append(view)
            return dict(racks)

    placer = RackAlternatingPlacer(start_index=0)

    def ask(*, simple: bool) -> ReplicaLists:
        question = PlacementQuestion(1, 3, force_simple_placement=simple)
        return answer_question(question, VIEW, placer, locator=Located(racks), fallback=FALLBACK)

    assert ask(simple=False) == ((0, 2, 4),)
    racks.update({1: "y", 2: "x"})
    assert ask(simple=False) == ((0, 1, 4),)
    assert ask(simple=True) == FALLBACK.place(PlacementSpec(1, 3), VIEW)
    assert len(seen) == 2


def test_racks_can_be_ignored_with_the_configured_placer() -> None:
    question = PlacementQuestion(9, 3)
    placer = RackAlternatingPlacer(start_index=0)
    found = answer_question(question, VIEW, placer, ignore_racks=True)
    assert found == SimplePlacer(start_index=0).place(PlacementSpec(9, 3), VIEW)
