"""Checks, optima by CP-SAT and random cases for reassignments."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from ortools.sat.python import cp_model

from placement_core import Broker, ClusterView, RackPath, TopicPartition, parse_rack
from placement_core.reassignment import Reassignment
from placement_core.reassignment.plan import ReassignmentProblem
from placement_core.reassignment.replica_sets import ReplicaSets

Paths = Mapping[int, RackPath]


def paths_of(racks: Mapping[int, str | None]) -> dict[int, RackPath]:
    """Return rack paths of equal length by broker id; one rack for all if none is known."""
    path_of = {broker: parse_rack(rack) or ("",) for broker, rack in racks.items()}
    depth = max(map(len, path_of.values()))
    return {broker: path + ("",) * (depth - len(path)) for broker, path in path_of.items()}


def satisfies_rack_rules(brokers: Iterable[int], paths: Paths) -> bool:
    """Return whether brokers are as even over racks as possible, the widest level first."""
    return _even(frozenset(brokers), frozenset(paths.items()), 0)


def _even(chosen: frozenset[int], paths: frozenset[tuple[int, RackPath]], level: int) -> bool:
    below: dict[str, set[tuple[int, RackPath]]] = {}
    for broker, path in paths:
        below.setdefault(path[level], set()).add((broker, path))
    chosen_per_rack = [len(chosen & {broker for broker, _ in group}) for group in below.values()]
    if sum(n * n for n in chosen_per_rack) > _minimum_squares(
        tuple(map(len, below.values())), len(chosen)
    ):
        return False
    if level + 1 == len(next(iter(paths))[1]):
        return True
    return all(
        _even(chosen & {broker for broker, _ in group}, frozenset(group), level + 1)
        for group in below.values()
    )


@cache
def _minimum_squares(sizes: tuple[int, ...], count: int) -> int:
    """Return the minimum sum of squares of ``count`` replicas in racks of these sizes."""
    if not sizes:
        return 0 if count == 0 else 1 << 30
    return min(
        n * n + _minimum_squares(sizes[1:], count - n) for n in range(min(sizes[0], count) + 1)
    )


def valid_sets(paths: Paths, replicas: int) -> list[frozenset[int]]:
    """Return all sets of ``replicas`` brokers that satisfy the rack rules."""
    return [
        frozenset(chosen)
        for chosen in combinations(sorted(paths), replicas)
        if satisfies_rack_rules(chosen, paths)
    ]


def check_reassignment(
    view: ClusterView,
    wanted: Mapping[TopicPartition, int],
    drain: Collection[int],
    plan: Reassignment,
) -> None:
    """Assert that a plan satisfies all rules; ``wanted`` are the replication factors."""
    assert plan.target.keys() == wanted.keys(), "the target has other partitions than requested"
    staying = {b: rack for b, rack in view.racks().items() if b not in drain}
    paths = paths_of(staying)
    for partition, replicas in plan.target.items():
        where = f"{partition.topic}-{partition.partition} on {replicas}"
        assert len(set(replicas)) == len(replicas), f"{where} repeats a broker"
        assert len(replicas) == wanted[partition], f"{where}: {wanted[partition]} were requested"
        assert staying.keys() >= set(replicas), f"{where} uses a broker that is missing or drained"
        assert satisfies_rack_rules(replicas, paths), f"{where} breaks the rack rules of {staying}"
        assert all(type(broker) is int for broker in replicas), (
            f"{where} has ids that are not of type int"
        )
    check_moves(view, plan)


def check_moves(view: ClusterView, plan: Reassignment) -> None:
    """Assert that moves and figures are the difference of the two layouts."""
    changed = {p: r for p, r in plan.target.items() if view.replicas[p] != r}
    moves = {move.partition: move for move in plan.moves}
    assert list(moves) == sorted(changed), f"moves of {list(moves)}, not of {sorted(changed)}"
    copies = changes = 0
    for partition, after in changes_of(plan).items():
        before = view.replicas[partition]
        assert moves[partition].before == before, f"{partition} starts from {before}"
        copies += len(set(after) - set(before))
        changes += after[0] != before[0]
    assert plan.copies == copies, f"plan.copies is {plan.copies}, not {copies}"
    assert plan.leader_changes == changes, f"{plan.leader_changes} leader changes, not {changes}"


def changes_of(plan: Reassignment) -> dict[TopicPartition, tuple[int, ...]]:
    return {move.partition: move.after for move in plan.moves}


def squares_of(view: ClusterView, drain: Collection[int], plan: Reassignment) -> tuple[int, int]:
    """Return the sums of squared replicas and of squared preferred leaders per broker."""
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    staying = view.racks().keys() - set(drain)
    for row in {**view.replicas, **plan.target}.values():
        replicas.update(staying & set(row))
        leaders.update(staying & {row[0]})
    return sum(n * n for n in replicas.values()), sum(n * n for n in leaders.values())


def best_replicas(
    view: ClusterView,
    wanted: Mapping[TopicPartition, int],
    drain: Collection[int] = (),
    *,
    even: bool = True,
) -> tuple[int, int]:
    """Return the minimum sum of squared loads and the fewest copies, by one variable per valid set.

    With ``even``, loads rank first; otherwise copies, then leaders that lose their replicas.
    """
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
        for brokers in valid_sets(paths, wanted[partition]):
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
        min_squares = minimum(model, squares)
        model.add(squares == min_squares)
        return min_squares, minimum(model, copied)
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
    """Return the minimum sum of squared leaders and the fewest changes, for a target's sets."""
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
    min_squares = minimum(model, squares)
    model.add(squares == min_squares)
    return min_squares, minimum(model, sum(changes))


def squared_loads(
    model: cp_model.CpModel,
    on: Mapping[int, Collection[cp_model.IntVar]],
    base: Mapping[int, int],
) -> cp_model.LinearExprT:
    """Return the sum of squares of each broker's variables plus its base."""
    squares = []
    for broker, variables in on.items():
        max_load = len(variables) + base[broker]
        load = model.new_int_var(0, max_load, "")
        model.add(load == base[broker] + sum(variables))
        square = model.new_int_var(0, max_load * max_load, "")
        model.add_multiplication_equality(square, [load, load])
        squares.append(square)
    return sum(squares)


def minimum(model: cp_model.CpModel, objective: cp_model.LinearExprT) -> int:
    """Return the proved minimum of ``objective``."""
    model.minimize(objective)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    assert status == cp_model.OPTIMAL, solver.status_name(status)
    value: int = round(solver.objective_value)
    return value


RACKS = ("a", "b", "c", "d")
TREES = ("/x/r1", "/x/r2", "/x/r3", "/y/r1", "/y/r2", "/z")


@dataclass(frozen=True, slots=True)
class Case:
    """A layout, the arguments of ``plan_reassignment``, and the factor wanted per partition."""

    view: ClusterView
    replication_factor: int | dict[str, int] | None
    drain: tuple[int, ...]
    topics: tuple[str, ...] | None
    wanted: dict[TopicPartition, int]


def random_case(seed: int) -> Case:
    """Return a small cluster with unequal racks or levels, missing brokers and uneven lists."""
    rng = random.Random(seed)
    count = rng.randint(2, 7)
    kind = rng.choice(("flat", "flat", "tree", "none"))
    names = {"flat": RACKS[: rng.randint(1, 4)], "tree": TREES, "none": (None,)}[kind]
    brokers = tuple(Broker(n, rng.choice(names)) for n in range(count))
    missing = [count] if rng.random() < 0.3 else []
    drain = tuple(rng.sample(range(count), rng.choice((0, 0, 1)) if count > 2 else 0))
    staying = count - len(drain)
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    present_factor: dict[str, int] = {}
    occupied = rng.sample([*range(count), *missing], rng.randint(2, count))
    for topic in "ts"[: rng.randint(1, 2)]:
        present_factor[topic] = rng.randint(1, min(4, staying, len(occupied)))
        for number in range(rng.randint(1, 6)):
            replicas[TopicPartition(topic, number)] = tuple(
                rng.sample(occupied, present_factor[topic])
            )
    topics = ("t",) if rng.random() < 0.2 else None
    factor: int | dict[str, int] | None = None
    if rng.random() < 0.4:
        factor = rng.randint(1, min(4, staying))
        if rng.random() < 0.5:
            factor = {"t": factor}
    wanted: dict[TopicPartition, int] = {}
    for partition in replicas:
        if topics and partition.topic not in topics:
            continue
        chosen = factor.get(partition.topic) if isinstance(factor, dict) else factor
        wanted[partition] = chosen or present_factor[partition.topic]
    return Case(ClusterView(brokers, replicas), factor, drain, topics, wanted)


def random_sets(problem: ReassignmentProblem, rng: random.Random) -> ReplicaSets:
    """Return random sets that satisfy the rack rules."""
    sets = ReplicaSets.of(problem.racks, problem.held, problem.replicas)
    paths = paths_of(dict(enumerate("/" + "/".join(path) for path in problem.racks)))
    for row, factor in enumerate(problem.replicas.tolist()):
        for broker in rng.choice(valid_sets(paths, factor)):
            sets.add(np.array([row]), np.array([broker]))
    return sets
