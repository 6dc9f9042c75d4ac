"""The grid of racks: racks beyond the limit are added up."""

from __future__ import annotations

from rack_traffic.report.charts import MAX_RACKS, rack_grid
from rack_traffic.report.model import PairTotal, Traffic, total


def pair(one: str | None, other: str | None, size: int) -> PairTotal:
    return PairTotal("main", "consume", one, other, Traffic(local_bytes=size))


def test_plain_racks_beyond_the_limit_are_added_up() -> None:
    pairs = [pair(f"r{n}", f"r{(n + 1) % 40}", n + 1) for n in range(40)]
    grid = rack_grid([*pairs, pair(None, "r1", 3)])
    assert len(grid.racks) == MAX_RACKS + 1
    assert grid.racks[-2:] == ("25 others", None)
    assert total(grid.cells.values()) == total(
        each.traffic for each in [*pairs, pair(None, "x", 3)]
    )
    assert grid.note == "40 racks: the 15 with the most bytes, and the sum of the others."


def test_racks_with_levels_beyond_the_limit_are_added_up_by_level() -> None:
    racks = [f"/dc{d}/room{m}/r{r}" for d in range(2) for m in range(3) for r in range(5)]
    grid = rack_grid([pair(one, other, 1) for one in racks for other in racks])
    assert grid.racks == tuple(f"/dc{d}/room{m}" for d in range(2) for m in range(3))
    assert grid.note == "30 racks, grouped by their first 2 levels."
    assert grid["/dc0/room0", "/dc0/room0"].bytes == 25
