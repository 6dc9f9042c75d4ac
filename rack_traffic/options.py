"""How far the estimates trust what they see."""

from __future__ import annotations

from dataclasses import dataclass

from rack_traffic.errors import TrafficError


@dataclass(frozen=True, slots=True)
class Beliefs:
    """The limits of what is believed.

    longest_gap_hours
        An interval longer than this is not spread over its hours: its offsets are counted, as
        unsized.
    fastest_bytes_per_second
        An interval in which one partition was read faster than this was not read: somebody set
        the offset forward.

    Raises TrafficError where a value is not positive.
    """

    longest_gap_hours: float = 24.0
    fastest_bytes_per_second: float = 1e9

    def __post_init__(self) -> None:
        for name in ("longest_gap_hours", "fastest_bytes_per_second"):
            if not getattr(self, name) > 0:
                raise TrafficError(f"{name} is {getattr(self, name)!r}: give a positive number")

    @property
    def longest_gap(self) -> int:
        """``longest_gap_hours`` in microseconds."""
        return int(self.longest_gap_hours * 3.6e9)
