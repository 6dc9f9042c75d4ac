"""Racks by racks, few enough to be looked at: wide levels for deep racks, "others" for many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from placement_core import parse_rack
from rack_traffic.report.model import PairTotal, Traffic

MOST_RACKS = 16


@dataclass(frozen=True, slots=True)
class RackGrid:
    """Traffic between the rows and columns ``racks``; None, at the end, is unknown.

    ``cells`` is keyed by (from, to). ``note`` says where a label stands for several racks.
    """

    racks: tuple[str | None, ...]
    cells: Mapping[tuple[str | None, str | None], Traffic]
    note: str | None = None

    def __getitem__(self, pair: tuple[str | None, str | None]) -> Traffic:
        return self.cells.get(pair, Traffic())


def rack_grid(pairs: Iterable[PairTotal], most: int = MOST_RACKS) -> RackGrid:
    """The grid of ``pairs``, with at most ``most`` known racks.

    Too many racks with levels are told by the deepest level at which they are few enough; failing
    that, those with the least bytes are added up as others.
    """
    pairs = list(pairs)
    sizes: dict[str, int] = {}
    for each in pairs:
        for rack in {each.from_rack, each.to_rack}:
            if rack is not None:
                sizes[rack] = sizes.get(rack, 0) + each.traffic.bytes
    labels, others, note = _labels(sizes, most)
    cells: dict[tuple[str | None, str | None], Traffic] = {}
    for each in pairs:
        key = _label(labels, each.from_rack), _label(labels, each.to_rack)
        cells[key] = cells.get(key, Traffic()) + each.traffic
    named = sorted(set(labels.values()), key=lambda label: (label == others, label))
    unknown = any(None in key for key in cells)
    return RackGrid((*named, None) if unknown else tuple(named), cells, note)


def _labels(sizes: Mapping[str, int], most: int) -> tuple[dict[str, str], str | None, str | None]:
    """The label per rack; the one that stands for the rest, where there is one; and a note."""
    if len(sizes) <= most:
        return {rack: rack for rack in sizes}, None, None
    paths = {rack: parse_rack(rack) or (rack,) for rack in sizes}
    for level in range(max(map(len, paths.values())) - 1, 0, -1):
        cut = {rack: "/" + "/".join(path[:level]) for rack, path in paths.items()}
        if 1 < len(set(cut.values())) <= most:
            names = "level" if level == 1 else f"{level} levels"
            return cut, None, f"{len(sizes):,} racks, shown by their first {names}."
    ranked = sorted(sizes, key=lambda rack: (-sizes[rack], rack))
    kept = ranked[: most - 1]
    others = f"{len(sizes) - len(kept):,} others"
    labels = {rack: rack if rack in kept else others for rack in ranked}
    note = f"{len(sizes):,} racks: the {len(kept)} with the most bytes, and the others."
    return labels, others, note


def _label(labels: Mapping[str, str], rack: str | None) -> str | None:
    return None if rack is None else labels[rack]
