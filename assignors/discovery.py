"""Where this process stands: the rack that a member tells its group."""

from __future__ import annotations

from collections.abc import Mapping

RACK_VARIABLE = "RACKWARD_RACK"


def find_rack(environ: Mapping[str, str]) -> str | None:
    """The rack that ``environ`` names in ``RACKWARD_RACK``, or None: not known."""
    return environ.get(RACK_VARIABLE, "").strip() or None
