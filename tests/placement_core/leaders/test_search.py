"""The search for leaders against all choices, its choice of racks, and the work that it takes."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from placement_core.flow import INF, IntArray, cancel_negative_cycles
from placement_core.leaders import ConsumerDemand, LeaderLayout, plan_leaders, search
from placement_core.leaders.problem import LeaderCosts, Quotas, RankScales
from placement_core.leaders.search import LeaderChoice, best_leaders, set_initial_leaders
from tests.support.placement import random_readers, random_view


class Case:
    """A random problem: a few partitions with replicas on brokers that also lead others."""

    def __init__(self, seed: int, demands: int, *, changes_first: bool) -> None:
        rng = random.Random(seed)
        racks = rng.randint(1, 3)
        brokers = rng.randint(2, 5)
        partitions = rng.randint(1, 6)
        rack_of = np.array([rng.randrange(racks) for _ in range(brokers)])
        self.options = np.full((partitions, 3), -1)
        for row in self.options:
            replicas = rng.sample(range(brokers), min(brokers, rng.randint(1, 3)))
            row[: len(replicas)] = replicas
        in_racks = np.array(
            [[rng.choice((0, 0, 1, 3)) for _ in range(racks)] for _ in row_ids(self)]
        )
        self.off_rack = in_racks[row_ids(self)[:, None], rack_of[self.options]]
        self.before = np.array([rng.choice((*row, -1)) for row in self.options.tolist()])
        base = np.array([rng.choice((0, 0, 1, 4)) for _ in range(brokers)])
        scales = RankScales.of(brokers, int(base.max()) + partitions, changes_first=changes_first)
        self.costs = LeaderCosts(rack_of, base, scales, racks + 2)
        self.demands = [self._quotas(rng, f"g{n}", racks) for n in range(demands)]

    def _quotas(self, rng: random.Random, name: str, racks: int) -> Quotas:
        consumers = {rack: rng.choice((0, 1, 1, 2)) for rack in [None, "e", *"abc"[:racks]]}
        consumers["a"] = consumers["a"] or 1
        others = np.array([*(rng.choice((0, 0, 1, 3)) for _ in range(racks + 1)), 0])
        demand = ConsumerDemand(name, frozenset("t"), consumers)
        quotas = Quotas.of(
            demand,
            [(rack,) for rack in "abc"[:racks]],
            None,
            len(self.options) + int(others.sum()),
            rng.choice((1, 1, 2, 5)),
        )
        assert quotas is not None
        return quotas.with_other_leaders(others)

    def choice(self) -> LeaderChoice:
        brokers = len(self.costs.rack_of)
        choice = LeaderChoice.of(self.options, self.before, brokers, self.off_rack)
        choice.set_scales(self.costs.scales)
        return choice

    def off_rack_of(self, chosen: IntArray) -> int:
        """Return the weight of what is not read locally, by demands and by owners."""
        leaders = np.zeros(self.costs.rack_slots, np.int64)
        np.add.at(leaders, self.costs.rack_of[chosen], 1)
        slots = (self.options == chosen[:, None]).argmax(axis=1)
        return sum(quotas.weight * quotas.off_rack(leaders) for quotas in self.demands) + int(
            self.off_rack[row_ids(self), slots].sum()
        )

    def cost_of(self, chosen: IntArray) -> int:
        scales = self.costs.scales
        loads = np.bincount(chosen, minlength=len(self.costs.base)) + self.costs.base
        return (
            self.off_rack_of(chosen) * scales.off_rack
            + int((loads * loads).sum()) * scales.square
            + int((chosen != self.before).sum()) * scales.change
        )

    def all_choices(self) -> list[IntArray]:
        options = ([broker for broker in row if broker >= 0] for row in self.options.tolist())
        return [np.array(chosen) for chosen in product(*options)]


def row_ids(case: Case) -> IntArray:
    return np.arange(len(case.options))


@pytest.mark.parametrize("block", range(16))
@pytest.mark.parametrize("demands", [0, 1, 2, 3])
def test_the_best_of_all_choices_is_found(block: int, demands: int) -> None:
    for seed in range(block * 5, block * 5 + 5):
        case = Case(seed, demands, changes_first=seed % 2 == 1)
        choice = case.choice()
        assert best_leaders(choice, case.costs, case.demands)
        best = min(map(case.cost_of, case.all_choices()))
        assert case.cost_of(choice.chosen) == best, seed
        loads = np.bincount(choice.chosen, minlength=choice.broker_count)
        assert choice.loads.tolist() == loads.tolist(), "loads have drifted from the choice"


@pytest.mark.parametrize("block", range(8))
def test_the_initial_racks_are_the_best(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        case = Case(seed, seed % 3, changes_first=seed % 2 == 1)
        choice = case.choice()
        before, rack_of = choice.chosen.copy(), case.costs.rack_of
        set_initial_leaders(choice, case.costs, case.demands)
        chosen = choice.chosen
        assert case.off_rack_of(chosen) == min(map(case.off_rack_of, case.all_choices())), seed
        assert (case.options == chosen[:, None]).any(axis=1).all()
        if case.costs.scales.change > case.costs.scales.square:
            stays = rack_of[chosen] == rack_of[before]
            assert (chosen[stays] == before[stays]).all(), seed


def spread(*, changes_first: bool, base: tuple[int, ...] = (0, 0, 0, 0)) -> LeaderChoice:
    """Return initial leaders of eight partitions with replicas on all four brokers of two racks.

    Broker 0 leads them all; a group has three consumers in its rack, and one in the other.
    """
    choice = LeaderChoice.of(np.tile(np.arange(4), (8, 1)), np.zeros(8, np.int64), 4)
    quotas = Quotas.of(
        ConsumerDemand("g", frozenset("t"), {"a": 3, "b": 1}), [("a",), ("b",)], None, 8, 1
    )
    assert quotas is not None
    scales = RankScales.of(4, 8 + max(base), changes_first=changes_first)
    costs = LeaderCosts(np.array([0, 0, 1, 1]), np.array(base), scales, 4)
    set_initial_leaders(choice, costs, [quotas])
    return choice


def test_initial_leaders_are_leveled_within_racks() -> None:
    assert spread(changes_first=False).loads.tolist() == [3, 3, 1, 1]
    assert spread(changes_first=False, base=(2, 0, 0, 2)).loads.tolist() == [2, 4, 2, 0]
    # Unless a change matters more: then each goes to the first replica in its rack.
    assert spread(changes_first=True).loads.tolist() == [6, 0, 2, 0]


@pytest.fixture
def flows(monkeypatch: pytest.MonkeyPatch) -> list[LeaderCosts]:
    """Collect the costs of each flow that is solved."""
    solved: list[LeaderCosts] = []

    def collecting(choice: LeaderChoice, costs: LeaderCosts) -> int:
        solved.append(costs)
        return cancel_negative_cycles(choice, costs)

    monkeypatch.setattr(search, "cancel_negative_cycles", collecting)
    return solved


def layout_of(seed: int) -> LeaderLayout:
    rng = random.Random(seed)
    view = random_view(rng, rng.randint(5, 20))
    return plan_leaders(view, [random_readers(rng, str(n)) for n in range(2 + seed % 3)])


@pytest.mark.parametrize(
    ("seed", "most"), [(38, 12), (121, 12), (188, 18), (214, 20), (388, 18), (837, 16), (998, 16)]
)
def test_few_flows_are_solved(seed: int, most: int, flows: list[LeaderCosts]) -> None:
    """For racks and for brokers. A search in another order finds the same, only later."""
    assert layout_of(seed).locality_proved
    assert len(flows) <= most


def test_the_number_of_flows_is_limited(
    flows: list[LeaderCosts], monkeypatch: pytest.MonkeyPatch
) -> None:
    best = layout_of(214)
    assert best.locality_proved
    monkeypatch.setattr(search, "MAX_FLOWS", 7)
    flows.clear()
    cut = layout_of(214)
    assert not cut.locality_proved
    assert len(flows) == 2 * 7, "for racks, then for brokers"
    # The best one so far is used.
    assert [each.after for each in cut.localities] == [12, 10, 4]
    assert [each.after for each in best.localities] == [12, 11, 4]


@pytest.mark.parametrize("seed", range(60))
def test_halves_have_all_quotas_that_add_up_once(seed: int) -> None:
    rng = random.Random(seed)
    low = np.array([rng.randint(0, 3) for _ in range(4)])
    width = np.array([rng.randint(0, 3) for _ in range(4)])
    width[rng.randrange(4)] += 1
    total = rng.randint(int(low.sum()), int((low + width).sum()))
    one = Quotas(low, low + width, total, 1, np.zeros(4, np.int64))
    other = replace(one, weight=2)
    which = seed % 2
    pair = (one, other) if which == 0 else (other, one)

    def within(quotas: Quotas) -> set[tuple[int, ...]]:
        ranges = (
            range(first, last + 1)
            for first, last in zip(quotas.low.tolist(), quotas.high.tolist(), strict=True)
        )
        return {each for each in product(*ranges) if sum(each) == total}

    halves = search._halves(pair, which)
    assert all(half[1 - which] is other for half in halves)
    found = [within(half[which]) for half in halves]
    assert sum(map(len, found)) == len(set().union(*found))
    assert set().union(*found) == within(one)
    assert all(found), "an empty half is left out"
    for half in halves:
        # No range is wider than the sum permits, given the others.
        quotas = half[which]
        for rack in range(4):
            values = {each[rack] for each in within(quotas)}
            assert quotas.low[rack] == min(values)
            assert quotas.high[rack] == max(values)


def test_a_choice_begins_with_present_leaders_that_may_lead() -> None:
    options = np.array([[0, 1, -1], [2, 1, 0], [-1, 1, 2], [1, -1, -1]])
    choice = LeaderChoice.of(options, np.array([0, 1, 0, -1]), 4)
    assert choice.chosen.tolist() == [0, 1, 1, 1]
    assert choice.before.tolist() == [0, 1, -1, -1]
    assert choice.loads.tolist() == [1, 3, 0, 0]
    # Those that may not lead count as changed.
    assert (choice.total_price(), choice.total_off_rack()) == (2, 0)
    choice.set_scales(RankScales(100, 10, 3))
    assert choice.total_price() == 6
    choice.choose(np.array([1, 0, 2, 1]))
    assert choice.total_price() == 12
    assert choice.loads.tolist() == [1, 2, 1, 0]


def test_the_cheapest_options_are_chosen() -> None:
    options = np.array([[-1, 0, 1, 2], [2, 1, 0, -1], [0, 1, 2, -1]])
    off_rack = np.array([[0, 3, 1, 1], [5, 5, 4, 0], [2, 2, 2, 0]])
    choice = LeaderChoice.of(options, np.array([0, 2, 1]), 4, off_rack)
    choice.set_scales(RankScales(10, 1, 1))
    choice.choose_cheapest()
    assert choice.chosen.tolist() == [1, 0, 1]
    assert choice.loads.tolist() == [1, 2, 0, 0]
    assert (choice.total_off_rack(), choice.total_price()) == (7, 72)


def test_leaders_are_relieved_by_options_only() -> None:
    """Broker 3 is free, and an option of none; broker 0 is, and has the number 0."""
    options = np.array([[1, -1, 0], [1, -1, 0], [1, 2, -1], [2, -1, -1]])
    choice = LeaderChoice.of(options, np.array([1, 1, 1, 2]), 4)
    assert choice.relieve(np.array([1, 1, 2, 9]))
    assert choice.chosen.tolist() == [0, 1, 2, 2]
    assert not choice.relieve(np.array([1, 0, 2, 9]))
    assert choice.chosen.tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("seed", range(40))
def test_moves_cost_what_they_change(seed: int) -> None:
    case = Case(seed, 0, changes_first=seed % 2 == 1)
    choice = case.choice()
    choice.choose(random.Random(seed).choice(case.all_choices()))
    costs, now = choice.costs(), choice.total_price()
    moves: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, options in enumerate(case.options.tolist()):
        for target in set(options) - {-1, int(choice.chosen[row])}:
            other = case.choice()
            chosen = choice.chosen.copy()
            chosen[row] = target
            other.choose(chosen)
            by_cost = moves[int(choice.chosen[row]), target]
            by_cost[other.total_price() - now].append(row)
    for source, target in np.ndindex(costs.shape):
        by_cost = moves[source, target]
        assert costs[source, target] == min(by_cost, default=INF)
        for cost, rows in by_cost.items():
            assert choice.find(source, target, cost, 9).tolist() == rows


def test_moves_and_their_partitions() -> None:
    """Eight partitions of broker 0: five may move to 1 at the cost of a change, two at more."""
    options = np.array([[0, 1], [0, 1], [0, 1], [0, 1], [0, 1], [1, 0], [0, 1], [0, -1]])
    off_rack = np.zeros_like(options)
    off_rack[5], off_rack[6] = (2, 1), (0, 1)
    choice = LeaderChoice.of(options, np.zeros(8, np.int64), 3, off_rack)
    choice.set_scales(RankScales(10, 1, 1))
    costs = choice.costs()
    assert costs[0, 1] == 1
    assert np.delete(costs.reshape(-1), 1).min() == INF
    assert choice.find(0, 1, 1, 5).tolist() == [0, 1, 2, 3, 4]
    assert choice.find(0, 1, 1, 2).tolist() == [0, 2], "spread over those that qualify"
    assert choice.find(0, 1, 11, 5).tolist() == [5, 6]
    assert choice.find(1, 0, 1, 5).tolist() == []
    choice.apply(np.array([5, 0]), 0, 1)
    assert choice.loads.tolist() == [6, 2, 0]
    assert choice.costs()[1, 0] == -11
    assert choice.total_off_rack() == 2
