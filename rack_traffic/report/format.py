"""Formats of numbers and names on the page and in findings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

UNKNOWN_RACK = "unknown"

SCENARIO_NAMES = {
    "as_is": "Current assignment",
    "apache_range": "Apache Range",
    "apache_cooperative_sticky": "Apache CooperativeSticky",
    "rackward_range": "rackward Range",
    "rackward_cooperative_sticky": "rackward CooperativeSticky",
    "rackward_by_bytes": "rackward CooperativeSticky by bytes",
    "rackward_after_leader_layout": "rackward after leader layout",
    "leader_layout": "Leader layout for current owners",
    "follower_fetching": "Follower fetching",
    "rack_aware_producers": "Rack-aware producers",
}
KIND_NAMES = {
    "consume": "Consumption",
    "replicate": "Replication",
    "produce": "Producing",
}
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def bytes_text(size: float) -> str:
    """Return a text such as ``1.23 GB``: three digits, decimal units."""
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
    """A currency symbol, written as ``$1,234``, or a code, written as ``EUR 1,234``."""

    sign: str = "$"

    @property
    def prefix(self) -> str:
        """Return the text before the number."""
        return f"{self.sign} " if self.sign[-1:].isalnum() else self.sign

    def text(self, amount: float) -> str:
        """Return the amount with cents if below 100; a positive amount is never shown as 0.00."""
        if amount < 0:
            return f"-{self.text(-amount)}"
        if 0 < amount < 0.005:
            return f"<{self.prefix}0.01"
        if amount >= 999_500:
            return f"{self.prefix}{amount / 1e6:,.2f} M"
        return f"{self.prefix}{amount:,.0f}" if amount >= 99.995 else f"{self.prefix}{amount:.2f}"


def hours_text(hours: float) -> str:
    """Return a duration such as ``12 minutes``, ``5 hours`` or ``3 days``."""
    if hours < 1:
        return count(max(1, round(hours * 60)), "minute")
    return count(round(hours), "hour") if hours < 48 else count(round(hours / 24), "day")


def group_name(cluster: str, group: str, several_clusters: bool) -> str:
    """Return the name of a group, with its cluster if there are several."""
    return f"{cluster} / {group}" if several_clusters else group


def percent(part: float | None) -> str:
    """Return a share such as ``12.3 %``; never 0 or 100 by rounding; a dash for None."""
    if part is None:
        return "–"  # noqa: RUF001
    if 0 < part < 0.0005:
        return "<0.1 %"
    if 0.9995 <= part < 1:
        return ">99.9 %"
    return f"{part * 100:.0f} %" if part in (0, 1) else f"{part * 100:.1f} %"


def time_text(moment: datetime) -> str:
    """Return a time to the minute, without its zone: all times of the page are UTC."""
    return moment.strftime("%Y-%m-%d %H:%M")


def cut_middle(text: str, width: int) -> str:
    """Return ``text`` in at most ``width`` characters, both ends kept: names differ there."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a text such as ``1 group`` or ``1,234 groups``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def scenario_name(scenario: str) -> str:
    """Return the display name of a scenario; an unknown one keeps its name."""
    return SCENARIO_NAMES.get(scenario, scenario.replace("_", " "))
