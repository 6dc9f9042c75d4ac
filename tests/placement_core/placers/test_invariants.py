"""The checks of layouts detect planted faults."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placement_core import ReplicaLists
from tests.support.placement import (
    check_form,
    check_leaders,
    check_present_first,
    check_racks,
    check_replicas,
    check_tree,
)

GOOD: ReplicaLists = ((0, 1), (1, 2), (2, 0))
FLAT = {0: "a", 1: "b", 2: "c"}
TWO_RACKS = {0: "a", 1: "a", 2: "b"}
TREE = {0: "/d/r", 1: "/d/r", 2: "/d/s", 3: "/e/r"}


def test_a_good_layout_passes() -> None:
    check_form(GOOD, 3, 2, range(3))
    check_racks(GOOD, FLAT)
    check_leaders(GOOD, range(3))
    check_replicas(GOOD, range(3))
    check_tree(GOOD, FLAT)
    check_present_first(GOOD, ((0,), (1, 2)))
    check_racks(((0, 1, 2),), TWO_RACKS)
    check_tree(((0, 3, 2), (3, 0, 2), (0, 3, 2)), TREE)
    check_tree(((0, 1, 2, 3),), TREE)


FAULTS: dict[str, Callable[[], None]] = {
    "a missing partition": lambda: check_form(GOOD[:2], 3, 2, range(3)),
    "a missing replica": lambda: check_form(((0,), *GOOD[1:]), 3, 2, range(3)),
    "a repeated broker": lambda: check_form(((0, 0), *GOOD[1:]), 3, 2, range(3)),
    "an unknown broker": lambda: check_form(((0, 9), *GOOD[1:]), 3, 2, range(3)),
    "a list instead of a tuple": lambda: check_form(([0, 1], *GOOD[1:]), 3, 2, range(3)),  # type: ignore[arg-type]
    "two in a rack": lambda: check_racks(((0, 1),), TWO_RACKS),
    "a rack left out": lambda: check_racks(((0, 1, 2),), {0: "a", 1: "a", 2: "a", 3: "b"}),
    "equal racks in two notations": lambda: check_racks(((0, 1),), {0: "/a", 1: "a", 2: "b"}),
    "uneven leaders": lambda: check_leaders(((0, 1), (0, 2), (2, 0)), range(3)),
    "a broker that leads nothing": lambda: check_leaders(GOOD, range(4)),
    "uneven replicas": lambda: check_replicas(((0, 1), (1, 0), (2, 0)), range(3)),
    "more than the slack": lambda: check_replicas(((0, 1), (1, 0), (1, 0)), range(3), slack=2),
    "a data centre left out": lambda: check_tree(((0, 2),), TREE),
    "a rack left out in a data centre": lambda: check_tree(((0, 1, 3),), TREE),
    "another leader": lambda: check_present_first(GOOD, ((1, 0),)),
    "a replica removed": lambda: check_present_first(((0, 1),), ((0, 2),)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_detected(fault: str) -> None:
    with pytest.raises(AssertionError):
        FAULTS[fault]()
