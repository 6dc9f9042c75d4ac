"""Bytes per pair of racks, as the pipeline works them out and as brokers count them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Pair = tuple[str, str]
"""From a broker's rack to a client's."""

Bytes = dict[Pair, int]


@dataclass(frozen=True)
class Figures:
    """What a run came to: ``counted`` by brokers, and ``per_group`` by the pipeline."""

    counted: Mapping[Pair, int]
    per_group: Mapping[str, Mapping[Pair, int]]
    unknown: int
    """Bytes of which the pipeline does not know a rack."""
    payload: int
    """Bytes of records that each group read."""
    seconds: float
    snapshots: int

    @property
    def worked_out(self) -> Bytes:
        """What the pipeline says of all groups together."""
        sums: Bytes = {}
        for pairs in self.per_group.values():
            for pair, count in pairs.items():
                sums[pair] = sums.get(pair, 0) + count
        return sums

    def differences(self) -> dict[Pair, float]:
        """Per pair that carries a hundredth of all: how far the pipeline is off, as a share."""
        least, made = sum(self.counted.values()) / 100, self.worked_out
        return {
            pair: made.get(pair, 0) / count - 1
            for pair, count in sorted(self.counted.items())
            if count >= least
        }

    @property
    def difference(self) -> float:
        """The same of all pairs together."""
        return sum(self.worked_out.values()) / sum(self.counted.values()) - 1

    def told(self) -> str:
        """A table for people."""
        lines = [
            f"{self.seconds:.0f} s, {self.snapshots} snapshots, "
            f"{self.payload / 1e6:.1f} MB of records read by each of two groups",
            f"{'from':>6}{'to':>4}{'counted MB':>12}{'pipeline MB':>13}{'off by':>9}",
        ]
        off, worked_out = self.differences(), self.worked_out
        for pair, count in sorted(self.counted.items()):
            made = worked_out.get(pair, 0)
            share = f"{off[pair]:+.2%}" if pair in off else ""
            lines.append(
                f"{pair[0]:>6}{pair[1]:>4}{count / 1e6:>12.2f}{made / 1e6:>13.2f}{share:>9}"
            )
        counted, made = sum(self.counted.values()), sum(self.worked_out.values())
        lines.append(
            f"{'all':>10}{counted / 1e6:>12.2f}{made / 1e6:>13.2f}{self.difference:>+9.2%}"
        )
        for group, pairs in self.per_group.items():
            crossing = sum(count for (one, other), count in pairs.items() if one != other)
            lines.append(f"{group}: {crossing / max(1, sum(pairs.values())):.1%} crosses racks")
        return "\n".join(lines)


def counted(
    racks: Mapping[int, str | None],
    before: Mapping[tuple[str, int], int],
    after: Mapping[tuple[str, int], int],
) -> Bytes:
    """What brokers sent between two readings of their counters; ``racks`` are the brokers'."""
    sums: Bytes = {}
    for (rack, broker), count in after.items():
        pair = (str(racks[broker]), rack)
        sums[pair] = sums.get(pair, 0) + count - before[rack, broker]
    return sums


def per_pair(hourly: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> dict[str, Bytes]:
    """What each group read, by its name, out of rows of the table hourly."""
    found: dict[str, Bytes] = {}
    for row in _consumed(hourly):
        if row["from_rack"] is not None and row["to_rack"] is not None:
            of_group = found.setdefault(names[row["group"]], {})
            pair = (row["from_rack"], row["to_rack"])
            of_group[pair] = of_group.get(pair, 0) + row["bytes"]
    return found


def unknown_bytes(hourly: Iterable[Mapping[str, Any]]) -> int:
    """What was read where one of the racks is not known."""
    return sum(
        row["bytes"]
        for row in _consumed(hourly)
        if row["from_rack"] is None or row["to_rack"] is None
    )


def _consumed(hourly: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    return (row for row in hourly if row["kind"] == "consume")
