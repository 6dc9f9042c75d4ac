"""The best reassignment by CP-SAT, which knows nothing of flows: one variable per lawful set."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ortools.sat.python import cp_model

from placement_core import ClusterView, TopicPartition
from tests.placement_core.reassignment.lawful import lawful_sets, paths_of


def best_replicas(
    view: ClusterView,
    wanted: Mapping[TopicPartition, int],
    drain: Collection[int] = (),
    *,
    even: bool = True,
) -> tuple[int, int]:
    """The least sum of squared loads and the fewest copies, in this order of rank or the other,
    and then with the fewest leaders that lose their replicas in between."""
    paths = paths_of({b: rack for b, rack in view.racks().items() if b not in drain})
    model = cp_model.CpModel()
    on: dict[int, list[cp_model.IntVar]] = {broker: [] for broker in paths}
    copies: list[tuple[cp_model.IntVar, int]] = []
    lost: list[cp_model.IntVar] = []
    base = dict.fromkeys(paths, 0)
    for partition, present in view.replicas.items():
        if partition not in wanted:
            for broker in present:
                if broker in base:
                    base[broker] += 1
            continue
        options = []
        for brokers in lawful_sets(paths, wanted[partition]):
            taken = model.new_bool_var("")
            options.append(taken)
            copies.append((taken, len(brokers - set(present))))
            if present[0] in paths and present[0] not in brokers:
                lost.append(taken)
            for broker in brokers:
                on[broker].append(taken)
        model.add_exactly_one(options)
    squares = squared_loads(model, on, base)
    copied = sum(count * taken for taken, count in copies)
    if even:
        least = minimum(model, squares)
        model.add(squares == least)
        return least, minimum(model, copied)
    fewest = minimum(model, copied)
    model.add(copied == fewest)
    fewest_lost = minimum(model, sum(lost))
    model.add(sum(lost) == fewest_lost)
    return minimum(model, squares), fewest


def best_leaders(
    target: Mapping[TopicPartition, tuple[int, ...]],
    before: Mapping[TopicPartition, tuple[int, ...]],
    base: Mapping[int, int],
) -> tuple[int, int]:
    """The least sum of squared leaders and the fewest changes, for the replica sets of a target."""
    model = cp_model.CpModel()
    on: dict[int, list[cp_model.IntVar]] = {broker: [] for broker in base}
    changes = []
    for partition, replicas in target.items():
        leads = {broker: model.new_bool_var("") for broker in replicas}
        model.add_exactly_one(leads.values())
        for broker, taken in leads.items():
            on[broker].append(taken)
            if broker != before[partition][0]:
                changes.append(taken)
    squares = squared_loads(model, on, base)
    least = minimum(model, squares)
    model.add(squares == least)
    return least, minimum(model, sum(changes))


def squared_loads(
    model: cp_model.CpModel,
    on: Mapping[int, Collection[cp_model.IntVar]],
    base: Mapping[int, int],
) -> cp_model.LinearExprT:
    """The sum of squares of each broker's variables plus its base."""
    squares = []
    for broker, variables in on.items():
        most = len(variables) + base[broker]
        load = model.new_int_var(0, most, "")
        model.add(load == base[broker] + sum(variables))
        square = model.new_int_var(0, most * most, "")
        model.add_multiplication_equality(square, [load, load])
        squares.append(square)
    return sum(squares)


def minimum(model: cp_model.CpModel, objective: cp_model.LinearExprT) -> int:
    """The least value of ``objective``, proved."""
    model.minimize(objective)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    assert status == cp_model.OPTIMAL, solver.status_name(status)
    least: int = round(solver.objective_value)
    return least
