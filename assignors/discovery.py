"""Where this process stands: the rack that a member tells its group."""

from __future__ import annotations

from collections.abc import Mapping

from placement_core import InvalidOptionError

RACK_VARIABLE = "RACKWARD_RACK"


def find_rack(environ: Mapping[str, str]) -> str | None:
    """The rack that ``environ`` names in ``RACKWARD_RACK``, or None: not known."""
    return environ.get(RACK_VARIABLE, "").strip() or None


def chosen_rack(rack: object, environ: Mapping[str, str]) -> str | None:
    """``rack`` if it is given, else what :func:`find_rack` finds.

    Raises InvalidOptionError where ``rack`` is neither a string nor None.
    """
    if rack is None:
        return find_rack(environ)
    if not isinstance(rack, str):
        raise InvalidOptionError(f"rack is {rack!r}: give a string, or None to look for it")
    return rack
