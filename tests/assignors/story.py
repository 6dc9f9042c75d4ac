"""What happens to a group from one rebalance to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from assignors import Member, Plan

LeaderLists = dict[str, list[str | None]]


def fed_back(members: Sequence[Member], plan: Plan, generation: int) -> list[Member]:
    """The same members, each owning what the plan gave it, a generation later."""
    return [
        replace(
            member,
            owned={t: list(numbers) for t, numbers in plan.partitions[member.id].items()},
            generation=generation,
        )
        for member in members
    ]


def random_leaders(rng: Random, topics: int, partitions: int, racks: Sequence[str]) -> LeaderLists:
    """Every partition's leader in a rack of its own chance."""
    return {
        f"topic-{topic:02}": [rng.choice(racks) for _ in range(partitions)]
        for topic in range(topics)
    }


def move_leaders(
    rng: Random, leaders: Mapping[str, Sequence[str | None]], share: float, racks: Sequence[str]
) -> LeaderLists:
    """A share of the leaders, drawn by chance, each in another rack than before."""
    moved = {topic: list(row) for topic, row in leaders.items()}
    cells = [(topic, number) for topic, row in moved.items() for number in range(len(row))]
    for topic, number in rng.sample(cells, round(len(cells) * share)):
        moved[topic][number] = rng.choice([r for r in racks if r != moved[topic][number]])
    return moved


def locality(plan: Plan) -> float:
    """The share of partitions read within their rack."""
    return 1 - plan.off_rack / sum(plan.loads.values())
