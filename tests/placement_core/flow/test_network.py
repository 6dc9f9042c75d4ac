"""The transportation solver against OR-tools, its proofs, and what makes it fast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ortools.graph.python import min_cost_flow

from placement_core.flow import IntArray, Network, Segments, network
from tests.support.random_groups import first_quick

CHUNK = 500
NO_LIMIT = 10**6
NONE = np.array([], np.int64)


Problem = dict[str, Any]
"""The arguments of a Network."""


def problem_of(supply: IntArray, demand: IntArray, member_hub: IntArray, **arcs: Any) -> Problem:
    """Return the arguments, by default without arcs."""
    empty = {"to_hub": (NONE,) * 3, "direct": (NONE,) * 4, "fillers": None}
    return {"supply": supply, "demand": demand, "member_hub": member_hub, **empty, **arcs}


def solve(problem: Problem) -> Network:
    return Network(**problem).solve()


def random_problem(seed: int, *, filled: bool = False) -> Problem:
    """Return a small problem; with ``filled``, the sums of supply and demand are equal."""
    rng = np.random.default_rng(seed)
    classes, hubs = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    members = int(rng.integers(hubs, 12))
    hub = np.sort(np.concatenate((np.arange(hubs), rng.integers(0, hubs, members - hubs))))
    arc_hub, arc_class = np.nonzero(rng.random((hubs, classes)) < 0.6)
    direct_member, direct_class = np.nonzero(rng.random((members, classes)) < 0.2)
    demand = rng.integers(0, 9, members)
    supply = rng.integers(0, 12, classes)
    if filled:
        supply = np.bincount(rng.integers(0, classes, int(demand.sum())), minlength=classes)
    fillers = None
    if int(supply.sum()) < int(demand.sum()):
        member = np.repeat(np.arange(members), 2)
        fillers = member, rng.integers(0, 4, len(member)), np.tile([3, 5], members)
    return problem_of(
        supply,
        demand,
        hub,
        to_hub=(arc_class, arc_hub, rng.integers(0, 6, len(arc_class))),
        direct=(
            direct_class,
            direct_member,
            rng.integers(0, 5, len(direct_class)),
            rng.integers(0, 6, len(direct_class)),
        ),
        fillers=fillers,
    )


def max_flow_at_min_cost(problem: Problem) -> tuple[int, int]:
    """Return the maximum number of units that can be sent, and the minimum cost of that many."""
    solver = min_cost_flow.SimpleMinCostFlow()
    classes, hubs, members = (
        len(problem["supply"]),
        problem["member_hub"][-1] + 1,
        len(problem["demand"]),
    )
    fillers, first_member = classes + hubs + members, classes + hubs
    source, sink = fillers + 1, fillers + 2
    add = solver.add_arc_with_capacity_and_unit_cost
    total = int(problem["supply"].sum())
    for i, units in enumerate(problem["supply"].tolist()):
        add(source, i, units, 0)
    for i, hub, cost in zip(*problem["to_hub"], strict=True):
        add(int(i), classes + int(hub), NO_LIMIT, int(cost))
    for member, (hub, units) in enumerate(
        zip(problem["member_hub"], problem["demand"], strict=True)
    ):
        add(classes + int(hub), first_member + member, NO_LIMIT, 0)
        add(first_member + member, sink, int(units), 0)
    for i, member, capacity, cost in zip(*problem["direct"], strict=True):
        add(int(i), first_member + int(member), int(capacity), int(cost))
    if problem["fillers"] is not None:
        add(source, fillers, int(problem["demand"].sum()) - total, 0)
        total = int(problem["demand"].sum())
        for member, capacity, cost in zip(*problem["fillers"], strict=True):
            add(fillers, first_member + int(member), int(capacity), int(cost))
    solver.set_node_supply(source, total)
    solver.set_node_supply(sink, -total)
    assert solver.solve_max_flow_with_min_cost() == solver.OPTIMAL
    return solver.maximum_flow(), solver.optimal_cost()


def check_flow(problem: Problem, solved: Network) -> None:
    """Assert that the flow respects every capacity and conserves units."""
    classes, members = len(problem["supply"]), len(problem["demand"])
    for units in (solved.hub_units, solved.direct_units, solved.member_units):
        assert (units >= 0).all()
    assert (solved.unsent >= 0).all()
    assert (solved.unmet >= 0).all()
    arc_class, arc_hub, _ = problem["to_hub"]
    direct_class, direct_member, capacity, _ = problem["direct"]
    assert (solved.direct_units <= capacity).all()
    sent = np.bincount(arc_class, solved.hub_units, classes)
    sent = sent + np.bincount(direct_class, solved.direct_units, classes)
    assert (sent == problem["supply"] - solved.unsent[:-1]).all()
    into = np.bincount(arc_hub, solved.hub_units, problem["member_hub"][-1] + 1)
    assert (into == np.bincount(problem["member_hub"], solved.member_units)).all()
    received = solved.member_units + np.bincount(direct_member, solved.direct_units, members)
    assert (received <= problem["demand"] - solved.unmet).all()
    fillers = int(solved.supply[-1] - solved.unsent[-1])
    assert int((problem["demand"] - solved.unmet - received).sum()) == fillers


@pytest.mark.parametrize("first", first_quick(range(0, 2_000, CHUNK)))
def test_the_maximum_flow_at_minimum_cost(first: int) -> None:
    for seed in range(first, first + CHUNK):
        problem = random_problem(seed)
        solved = solve(problem)
        check_flow(problem, solved)
        sent = int((solved.supply - solved.unsent).sum())
        maximum, cost = max_flow_at_min_cost(problem)
        # If not all units can be sent, as many as possible are, at any cost.
        if solved.min_cut is not None:
            assert sent == maximum or problem["fillers"] is not None, seed
        else:
            assert (sent, solved.total_cost()) == (maximum, cost), seed
        assert (solved.min_cut is None) == (sent == solved.supply.sum()), seed


@pytest.mark.parametrize("first", first_quick(range(0, 8_000, 2_000)))
def test_the_bound_proves_the_optimum(first: int) -> None:
    proved = 0
    for seed in range(first, first + 2_000):
        solved = solve(random_problem(seed, filled=seed % 2 == 0))
        if solved.min_cut is None and not solved.unmet.any():
            assert solved.lower_bound() == solved.total_cost(), seed
            proved += 1
    assert proved > 120


def test_a_flow_that_is_not_optimal_has_no_bound() -> None:
    """Two classes, two members, swapped at no cost: a cycle of negative cost."""
    ones = np.array([1, 1])
    arcs = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    costs = np.array([0, 1, 1, 0])
    problem = problem_of(ones, ones, np.array([0, 1]), to_hub=(*arcs, 1 - costs))
    worst = solve(problem)
    assert (worst.total_cost(), worst.lower_bound()) == (0, 0)
    worst._cost[worst._forward[:4]] = costs
    worst._cost[worst._backward[:4]] = -costs
    with pytest.raises(AssertionError, match="negative cost"):
        worst.lower_bound()


@pytest.mark.parametrize("factor", [1 << 56, 1 << 61, 10**25])
def test_costs_beyond_64_bits_are_exact(factor: int) -> None:
    proved = 0
    for seed in range(100):
        problem = random_problem(seed, filled=True)
        arc_class, arc_hub, cost = problem["to_hub"]
        direct_class, member, capacity, direct_cost = problem["direct"]
        huge = {
            **problem,
            "to_hub": (arc_class, arc_hub, cost.astype(object) * factor),
            "direct": (direct_class, member, capacity, direct_cost.astype(object) * factor),
        }
        small, large = solve(problem), solve(huge)
        assert (large.min_cut is None) == (small.min_cut is None)
        if large.min_cut is None:
            assert large.total_cost() == small.total_cost() * factor == large.lower_bound()
            proved += 1
    assert proved > 5


def test_the_same_problem_has_the_same_flow() -> None:
    def flows(solved: Network) -> list[list[int]]:
        return [
            units.tolist() for units in (solved.hub_units, solved.direct_units, solved.member_units)
        ]

    for seed in range(50):
        assert flows(solve(random_problem(seed))) == flows(solve(random_problem(seed)))


def test_runs_of_equal_keys() -> None:
    runs = Segments.of(np.array([4, 4, 7, 9, 9, 9]))
    assert (runs.starts.tolist(), runs.keys.tolist()) == ([0, 2, 3], [4, 7, 9])
    assert runs.lengths(6).tolist() == [2, 1, 3]
    assert Segments.of(NONE).lengths(0).tolist() == []


# ---- Direct filling: the optimum does not depend on it, the speed does.


@pytest.fixture
def without_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a unit is sent along a path that had to be searched for."""

    def push(*_: object) -> list[int]:
        raise AssertionError("a search for paths")

    monkeypatch.setattr(network, "_push", push)


def arcs(*rows: tuple[int, ...]) -> tuple[IntArray, ...]:
    return tuple(np.array(rows, np.int64).T)


def solved(
    supply: list[int], demand: list[int], hubs: list[int], to_hub: tuple[IntArray, ...]
) -> Network:
    return solve(problem_of(np.array(supply), np.array(demand), np.array(hubs), to_hub=to_hub))


@pytest.mark.usefixtures("without_search")
def test_classes_with_one_hub_each_are_sent_directly() -> None:
    """The arcs are in order of the hubs, not of the classes."""
    flow = solved([3, 2, 1], [2, 1, 3], [0, 0, 1], arcs((2, 0, 0), (1, 0, 0), (0, 1, 0)))
    assert flow.hub_units.tolist() == [1, 2, 3]
    assert flow.member_units.tolist() == [2, 1, 3]
    assert not flow.unsent.any()


def test_first_classes_get_the_nearest_hub_if_it_is_short() -> None:
    flow = solved([2, 2], [3, 4], [0, 1], arcs((0, 0, 1), (1, 0, 1), (0, 1, 5), (1, 1, 5)))
    assert flow.hub_units.tolist() == [2, 1, 0, 1]
    assert flow.unmet.tolist() == [0, 3]


@pytest.mark.usefixtures("without_search")
def test_classes_are_spread_over_hubs_and_members_evenly() -> None:
    to_hub = arcs((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0))
    flow = solved([4, 4], [4, 4, 8], [0, 0, 1], to_hub)
    assert flow.hub_units.tolist() == [2, 2, 2, 2]
    assert flow.member_units.tolist() == [2, 2, 4]


@pytest.mark.usefixtures("without_search")
def test_direct_arcs_fill_up_to_capacity_demand_and_supply() -> None:
    direct = arcs((0, 0, 2, 0), (1, 0, 2, 0), (0, 1, 3, 0), (1, 2, 9, 0))
    problem = problem_of(np.array([4, 6]), np.array([3, 3, 9]), np.array([0, 1, 2]), direct=direct)
    flow = solve(problem)
    assert flow.direct_units.tolist() == [1, 1, 3, 5]
    assert flow.unmet.tolist() == [1, 0, 4]


@pytest.mark.parametrize("seed", range(200))
def test_members_of_a_hub_are_filled_level(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gaps = rng.integers(0, 50, int(rng.integers(1, 8)))
    amount = int(rng.integers(0, int(gaps.sum()) + 1))
    flow = solved([amount], gaps.tolist(), [0] * len(gaps), arcs((0, 0, 1)))
    taken = flow.member_units
    assert int(taken.sum()) == amount
    left = gaps - taken
    assert left.max() <= left[taken > 0].min(initial=left.max()) + 1
