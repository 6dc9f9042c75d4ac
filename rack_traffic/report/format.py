"""Numbers and names for people: the same everywhere on the page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

UNKNOWN_RACK = "unknown"

SCENARIO_NAMES = {
    "as_is": "As it is",
    "apache_range": "Apache Range",
    "apache_cooperative_sticky": "Apache CooperativeSticky",
    "rackward_range": "rackward Range",
    "rackward_cooperative_sticky": "rackward CooperativeSticky",
    "rackward_after_leader_layout": "rackward after leader layout",
    "follower_fetching": "Follower fetching",
}
KIND_NAMES = {
    "consume": "Consumption",
    "replicate": "Replication",
    "produce": "Producing",
}
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def bytes_text(size: float) -> str:
    """Such as ``1.23 GB``: three digits, units of a thousand."""
    unit = 0
    while unit < len(_UNITS) - 1 and abs(size) >= 999.5:
        size /= 1000
        unit += 1
    if unit == 0:
        return f"{size:.0f} B"
    digits = 2 if abs(size) < 9.995 else 1 if abs(size) < 99.95 else 0
    return f"{size:,.{digits}f} {_UNITS[unit]}"


@dataclass(frozen=True, slots=True)
class Currency:
    """How money is written: ``$ 1,234`` without the space for a sign, ``EUR 1,234`` for a code."""

    sign: str = "$"

    @property
    def prefix(self) -> str:
        """What stands before the number."""
        return f"{self.sign} " if self.sign[-1:].isalnum() else self.sign

    def text(self, amount: float) -> str:
        """Whole from 100 on, to the cent below, and never "0.00" for what is more than nothing."""
        if amount < 0:
            return f"-{self.text(-amount)}"
        if 0 < amount < 0.005:
            return f"<{self.prefix}0.01"
        if amount >= 999_500:
            return f"{self.prefix}{amount / 1e6:,.2f} M"
        return f"{self.prefix}{amount:,.0f}" if amount >= 99.995 else f"{self.prefix}{amount:.2f}"


def percent(part: float | None) -> str:
    """A share such as ``12.3 %``; neither 0 nor 100 unless it is; a dash for None."""
    if part is None:
        return "–"  # noqa: RUF001
    if 0 < part < 0.0005:
        return "<0.1 %"
    if 0.9995 <= part < 1:
        return ">99.9 %"
    return f"{part * 100:.0f} %" if part in (0, 1) else f"{part * 100:.1f} %"


def time_text(moment: datetime) -> str:
    """To the minute; the page says once that all times are UTC."""
    return moment.strftime("%Y-%m-%d %H:%M")


def middle_cut(text: str, width: int) -> str:
    """``text`` in at most ``width`` characters; names that differ mostly do so at their ends."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def count(number: int, one: str, many: str | None = None) -> str:
    """``1 group``, ``1,234 groups``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def scenario_name(scenario: str) -> str:
    """For people; one that is not known yet keeps its own name."""
    return SCENARIO_NAMES.get(scenario, scenario.replace("_", " "))
