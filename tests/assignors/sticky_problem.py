"""What LeaderRackAwareCooperativeSticky is asked, as problems for the oracles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.assignors.blocks import components, levels, topic_classes
from tests.assignors.facts import NOBODY, Facts, level_counts
from tests.assignors.problem import Problem


@dataclass(frozen=True)
class Part:
    """A problem, and which cells and members of the group it is about."""

    problem: Problem
    cells: tuple[int, ...]
    members: tuple[int, ...]

    def holders(self, of_group: Sequence[int]) -> tuple[int, ...]:
        """A plan's holders (per cell of the group) in this part's own numbering."""
        position = {member: i for i, member in enumerate(self.members)}
        return tuple(position[of_group[cell]] for cell in self.cells)


def sticky_parts(facts: Facts, max_imbalance: float = 0.0) -> list[Part]:
    """The group as one problem, or with ``max_imbalance`` one per connected component."""
    everyone = frozenset(range(len(facts.members)))
    if max_imbalance == 0:
        return [part_of(facts, everyone)]
    classes = topic_classes(facts)
    level = levels(classes, everyone)
    caps = {member: math.floor(high * (1 + max_imbalance)) for member, high in level.items()}
    return [
        part_of(
            facts, inside, caps if any(caps[member] > level[member] for member in inside) else None
        )
        for _, inside in components(classes, everyone)
    ]


def part_of(facts: Facts, inside: frozenset[int], caps: dict[int, int] | None = None) -> Part:
    """The problem of the members ``inside``; with ``caps``, locality before balance."""
    members = tuple(sorted(inside))
    position = {member: i for i, member in enumerate(members)}
    cells = tuple(cell for cell, takers in enumerate(facts.takers) if inside.intersection(takers))
    problem = Problem(
        takers=tuple(tuple(position[m] for m in facts.takers[cell]) for cell in cells),
        costs=tuple(
            tuple(
                level_counts([(facts.crossed[cell][m], facts.steps[cell])], facts.depth)
                for m in members
            )
            for cell in cells
        ),
        owner=tuple(position.get(facts.owner[cell], NOBODY) for cell in cells),
        before=(0,) * len(members),
        low=(0,) * len(members),
        high=tuple(len(cells) if caps is None else caps[m] for m in members),
        depth=facts.depth,
        local_first=caps is not None,
    )
    return Part(problem, cells, members)
