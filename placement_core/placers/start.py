"""Where a rotation begins: as told, as the topic's other partitions did, or as a seed says."""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Mapping

from placement_core.cluster import ClusterView
from placement_core.errors import InvalidOptionError
from placement_core.placement_spec import PlacementSpec
from placement_core.placers.alternation import Alternation

SAMPLE = 24
"""How many partitions are compared to find the shift that a topic was laid out with."""


def new_seed() -> int:
    """A seed that nobody has chosen. It stays with its placer, so that a plan can be repeated."""
    return secrets.randbelow(1 << 32)


def seeded(seed: int, spec: PlacementSpec, *purpose: object) -> random.Random:
    """A generator of its own for each topic and purpose, the same on every Python."""
    return random.Random(repr((seed, spec.topic, *purpose)))


def checked_start(name: str, value: int | None) -> None:
    """Raises InvalidOptionError where an index is given and is not a whole number from 0 on."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise InvalidOptionError(f"{name} is {value!r}: give a whole number, 0 or more")


def known_rows(spec: PlacementSpec, view: ClusterView) -> dict[int, tuple[int, ...]]:
    """The replica lists that the topic has before the placement, by partition."""
    target = range(spec.first_partition, spec.first_partition + spec.partitions)
    rows = {
        partition: tuple(row)
        for (topic, partition), row in view.replicas.items()
        if topic == spec.topic and partition not in target and row
    }
    rows.update({target[i]: row for i, row in enumerate(spec.present) if row})
    return dict(sorted(rows.items()))


def start_and_shift(
    ring: Alternation,
    spec: PlacementSpec,
    view: ClusterView,
    start_index: int | None,
    shift: int | None,
    seed: int,
) -> tuple[int, int]:
    """The start index and the shift of partition 0.

    Where either is given, the other is 0 unless it is given too. Where neither is, the
    topic's own partitions say where it began; without any, the seed does.
    """
    if start_index is not None or shift is not None:
        return start_index or 0, shift or 0
    known = known_rows(spec, view)
    start = _start_of(ring, known)
    if start is not None:
        return start, _shift_of(ring, known, start)
    draw = seeded(seed, spec)
    return draw.randrange(len(ring.order)), draw.randrange(len(ring.order))


def _start_of(ring: Alternation, known: Mapping[int, tuple[int, ...]]) -> int | None:
    """The start index that most leaders agree with: some may have been moved since."""
    place = {broker: index for index, broker in enumerate(ring.order)}
    votes = Counter(
        (place[row[0]] - partition) % len(place)
        for partition, row in known.items()
        if row[0] in place
    )
    return votes.most_common(1)[0][0] if votes else None


def _shift_of(ring: Alternation, known: Mapping[int, tuple[int, ...]], start: int) -> int:
    """The shift with which the rule comes closest to the first lists with followers."""
    sample = [(partition, row) for partition, row in known.items() if len(row) > 1][:SAMPLE]

    def agreeing(shift: int) -> int:
        return sum(
            ring.rows(PlacementSpec(1, len(row), first_partition=partition), start, shift) == [row]
            for partition, row in sample
            if len(row) <= len(ring.order)
        )

    return max(range(max(len(ring.order) - 1, 1)), key=agreeing)
