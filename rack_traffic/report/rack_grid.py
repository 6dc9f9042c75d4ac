"""Traffic between racks as a grid that is small enough to be read.

If there are too many racks, racks with levels are added up at their deepest level that gives few
enough; other racks with the least bytes are added up as "others".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from placement_core import parse_rack
from rack_traffic.report.model import PairTotal, Traffic

MAX_RACKS = 16


@dataclass(frozen=True, slots=True)
class RackGrid:
    """Traffic by (from, to) of ``racks``; None, the last of them, is the unknown rack.

    ``note`` is an explanation if some labels stand for several racks.
    """

    racks: tuple[str | None, ...]
    cells: Mapping[tuple[str | None, str | None], Traffic]
    note: str | None = None

    def __getitem__(self, pair: tuple[str | None, str | None]) -> Traffic:
        return self.cells.get(pair, Traffic())


def rack_grid(pairs: Iterable[PairTotal], max_racks: int = MAX_RACKS) -> RackGrid:
    """Return the grid of ``pairs`` with at most ``max_racks`` known racks."""
    pairs = list(pairs)
    sizes: dict[str, int] = {}
    for each in pairs:
        for rack in {each.from_rack, each.to_rack}:
            if rack is not None:
                sizes[rack] = sizes.get(rack, 0) + each.traffic.bytes
    labels, others, note = _labels(sizes, max_racks)
    cells: dict[tuple[str | None, str | None], Traffic] = {}
    for each in pairs:
        key = _label(labels, each.from_rack), _label(labels, each.to_rack)
        cells[key] = cells.get(key, Traffic()) + each.traffic
    named = sorted(set(labels.values()), key=lambda label: (label == others, label))
    unknown = any(None in key for key in cells)
    return RackGrid((*named, None) if unknown else tuple(named), cells, note)


def _labels(
    sizes: Mapping[str, int], max_racks: int
) -> tuple[dict[str, str], str | None, str | None]:
    """Return the label of each rack, the label of the "others" or None, and a note or None."""
    if len(sizes) <= max_racks:
        return {rack: rack for rack in sizes}, None, None
    paths = {rack: parse_rack(rack) or (rack,) for rack in sizes}
    for level in range(max(map(len, paths.values())) - 1, 0, -1):
        cut = {rack: "/" + "/".join(path[:level]) for rack, path in paths.items()}
        if 1 < len(set(cut.values())) <= max_racks:
            names = "level" if level == 1 else f"{level} levels"
            return cut, None, f"{len(sizes):,} racks, grouped by their first {names}."
    ranked = sorted(sizes, key=lambda rack: (-sizes[rack], rack))
    largest = ranked[: max_racks - 1]
    others = f"{len(sizes) - len(largest):,} others"
    labels = {rack: rack if rack in largest else others for rack in ranked}
    note = (
        f"{len(sizes):,} racks: the {len(largest)} with the most bytes, and the sum of the others."
    )
    return labels, others, note


def _label(labels: Mapping[str, str], rack: str | None) -> str | None:
    return None if rack is None else labels[rack]
