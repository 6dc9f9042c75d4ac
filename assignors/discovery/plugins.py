"""Racks out of plug-ins: the entry points of the group ``rackward.racks``.

Each is a callable that takes nothing and returns the rack, or None where it knows of none::

    [project.entry-points."rackward.racks"]
    our-inventory = "our_package.racks:own_rack"
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from assignors.discovery.source import RackSource, UnusableSource

GROUP = "rackward.racks"


@dataclass(frozen=True, slots=True)
class PluginSource:
    """The rack that an installed callable returns; loading it counts towards its time."""

    point: EntryPoint
    timeout: float = 1.0

    @property
    def name(self) -> str:
        """See RackSource."""
        return f"plug-in {self.point.name} ({self.point.value})"

    def ask(self, seconds: float) -> Any:  # noqa: ARG002
        """See RackSource; it may return anything."""
        return self.point.load()()


def installed_plugins() -> Iterable[RackSource]:
    """Every plug-in, by name."""
    try:
        found = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    except Exception as error:  # noqa: BLE001 - another package's metadata
        return [UnusableSource(f"plug-ins of {GROUP}", f"cannot be listed: {error!r:.200}")]
    return [PluginSource(point) for point in found]
